"""How well a connection's provider did last, and the regular look at it. Health is told to operators; it hides and refuses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio

from reference_gateway.audit import AuditLog
from reference_gateway.clock import Clock, Deadline, Timer
from reference_gateway.connection import Connection
from reference_gateway.errors import GatewayError
from reference_gateway.log import logger
from reference_gateway.operators import actor
from reference_gateway.provider import Answer
from reference_gateway.wire import UpstreamFailure

EVERY_S = 900.0
CHECK_S = 10.0
REAL_S = 3.0
"""A check that answers later than this, by real time, is left for the next one: a clock that stands still must not wait for it."""
MAX_AT_ONCE = 16

log = logger("health")


def observe(connection: Connection, answer: Answer | UpstreamFailure | None) -> None:
    """After a call; None: it did not answer in time. A provider that says `isError` has answered well enough to say so."""
    if answer is None:
        ail(connection, "tool_timeout")
    elif isinstance(answer, UpstreamFailure):
        ail(connection, answer.reason)
    elif answer.result.get("isError") is not True:
        heal(connection)


def ail(connection: Connection, reason: str) -> None:
    connection.health, connection.health_reason = "error", reason


def heal(connection: Connection) -> None:
    connection.health, connection.health_reason = "ok", None


class Checks:
    """`connections` lists all there are at the time of asking."""

    def __init__(self, connections: Callable[[], list[Connection]], audit: AuditLog, clock: Clock) -> None:
        self._connections = connections
        self._audit = audit
        self._clock = clock
        self._timer: Timer | None = None
        self._round: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._timer = self._clock.call_later(EVERY_S, self._due, lasting=True)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._round is not None:
            self._round.cancel()
            await asyncio.wait({self._round})

    async def one(self, connection: Connection, by: str | None = None) -> dict[str, Any]:
        """The answer of the route; what the schedule does, too. The catalog stays as it is, whatever the provider lists."""
        if connection.status != "active":
            raise GatewayError(
                "state_conflict", f"the connection is {connection.status}", where=connection.name, fix="make it active first", http_status=409
            )
        probed, code = False, None
        try:
            with anyio.move_on_after(REAL_S), Deadline(self._clock, CHECK_S):
                probed = await connection.client.check()
                heal_after_check(connection, probed=probed)
                return self._told(connection, probed=probed, code=None, by=by)
            code = "provider_unreachable"
        except UpstreamFailure as failure:
            code = failure.reason
        except GatewayError as error:
            code = error.code
        ail(connection, code)
        return self._told(connection, probed=probed, code=code, by=by)

    def _told(self, connection: Connection, *, probed: bool, code: str | None, by: str | None) -> dict[str, Any]:
        self._audit.append(
            tenant=connection.tenant,
            actor=by or actor(),
            connection=connection.name,
            provider=connection.settings.provider,
            event="connection_checked",
            outcome="failure" if code else "success",
            decision="allow",
            reason=code or "connection_checked",
            details={"probed": probed, "health": connection.health, **({"code": code} if code else {})},
        )
        return {"status": connection.status, "health": connection.health, "health_reason": connection.health_reason, "probed": probed}

    def _due(self) -> None:
        timer = self._timer
        self._round = asyncio.ensure_future(self._all())
        if timer is not None:
            self._round.add_done_callback(lambda _: timer.done.set())
        self.start()

    async def _all(self) -> None:
        due = [each for each in self._connections() if each.status == "active" and not each.revoked]
        gate = asyncio.Semaphore(MAX_AT_ONCE)

        async def one(connection: Connection) -> None:
            async with gate:
                try:
                    await self.one(connection, by="gateway")
                except GatewayError as error:  # it changed its state meanwhile, or the record cannot be written
                    log.warning("not_checked", code=error.code)

        await asyncio.gather(*(one(each) for each in due))


def heal_after_check(connection: Connection, *, probed: bool) -> None:
    """Having looked only at what is needed to ask says nothing against what the last call found."""
    if probed or connection.health_reason in PASSIVE:
        heal(connection)


PASSIVE = ("vault_secret_missing", "vault_key_wrong", "vault_sealed_altered", "cognee_cloud_url_invalid", "url_rejected", "invalid_field")
"""What a check without a probe can find, and so also find mended."""
