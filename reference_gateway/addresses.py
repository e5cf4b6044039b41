"""Which names and addresses the gateway may ever dial. Default deny: what is not known to be public is refused.

The interpreter's own `is_global` is not enough: it lets translated (NAT64, 6to4) and embedded addresses through, and one cloud's
host service that lives on a globally routed address.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_REFUSED_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
        "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24",
        "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "168.63.129.16/32",  # a cloud's host service, globally routed on paper
    )
)  # fmt: skip
# Of IPv6 only global unicast is public; of that, these carry other addresses inside them or are not meant to be reached.
_UNICAST_V6 = IPv6Network("2000::/3")
_REFUSED_V6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"))

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER_LABEL = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DOTTED_QUAD = re.compile(r"(?:0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,2})){3}")
# Names that mean "here" or "nearby" whatever a resolver says.
_LOCAL_SUFFIXES = ("localhost", "localdomain", "local", "internal", "intranet", "lan", "home", "corp", "home.arpa", "onion")

LOOPBACK = "127.0.0.1"
"""The one loopback spelling that `--allow-loopback` opens."""


def public_address(text: str) -> bool:
    """Whether an address, in its canonical text, is public unicast. Anything that is not an address is not."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return address.is_global and not any(address in network for network in _REFUSED_V4)
    return _public_v6(address)


def _public_v6(address: IPv6Address) -> bool:
    if address.scope_id is not None or address not in _UNICAST_V6:
        return False
    return address.is_global and not any(address in network for network in _REFUSED_V6)


def refused_host(host: str) -> str | None:
    """Why this host, as spelled in a URL (lower case, IPv6 without brackets), may not be dialled; None when it may be resolved.

    A literal is judged as an address. A name is judged by its spelling only: the address it resolves to is judged when dialling.
    """
    if not host:
        return "the host is missing"
    if ":" in host:
        return None if public_address(host) else "the address is not public"
    if not host.isascii():
        return "the host is not plain ASCII"
    if host.endswith("."):
        return "the host ends with a dot"
    labels = host.split(".")
    if _DOTTED_QUAD.fullmatch(host):
        return None if public_address(host) else "the address is not public"
    if _NUMBER_LABEL.fullmatch(labels[-1]):
        return "the host is a disguised address"
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        return "the host is not a well-formed name"
    if any(label.startswith("xn--") for label in labels):
        return "the host is an encoded international name"
    if len(labels) == 1:
        return "the host is not a full name"
    if any(host.endswith(f".{suffix}") for suffix in _LOCAL_SUFFIXES):
        return "the host is a local name"
    return None
