"""The reference gateway with a person at its console: where a scenario says `approve` or `deny`, the person decides, in a browser.

The harness starts the console, says where it is and with which token to sign in, and waits. What was decided, by whom, and what it brought,
is judged like any other decision; a person who decides otherwise than the scenario says makes it fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from harness.errors import Untestable
from harness.target.base import LaunchOptions
from harness.target.reference import ReferenceGateway, ReferenceTarget

DECIDE_WITHIN_S = 600.0
ASK_EVERY_S = 0.5
PERSON = "person"


@dataclass(frozen=True, slots=True)
class AttendedTarget(ReferenceTarget):
    """`decide_within_s`: how long a person may take; then the step is untestable."""

    id: str = "attended"
    summary: str = "the reference gateway, whose approvals a person gives at its console"
    more: tuple[str, ...] = ("--console",)
    decide_within_s: float = DECIDE_WITHIN_S

    def driver(
        self, ready: Mapping[str, Any], token: str, http: httpx2.AsyncClient, process: asyncio.subprocess.Process, options: LaunchOptions
    ) -> ReferenceGateway:
        return AttendedGateway(ready, token, http, process, options, within_s=self.decide_within_s)


class AttendedGateway(ReferenceGateway):
    """The reference gateway's client, which leaves decisions to somebody else."""

    def __init__(
        self,
        ready: Mapping[str, Any],
        token: str,
        http: httpx2.AsyncClient,
        process: asyncio.subprocess.Process,
        options: LaunchOptions,
        *,
        within_s: float,
    ) -> None:
        super().__init__(ready, token, http, process, options)
        self._console = str(ready.get("console", ""))
        self._tell = options.tell
        self._within_s = within_s
        self._tokens: dict[str, str] = {}

    async def decide(self, tenant: str, approval: str, *, approve: bool, by: str, reason: str) -> Mapping[str, Any]:
        if tenant not in self._tokens:
            operator = {"operator": PERSON, "role": "operator"}
            self._tokens[tenant] = str((await self._ask("POST", f"/tenants/{tenant}/operators", operator))["token"])
        wanted = "approved" if approve else f"declined{f', reason {reason!r}' if reason else ''}"
        self._tell(f"waiting for a person: {self._console} tenant {tenant} token {self._tokens[tenant]}: approval {approval} is to be {wanted}")
        try:
            async with asyncio.timeout(self._within_s):
                return await self._decided(tenant, approval)
        except TimeoutError:
            raise Untestable("nobody decided in time", where=f"approval {approval}", fix="sign in at the console and decide") from None

    async def _decided(self, tenant: str, approval: str) -> Mapping[str, Any]:
        while True:
            found: Mapping[str, Any] = await self._ask("GET", f"/tenants/{tenant}/approvals/{approval}/outcome")
            if found["approval"]["state"] not in ("pending", "executing"):
                return found
            await asyncio.sleep(ASK_EVERY_S)


TARGET = AttendedTarget()
