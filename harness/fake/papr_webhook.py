"""Papr's batch webhook: where it may lead, and its delivery through ports, so that nothing here ever dials by itself.

A host is resolved once, every address is judged, and the connector is given the judged address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from harness.fake.kit import JsonObject

Resolve = Callable[[str], Awaitable[Sequence[str]]]
"""Host → its addresses as text. Raises OSError."""
Connect = Callable[[str, str, Mapping[str, str], JsonObject], Awaitable[int]]
"""(address to dial, URL, headers, body) → HTTP status. Raises OSError."""


class Unfit(ValueError):
    """The URL leads nowhere that a webhook may go; the message says why and does not repeat it."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """`not_dialled`: there was nothing to dial with. `status` is the receiver's, if there was one."""

    url: str
    outcome: Literal["delivered", "failed", "not_dialled"]
    status: int | None = None


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Without `resolve` and `connect`, names are judged by their spelling and nothing is dialled."""

    resolve: Resolve | None = None
    connect: Connect | None = None

    async def judge(self, url: str) -> str:
        """The address that may be dialled ("" without a resolver). Raises Unfit."""
        host = _host(url)
        literal = _literal(host)
        addresses = [host] if literal or self.resolve is None else await self._resolved(host)
        if (literal or self.resolve is not None) and not (addresses and all(_public(each) for each in addresses)):
            raise Unfit("it leads to an address that is not public")
        return "" if self.resolve is None and not literal else addresses[0]

    async def deliver(self, url: str, address: str, secret: str | None, body: JsonObject) -> Delivery:
        """One POST, never repeated. `address` is what `judge` answered."""
        if self.connect is None or not address:
            return Delivery(url, "not_dialled")
        headers = {"Content-Type": "application/json", **({"X-Webhook-Secret": secret} if secret is not None else {})}
        try:
            status = await self.connect(address, url, headers, body)
        except OSError:
            return Delivery(url, "failed")
        return Delivery(url, "delivered" if 200 <= status < 300 else "failed", status)

    async def _resolved(self, host: str) -> Sequence[str]:
        assert self.resolve is not None
        try:
            return await self.resolve(host)
        except OSError as error:
            raise Unfit("its host has no address") from error


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError as error:
        raise Unfit("it is no URL") from error
    if parts.scheme != "https":
        raise Unfit("the scheme is not https")
    if parts.username is not None or parts.password is not None or port not in (None, 443):
        raise Unfit("it holds a user, a password or a port")
    if not host or host.endswith(".") or ("." not in host and ":" not in host) or host.rpartition(".")[2] in ("localhost", "local", "internal"):
        raise Unfit("its host is not a public name")
    if not _literal(host) and host.rpartition(".")[2].isdigit():
        raise Unfit("its host is an odd spelling of an address")
    return host


def _literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _public(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.is_global and not address.is_multicast and getattr(address, "ipv4_mapped", None) is None
