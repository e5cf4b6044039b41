"""One strict reading of URLs: whatever two readers might read differently is refused, so that what was judged is what is dialled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx2

from reference_gateway.errors import GatewayError

MAX_URL = 2048

_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\^`{|}<>\"]|[^\x00-\x7f]")
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:@%]+)(?::(?P<port>[0-9]{1,5}))?")
_PORTS: Mapping[str, int] = {"https": 443, "http": 80}


class UrlRejected(GatewayError):
    """This URL is never dialled. `reason` names the rule; the URL itself is not repeated, for it may hold a secret."""

    http_status = 422

    def __init__(self, code: str, reason: str, *, where: str = "url") -> None:
        super().__init__(code, f"the URL is refused: {reason}", where=where, fix="use the provider's public https address")
        self.reason = reason


def split_url(url: str) -> tuple[str, str, int]:
    """(scheme, host, port) of an absolute http(s) URL: lower case, IPv6 without brackets.

    Raises UrlRejected `url_rejected` for whatever two readers of URLs might read differently.
    """
    if not isinstance(url, str) or not 0 < len(url) <= MAX_URL:
        raise UrlRejected("url_rejected", f"it is empty or longer than {MAX_URL} characters")
    if _FORBIDDEN.search(url):
        raise UrlRejected("url_rejected", "it holds a blank, control, backslash or non-ASCII character")
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _PORTS:
        raise UrlRejected("url_rejected", "the scheme is not https")
    if "#" in url:
        raise UrlRejected("url_rejected", "it has a fragment")
    authority = re.split(r"[/?]", rest, maxsplit=1)[0]
    if "@" in authority:
        raise UrlRejected("url_rejected", "it holds a user name or password")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise UrlRejected("url_rejected", "the host is not well-formed")
    host = parts["host"].strip("[]").lower()
    port = int(parts["port"]) if parts["port"] else _PORTS[scheme]
    if not 0 < port < 65536:
        raise UrlRejected("url_rejected", "the port is out of range")
    _same_to_others(url, host, port)
    return scheme, host, port


def default_port(scheme: str) -> int:
    """Of a scheme that `split_url` lets through; 0 of any other."""
    return _PORTS.get(scheme, 0)


def _same_to_others(url: str, host: str, port: int) -> None:
    """What we judged must be what the client dials, so both of its possible readers have to agree with us."""
    try:
        ours = urlsplit(url)
        theirs = httpx2.URL(url)
        seen = {(ours.hostname, ours.port or _PORTS[ours.scheme]), (theirs.host.strip("[]").lower(), theirs.port or _PORTS[theirs.scheme])}
    except (ValueError, KeyError, httpx2.InvalidURL) as error:
        raise UrlRejected("url_rejected", "it is not a well-formed URL") from error
    if seen != {(host, port)}:
        raise UrlRejected("url_rejected", "it can be read in more than one way")
