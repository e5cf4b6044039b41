"""Agents that call and approvers who approve while a gateway dies under them, and what must be true of both afterwards.

Two tenants: what the agents of one call is allowed, what those of the other call waits for a person. The provider counts what reaches it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import httpx2

from reference_gateway.audit import verify
from reference_gateway.canonical import arguments_digest
from torture._bench import Gateway, Json, Person, Provider, call, held, outcome

PLAIN, ASKING = "t", "h"
AGENTS = 8
APPROVERS = 3
HELD = 9
"""Calls that wait when a round begins."""


@dataclass
class Load:
    """All rounds on one store. `sent`: name → arguments of every call."""

    counter: Provider
    odds: random.Random
    sent: dict[str, Json] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    unknown: int = 0
    """Approved calls that the end of the gateway cut off."""
    wrong: list[str] = field(default_factory=list)
    """What was not as it must be with a call that was approved."""
    _waiting: dict[str, str] = field(default_factory=dict)
    _run: str = ""

    async def begin(self, http: httpx2.AsyncClient, gateway: Gateway) -> None:
        person = Person(http, gateway)
        await person.connect(PLAIN, self.counter, "allowed")
        await person.connect(ASKING, self.counter, "ask_first")

    async def until_death(self, http: httpx2.AsyncClient, gateway: Gateway, number: int, death: Callable[[], Awaitable[None]]) -> None:
        """One round: calls and approvals at once until nobody answers any more. `death` comes back when the gateway is gone."""
        token = await Person(http, gateway).run(PLAIN)
        await self._hold(http, gateway, number)
        waiting = list(self._waiting)
        agents = [self._agent(http, gateway, token, f"k{number}-{one}") for one in range(AGENTS)]
        approvers = [self._approver(Person(http, gateway), waiting[one::APPROVERS]) for one in range(APPROVERS)]
        tasks = [asyncio.create_task(work) for work in (*agents, *approvers)]
        await death()
        await asyncio.gather(*tasks)

    async def after(self, http: httpx2.AsyncClient, gateway: Gateway) -> None:
        """The gateway lives again on the same store: what was approved is done, or still waits, or is told as unknown; and never done twice."""
        person = Person(http, gateway)
        found = (await person.need("GET", f"/tenants/{ASKING}/approvals?run={self._run}"))["approvals"]
        states = {each["id"]: each["state"] for each in found}
        for approval, name in self._waiting.items():
            state, times = states.get(approval, "lost"), self.counter.seen[name]
            self.unknown += state == "unknown"
            if (state, times) not in {("pending", 0), ("executed", 1), ("unknown", 0), ("unknown", 1)}:
                self.wrong.append(f"{name} is {state} and was sent {times} times")
            if name in self.acknowledged and state != "executed":
                self.wrong.append(f"{name} was told to be executed and is {state}")
            status, _ = await person("POST", f"/tenants/{ASKING}/approvals/{approval}/approve", {"by": "q"})
            if (status == 200) != (state == "pending") or self.counter.seen[name] != (1 if state == "pending" else times):
                self.wrong.append(f"{name} was {state}, approved again with {status} and sent {self.counter.seen[name]} times")

    async def _hold(self, http: httpx2.AsyncClient, gateway: Gateway, number: int) -> None:
        made = await Person(http, gateway).need(
            "POST", f"/tenants/{ASKING}/runs", {"connections": ["notes"], "task": "t", "agent": "a", "ttl_s": 900}
        )
        self._run, self._waiting = made["run"], {}
        for one in range(HELD):
            name = f"h{number}-{one}"
            self.sent[name] = {"id": name, "delay_ms": self.odds.randrange(20, 200)}
            approval = held(await call(http, gateway, made["token"], self.sent[name]))
            if approval is None:
                self.wrong.append(f"{name} is not held")
            else:
                self._waiting[approval] = name

    async def _agent(self, http: httpx2.AsyncClient, gateway: Gateway, token: str, prefix: str) -> None:
        for turn in range(200):
            name = f"{prefix}-{turn}"
            self.sent[name] = {"id": name, "delay_ms": self.odds.randrange(4)}
            if outcome(await call(http, gateway, token, self.sent[name])) != "success":
                return
            self.acknowledged.add(name)

    async def _approver(self, person: Person, approvals: list[str]) -> None:
        for approval in approvals:
            try:
                status, answer = await person("POST", f"/tenants/{ASKING}/approvals/{approval}/approve", {"by": "p"})
            except (httpx2.HTTPError, ValueError):  # it died before it answered, or while it did
                return
            if status != 200:
                return
            if answer["approval"]["state"] == "executed":
                self.acknowledged.add(self._waiting[approval])

    def judged(self, records: list[Json]) -> tuple[int, tuple[str, ...]]:
        """Violations in the log that is left, and all of it in words."""
        kept: dict[str, Counter[str]] = {}
        for record in records:
            if record["arguments_digest"]:
                kept.setdefault(record["arguments_digest"], Counter())[record["event"]] += 1

        def told(name: str, event: str) -> int:
            return kept.get(arguments_digest(self.sent[name]), Counter())[event]

        lost = [name for name in self.acknowledged if told(name, "call_completed") != 1]
        twice = [name for name, count in self.counter.seen.items() if count > 1]
        silent = [name for name in self.counter.seen if told(name, "call_started") != 1]
        open_ended = sum(1 for counts in kept.values() if counts["call_started"] != counts["call_completed"] + counts["call_failed"])
        broken = verify(records)
        notes = (
            f"{len(self.acknowledged)} calls acknowledged, {sum(self.counter.seen.values())} dispatched, {len(records)} records",
            f"lost {len(lost)}, done twice {len(twice)}, without intent {len(silent)}, without end {open_ended}, chain problems {len(broken)}",
        )
        return len(lost) + len(twice) + len(silent) + open_ended + len(broken), notes
