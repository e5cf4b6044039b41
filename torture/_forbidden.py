"""Addresses that must never be dialled, and the many ways to write them. Drawn up apart from the gateway's own tables, on purpose."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_network


def _words(table: str) -> list[str]:
    return table.split()


_V4 = _words("""
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16
    198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 255.255.255.255/32 168.63.129.16/32
""")
_V6 = _words("""
    ::/128 ::1/128 ::/96 ::ffff:0:0/96 ::ffff:0:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/32 2001:2::/48 2001:10::/28 2001:20::/28
    2001:db8::/32 2002::/16 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8
""")


def address_v4(rng: random.Random) -> IPv4Address:
    network = ip_network(rng.choice(_V4))
    return IPv4Address(int(network.network_address) + rng.randrange(network.num_addresses))


def address_v6(rng: random.Random) -> IPv6Address:
    """Of a special range, or one that carries an IPv4 address that must not be dialled: mapped, NAT64, 6to4, Teredo, compatible."""
    inner = int(address_v4(rng))
    carriers: Sequence[Callable[[], int]] = (
        lambda: (0xFFFF << 32) | inner,
        lambda: (0x64FF9B << 96) | inner,
        lambda: (0x64FF9B0001 << 80) | inner,
        lambda: (0x2002 << 112) | (inner << 80) | rng.getrandbits(80),
        lambda: (0x20010000 << 96) | (rng.getrandbits(64) << 32) | (inner ^ 0xFFFFFFFF),
        lambda: inner,
    )
    if rng.random() < 0.5:
        return IPv6Address(rng.choice(carriers)())
    network = ip_network(rng.choice(_V6))
    return IPv6Address(int(network.network_address) + rng.randrange(network.num_addresses))


def public(rng: random.Random) -> str:
    """One that nobody reserved: of ranges that were given to providers long ago."""
    if rng.random() < 0.3:
        return str(IPv6Address((rng.choice((0x2606, 0x2A00, 0x2404, 0x2800)) << 112) | (0x4700 << 96) | rng.getrandbits(64)))
    return str(IPv4Address((rng.choice((8, 23, 34, 52, 93, 104, 151, 185)) << 24) | rng.randrange(1, 1 << 24)))


def hosts(address: IPv4Address, rng: random.Random) -> Iterator[str]:
    """The address as a URL's host, as C libraries and lenient readers take it."""
    a, b, c, d = address.packed
    number = int(address)
    yield str(address)
    yield str(number)
    yield f"0x{number:08x}"
    yield f"0{number:011o}"
    yield f"0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"
    yield f"0{a:o}.0{b:o}.0{c:o}.0{d:o}"
    yield f"{a}.{number & 0xFFFFFF}"
    yield f"{a}.{b}.{number & 0xFFFF}"
    yield f"0x{a:x}.{b}.0{c:o}.{d}"
    yield f"{a:03d}.{b:03d}.{c:03d}.{d:03d}"
    yield f"{address}."
    yield str(address).translate({ord(digit): 0xFF10 + int(digit) for digit in "0123456789"})
    yield str(address).replace(".", rng.choice("\u3002\uff0e\uff61"))
    yield "".join(f"%{ord(sign):02x}" for sign in str(address))
    yield f"[::ffff:{address}]"
    yield f"[::{address}]"
    yield f"[64:ff9b::{address}]"
    yield f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::]"


def urls(host: str, rng: random.Random) -> Iterator[str]:
    """The host in the places where a URL may hide one."""
    yield f"https://{host}/"
    yield f"https://{host}:443/mcp"
    yield f"HTTPS://{host}/mcp?x=1"
    yield f"https://user@{host}/"
    yield f"https://mcp.example.com@{host}/"
    yield f"https://mcp.example.com:443@{host}/"
    yield f"https://mcp.example.com\\@{host}/"
    yield f"https://{host}#@mcp.example.com/"
    yield f"https://{host}:{rng.choice((22, 25, 80, 6379, 8080, 8443, 11211, 65535))}/"
    yield f"http://{host}/"
    yield f" https://{host}/"
    yield f"https://{host}\t/"
    yield f"https:\\\\{host}/"
