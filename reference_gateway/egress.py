"""The guarded HTTP client: the only way out of the gateway.

Every request's URL is judged before it is sent, and every connection is made to an address that was judged, not to a name that
is resolved again. Redirects are never followed and proxy settings of the environment are ignored. In development a host can be
*mapped*: only where its connections go changes; URL rules and the certificate still judge the real name.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpcore2
import httpx2

from reference_gateway.addresses import LOOPBACK, public_address, refused_host
from reference_gateway.bounded import TooLarge, Undecodable, read_bounded
from reference_gateway.errors import GatewayError

__all__ = ["Egress", "EgressRefused", "Resolver", "TooLarge", "Undecodable", "UrlRejected", "read_bounded", "split_url"]

CONNECT_TIMEOUT_S = 10.0
MAX_URL = 2048
MAX_CONNECTIONS = 200

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to every address the host has, as text, in order of preference. Raises OSError when it has none."""

_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\^`{|}<>\"]|[^\x00-\x7f]")
_AUTHORITY = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:@%]+)(?::(?P<port>[0-9]{1,5}))?")
_PORTS: Mapping[str, int] = {"https": 443, "http": 80}


class UrlRejected(GatewayError):
    """This URL is never dialled. `reason` names the rule; the URL itself is not repeated, for it may hold a secret."""

    http_status = 422

    def __init__(self, code: str, reason: str, *, where: str = "url") -> None:
        super().__init__(code, f"the URL is refused: {reason}", where=where, fix="use the provider's public https address")
        self.reason = reason


class EgressRefused(httpx2.ConnectError):
    """A connection that was not made, because of where it would have gone. To callers it is a failed connection."""


async def _system_resolver(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class Egress:
    """One per process: one client, one pool, one TLS context (and a second for mapped hosts when there are any).

    `mapped`: host, or `*.suffix` for exactly one label, to (address, port). `ca_file`: PEM authorities trusted for mapped hosts
    only. `allow_loopback`: `http://127.0.0.1:PORT` may be dialled too. Raises GatewayError `invalid_field` for an unreadable CA.
    """

    def __init__(
        self,
        mapped: Mapping[str, tuple[str, int]] | None = None,
        ca_file: str | None = None,
        allow_loopback: bool = False,
        *,
        resolver: Resolver = _system_resolver,
        dialler: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        """`resolver` and `dialler` are the two places where the gateway touches the network."""
        self._mapped = {host.lower(): target for host, target in (mapped or {}).items()}
        self._allow_loopback = allow_loopback
        self._judged: set[tuple[str, str, int | None]] = set()
        backend = _GuardedBackend(self, resolver, dialler or httpcore2.AnyIOBackend(), _context(ca_file) if self._mapped else None)
        self._client = httpx2.AsyncClient(
            transport=_GuardedTransport(_context(None), backend),
            trust_env=False,
            follow_redirects=False,
            # Deadlines belong to the caller, on its own clock; only connecting is bounded here.
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
            headers={"accept-encoding": "identity"},
            event_hooks={"request": [self._guard]},
        )

    @property
    def client(self) -> httpx2.AsyncClient:
        return self._client

    @property
    def mapped_hosts(self) -> list[str]:
        return sorted(self._mapped)

    async def aclose(self) -> None:
        await self._client.aclose()

    def check_url(self, url: str) -> None:
        """Returns if the gateway may send requests there; raises UrlRejected `url_rejected` with the rule that forbids it."""
        scheme, host, _port = split_url(url)
        self._check_place(scheme, host)

    def _check_place(self, scheme: str, host: str) -> None:
        if self._allow_loopback and host == LOOPBACK:
            return
        if scheme != "https":
            raise UrlRejected("url_rejected", "the scheme is not https")
        if reason := refused_host(host):
            raise UrlRejected("url_rejected", reason)

    async def _guard(self, request: httpx2.Request) -> None:
        # Also for URLs that a library took from an answer. The parsed URL is what is dialled, so that is what is judged.
        url = request.url
        if url.userinfo:
            raise UrlRejected("url_rejected", "it holds a user name or password")
        place = (url.scheme, url.raw_host.decode("ascii", "replace").lower(), url.port)
        if place not in self._judged:
            self._check_place(place[0], place[1].strip("[]"))
            if len(self._judged) < 10_000:
                self._judged.add(place)

    def is_mapped(self, host: str) -> bool:
        return self.mapped_target(host) is not None

    def mapped_target(self, host: str) -> tuple[str, int] | None:
        """Where connections to `host` go instead, if it is mapped."""
        host = host.lower()
        _, _, suffix = host.partition(".")
        return self._mapped.get(host) or (self._mapped.get(f"*.{suffix}") if suffix else None)

    def may_dial(self, host: str, address: str) -> bool:
        """Whether a connection for `host` may go to this address; a *name* never leads to loopback, whatever is allowed."""
        return public_address(address) or (self._allow_loopback and host == LOOPBACK == address)


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


def _context(ca_file: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is not None:
        try:
            context.load_verify_locations(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise GatewayError(
                "invalid_field", "the file holds no readable PEM certificates", where="--map-ca", fix="name a PEM file", http_status=422
            ) from error
    return context


class _GuardedTransport(httpx2.AsyncHTTPTransport):
    """httpx2's own transport over a pool with our backend, for which httpx2 itself has no argument."""

    def __init__(self, context: ssl.SSLContext, backend: httpcore2.AsyncNetworkBackend) -> None:
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_CONNECTIONS,
            keepalive_expiry=60.0,
            network_backend=backend,
        )


class _GuardedBackend(httpcore2.AsyncNetworkBackend):
    def __init__(
        self, egress: Egress, resolver: Resolver, dialler: httpcore2.AsyncNetworkBackend, mapped_context: ssl.SSLContext | None
    ) -> None:
        self._egress = egress
        self._resolver = resolver
        self._mapped_context = mapped_context
        self._tcp = dialler

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        if target := self._egress.mapped_target(host):
            if port != 443:
                raise EgressRefused(f"{host} is mapped for port 443 only")
            stream = await self._tcp.connect_tcp(*target, timeout=timeout, local_address=local_address, socket_options=socket_options)
            return _MappedStream(stream, self._mapped_context)
        failure: Exception = EgressRefused(f"{host} has no address")
        for address in await self._addresses(host, port):
            try:
                return await self._tcp.connect_tcp(
                    address, port, timeout=timeout, local_address=local_address, socket_options=socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        """Resolved once and judged as a whole: a mixed answer is an attack or an accident, and either way not dialled."""
        try:
            found = [host] if _is_literal(host) else list(dict.fromkeys(await self._resolver(host, port)))
        except (OSError, UnicodeError) as error:
            raise EgressRefused(f"{host} cannot be resolved") from error
        if not all(self._egress.may_dial(host, address) for address in found):
            raise EgressRefused(f"{host} leads to an address that is not public")
        return found

    async def sleep(self, seconds: float) -> None:
        await self._tcp.sleep(seconds)


class _MappedStream(httpcore2.AsyncNetworkStream):
    """A connection to a mapped host. It alone trusts the development authorities, and it still checks the real name."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, context: ssl.SSLContext | None) -> None:
        self._stream = stream
        self._context = context

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return await self._stream.start_tls(self._context or ssl_context, server_hostname, timeout)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _is_literal(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()
