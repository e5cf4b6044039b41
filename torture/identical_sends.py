"""The same call twenty times, at two gateway processes on one store, on a tool under Ask first: one request for approval, one dispatch.

Ten come at once before the decision, five while the call is being executed, and five after it: the first fifteen are told the one approval that
they wait for, and the last five get the stored answer.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import httpx2

from torture._bench import Gateway, Json, Person, Provider, call, client, held, outcome, provider
from torture.figures import Figures, Scale

BEFORE, MEANWHILE, AFTER = 10, 5, 5
SENDS = BEFORE + MEANWHILE + AFTER


def run(scale: Scale) -> list[Figures]:
    keys = 1_000 if scale == "full" else 6
    violations, notes = asyncio.run(_sent(keys))
    unasked, _ = asyncio.run(_sent(2, "skip-approval"))
    again, _ = asyncio.run(_sent(2, "asks-twice"))
    control = (f"control: {unasked} found where nobody is asked, {again} where each repetition is a request of its own",)
    return [Figures(f"one dispatch for {SENDS} identical sends at two processes", keys, violations, min(unasked, again), (*notes, *control))]


async def _sent(keys: int, *defects: str) -> tuple[int, tuple[str, ...]]:
    with tempfile.TemporaryDirectory(prefix="torture-sends-") as name:
        one, other = (Gateway(Path(name), *defects) for _ in range(2))
        try:
            one.start()
            async with provider() as counter, client() as http:
                await Person(http, one).connect("t", counter, "ask_first")
                other.start()
                wrong, token = 0, ""
                for number in range(keys):
                    if number % 200 == 0:
                        token = await Person(http, one).run("t")
                    sends = _Sends(http, (one, other), counter, token, f"k{number}")
                    wrong += await sends.all(decided_at=number % 2)
                twice = sum(1 for count in counter.seen.values() if count != 1)
                notes = (f"{sum(counter.seen.values())} dispatches for {keys} keys, {twice} keys not exactly once, {wrong} answered otherwise",)
                return twice + (keys - len(counter.seen)) + wrong, notes
        finally:
            one.stop()
            other.stop()


class _Sends:
    """All of one call."""

    def __init__(self, http: httpx2.AsyncClient, gateways: tuple[Gateway, Gateway], counter: Provider, token: str, key: str) -> None:
        self._http, self._gateways, self._counter, self._token, self._key = http, gateways, counter, token, key

    async def all(self, decided_at: int) -> int:
        """How many of its steps were answered otherwise than they must be."""
        waiting = {held(answer) for answer in await self._send(BEFORE)}
        approval = next(iter(waiting))
        wrong = int(len(waiting) != 1)
        if approval is not None:
            wrong += await self._executed(approval, decided_at)
        return wrong + any(outcome(answer) != "replayed" for answer in await self._send(AFTER))

    async def _executed(self, approval: str, decided_at: int) -> int:
        """The provider does not answer before everybody who comes meanwhile has been."""
        parked = self._counter.park(self._key)
        person = Person(self._http, self._gateways[decided_at])
        deciding = asyncio.create_task(person("POST", f"/tenants/t/approvals/{approval}/approve", {"by": "p"}))
        arrived = asyncio.create_task(parked.arrived.wait())
        await asyncio.wait({deciding, arrived}, return_when=asyncio.FIRST_COMPLETED)
        meanwhile = await self._send(MEANWHILE)
        parked.released.set()
        status, _ = await deciding
        arrived.cancel()
        return int(any((outcome(answer), held(answer)) != ("pending", approval) for answer in meanwhile)) + (status != 200)

    async def _send(self, times: int) -> list[Json]:
        """At both processes at once."""
        sends = (call(self._http, self._gateways[n % 2], self._token, {"id": self._key}) for n in range(times))
        return list(await asyncio.gather(*sends))
