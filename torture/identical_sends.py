"""The same call twenty times at once, on a tool under Ask first: one request for approval, one dispatch, and every later answer is the stored one."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from torture._bench import Gateway, Person, call, client, outcome, provider
from torture.figures import Figures, Scale

SENDS = 20


def run(scale: Scale) -> list[Figures]:
    keys = 1_000 if scale == "full" else 6
    violations, notes = asyncio.run(_sent(keys))
    control, _ = asyncio.run(_sent(2, "skip-approval"))
    return [Figures(f"one dispatch for {SENDS} identical sends", keys, violations, control, notes)]


async def _sent(keys: int, *defects: str) -> tuple[int, tuple[str, ...]]:
    with tempfile.TemporaryDirectory(prefix="torture-sends-") as name:
        gateway = Gateway(Path(name), *defects)
        gateway.start()
        try:
            async with provider() as counter, client() as http:
                person = Person(http, gateway)
                await person.connect("t", counter, "ask_first")
                wrong, token = 0, ""
                for number in range(keys):
                    if number % 200 == 0:
                        token = await person.run("t")
                    arguments = {"id": f"k{number}"}
                    before = await asyncio.gather(*(call(http, gateway, token, arguments) for _ in range(SENDS // 2)))
                    approvals = {each.get("result", {}).get("_meta", {}).get("gateway/approval", {}).get("id") for each in before}
                    wrong += len(approvals) != 1
                    approval = next(iter(approvals))
                    if approval is not None:
                        await person("POST", f"/tenants/t/approvals/{approval}/approve", {"by": "p"})
                    after = await asyncio.gather(*(call(http, gateway, token, arguments) for _ in range(SENDS // 2)))
                    wrong += any(outcome(each) != "replayed" for each in after)
                twice = sum(1 for count in counter.seen.values() if count != 1)
                notes = (f"{sum(counter.seen.values())} dispatches for {keys} keys, {twice} keys not exactly once, {wrong} answered otherwise",)
                return twice + (keys - len(counter.seen)) + wrong, notes
        finally:
            gateway.stop()
