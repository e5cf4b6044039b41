"""The guarded HTTP client: the only way out of the gateway.

Every request's URL is judged before it is sent, and every connection is made to an address that was judged, not to a name that
is resolved again. Redirects are never followed and proxy settings of the environment are ignored. In development a host can be
*mapped*: only where its connections go changes; URL rules and the certificate still judge the real name.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

import httpcore2
import httpx2

from reference_gateway import __version__
from reference_gateway.addresses import LOOPBACK, public_address, refused_host
from reference_gateway.bounded import TooLarge, Undecodable, read_bounded
from reference_gateway.defects import Defects
from reference_gateway.egress_defects import is_global, lines_for
from reference_gateway.egress_lab import Lab, Resolver
from reference_gateway.egress_transport import EgressRefused, GuardedBackend, GuardedTransport
from reference_gateway.errors import GatewayError
from reference_gateway.urls import UrlRejected, default_port, split_url

__all__ = ["Egress", "EgressRefused", "Resolver", "TooLarge", "Undecodable", "UrlRejected", "read_bounded", "split_url"]

CONNECT_TIMEOUT_S = 10.0
TOTAL_S = 120.0
"""Real seconds that any exchange may take. Deadlines that mean something are the caller's, on its own clock."""
CEILING = 16 * 1024 * 1024
"""Bytes that any answer may unpack to; callers allow less."""
PORTS = frozenset({443})

Connector = Callable[..., Awaitable[object]]
"""asyncio's `create_connection`, or what stands for it in a test."""


async def _system_resolver(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class Egress:
    """One per process: one client, one pool, one TLS context (and a second for mapped hosts when there are any).

    `mapped`: host, or `*.suffix` for exactly one label, to (address, port). `ca_file`: PEM authorities trusted for mapped hosts
    only. `allow_loopback`: `http://127.0.0.1:PORT` may be dialled too, whatever the port. `ports`: those of all other URLs. `lab`: names
    and addresses may be scripted. Raises GatewayError `invalid_field` for an unreadable CA.
    """

    def __init__(
        self,
        mapped: Mapping[str, tuple[str, int]] | None = None,
        ca_file: str | None = None,
        allow_loopback: bool = False,
        *,
        ports: Collection[int] = PORTS,
        lab: bool = False,
        defects: Defects | None = None,
        total_s: float = TOTAL_S,
        ceiling: int = CEILING,
        resolver: Resolver = _system_resolver,
        dialler: httpcore2.AsyncNetworkBackend | None = None,
        connector: Connector | None = None,
    ) -> None:
        """`resolver`, `dialler` (for `client`) and `connector` (for `lines`) are the places where the gateway touches the network."""
        self._mapped = {host.lower(): target for host, target in (mapped or {}).items()}
        self._allow_loopback = allow_loopback
        self._ports = frozenset(ports)
        self._defects = defects or Defects()
        self._judged: set[tuple[str, str, int | None]] = set()
        self.lab = Lab(resolver) if lab else None
        self._tls, self._mapped_tls = _context(None), _context(ca_file) if self._mapped else None
        tcp, recheck = dialler or httpcore2.AnyIOBackend(), "check-then-resolve" in self._defects
        self._backend, self._connector = GuardedBackend(self, self.lab, resolver, tcp, self._mapped_tls, recheck=recheck), connector
        self.lines = lines_for(self._defects, self.dial, agent=f"reference-gateway/{__version__}", total_s=total_s)
        self._client = httpx2.AsyncClient(
            transport=GuardedTransport(self._tls, self._backend, total_s=total_s, ceiling=ceiling),
            trust_env=False,
            follow_redirects="redirect-followed" in self._defects,
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

    def development(self) -> dict[str, Any]:
        """What of the rules is loosened or replaced on purpose; shown in health, and so in every report."""
        return {
            "allow_loopback": self._allow_loopback,
            "mapped_hosts": self.mapped_hosts,
            "ports": sorted(self._ports - PORTS),
            "lab": self.lab is not None,
        }

    def loosened(self, host: str) -> list[str]:
        """The development settings that a connection to this host rests on; for the record of each call."""
        words = ["allow_loopback"] if host == LOOPBACK and self._allow_loopback else []
        return [*words, "mapped"] if self.is_mapped(host) else words

    async def aclose(self) -> None:
        self.lines.close()
        await self._client.aclose()

    async def dial(self, scheme: str, host: str, port: int, factory: Callable[[], asyncio.Protocol]) -> object:
        """A connection for `lines`, under the same rules as one for `client`. Raises UrlRejected and OSError."""
        self._check_place(scheme, host, port)
        connect: Connector = self._connector or asyncio.get_running_loop().create_connection
        target, tls = self.mapped_target(host), self._tls
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            try:
                if target is None:
                    places = await self._backend.places(host, port)
                elif port == 443:
                    places, tls = [target], self._mapped_tls or tls
                else:
                    raise EgressRefused(f"{host} is mapped for port 443 only")
            except EgressRefused as refused:
                raise PermissionError(str(refused)) from refused
            failure: OSError = ConnectionError(f"{host} has no address")
            secure: dict[str, Any] = {"ssl": tls, "server_hostname": host} if scheme == "https" else {}
            for place in places:
                try:
                    return await connect(factory, *place, **secure)
                except OSError as error:
                    failure = error
        raise failure

    def check_url(self, url: str) -> None:
        """Returns if the gateway may send requests there; raises UrlRejected `url_rejected` with the rule that forbids it."""
        self._check_place(*split_url(url))

    def _check_place(self, scheme: str, host: str, port: int) -> None:
        if self._allow_loopback and host == LOOPBACK:
            return
        if scheme != "https":
            raise UrlRejected("url_rejected", "the scheme is not https")
        if reason := refused_host(host):
            raise UrlRejected("url_rejected", reason)
        if port not in self._ports:
            raise UrlRejected("url_rejected", "the port is not one that providers are expected at")

    async def _guard(self, request: httpx2.Request) -> None:
        # Also for URLs that a library took from an answer. The parsed URL is what is dialled, so that is what is judged.
        url = request.url
        if url.userinfo:
            raise UrlRejected("url_rejected", "it holds a user name or password")
        place = (url.scheme, url.raw_host.decode("ascii", "replace").lower(), url.port)
        if place not in self._judged:
            self._check_place(place[0], place[1].strip("[]"), url.port or default_port(url.scheme))
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
        if "is-global-guard" in self._defects:
            return is_global(address)
        return public_address(address) or (self._allow_loopback and host == LOOPBACK == address)


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
