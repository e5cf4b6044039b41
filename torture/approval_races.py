"""Eight approvers at once, half of them at each of two gateway processes on one store: every held call is executed exactly once."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path

import httpx2

from torture._bench import Gateway, Person, Provider, call, client, held, provider
from torture.figures import Figures, Scale

CONTENDERS = 8
AT_ONCE = 4
"""Races under way at the same time."""


def run(scale: Scale) -> list[Figures]:
    races = 10_000 if scale == "full" else 40
    violations, notes = asyncio.run(_races(races))
    twice, _ = asyncio.run(_races(4, ("approve-twice",)))
    unclaimed, words = asyncio.run(_races(20, ("claim-unguarded",)))
    control = (f"control: {twice} found where one approval is sent twice; {unclaimed} where the claim is not atomic: {words[0]}",)
    return [Figures(f"one execution for {CONTENDERS} approvers in two processes", races, violations, min(twice, unclaimed), (*notes, *control))]


async def _races(races: int, defects: Sequence[str] = ()) -> tuple[int, tuple[str, ...]]:
    with tempfile.TemporaryDirectory(prefix="torture-races-") as name:
        one, other = (Gateway(Path(name), *defects) for _ in range(2))
        async with provider() as counter, client() as http:
            one.start()
            try:
                await Person(http, one).connect("t", counter, "ask_first")
                other.start()
                return await _raced(http, one, other, counter, races)
            finally:
                one.stop()
                other.stop()


async def _raced(http: httpx2.AsyncClient, one: Gateway, other: Gateway, counter: Provider, races: int) -> tuple[int, tuple[str, ...]]:
    people = [Person(http, gateway) for gateway in (one, other)]
    token = [await people[0].run("t")]
    lost = 0

    async def race(number: int) -> None:
        nonlocal lost
        if number % 500 == 0:
            token[0] = await people[0].run("t")  # tokens live fifteen minutes
        approval = held(await call(http, one, token[0], {"id": f"n{number}"}))
        if approval is None:
            lost += 1
            return
        path = f"/tenants/t/approvals/{approval}/approve"
        answers = await asyncio.gather(*(people[n % 2]("POST", path, {"by": f"p{n}"}) for n in range(CONTENDERS)))
        lost += sum(1 for status, _ in answers if status == 200) != 1

    for first in range(0, races, AT_ONCE):
        await asyncio.gather(*(race(number) for number in range(first, min(first + AT_ONCE, races))))
    twice = sum(1 for count in counter.seen.values() if count != 1)
    missing = races - len(counter.seen)
    done = sum(counter.seen.values())
    notes = (f"{done} executions of {races} held calls; {twice} not exactly once, {missing} never, {lost} races without one winner",)
    return twice + missing + lost, notes
