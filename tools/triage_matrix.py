"""Forty nights with a known cause each, triaged from their own evidence: `make triage` prints the confusion matrix.

The cause is real: a second tap, between the witness and the stand-in, is the provider that fails or changes; defects are the reference
gateway's own; credentials are wrong or missing; scenarios of ours are broken. None of it is written into the evidence: the witness
sees what it would see of a hosted provider, and triage gets nothing else.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.clock import SystemClock
from harness.fake.kit import Account, serve
from harness.live.budget import Budget
from harness.live.options import LiveOptions
from harness.model.cause import CLASSES, CauseClass
from harness.model.exchange import Sequencer
from harness.nightly.night import Failure, Night, Wish, night
from harness.scenario.files import data_root
from harness.tap.fault import Fault, make_fault
from harness.tap.mutate import Mutation
from harness.tap.server import Tap

KEYS = {"mem0": "mem0-triage-key-1", "honcho": "honcho-triage-key-1", "cognee": "cognee-triage-key-1"}
ENVIRONMENT = {
    "MEM0_API_KEY": KEYS["mem0"],
    "HONCHO_API_KEY": KEYS["honcho"],
    "COGNEE_BASE_URL": "https://triage.aws.cognee.ai",
    "COGNEE_API_KEY": KEYS["cognee"],
}

OWN_PATH = {"honcho": "/mcp"}
"""Where a stand-in serves what its provider serves at the root."""


@dataclass(frozen=True)
class Prepared:
    """One night. `truth`: whose trouble it is. `faults` and `mutations`: at the provider. `text`: a scenario in place of a shipped one."""

    name: str
    truth: CauseClass
    select: str = "MEM-1"
    provider: str = "mem0"
    faults: tuple[Fault, ...] = ()
    mutations: tuple[Mutation, ...] = ()
    defects: tuple[str, ...] = ()
    environment: dict[str, str | None] = field(default_factory=dict)
    allow_write: bool = True
    calls: int = 60
    dead: bool = False
    revoke_after: str = ""
    text: str = ""


def fault(kind: str, **settings: Any) -> tuple[Fault, ...]:
    return (make_fault(kind, **settings),)


def outages() -> list[Prepared]:
    truth: CauseClass = "provider_outage"
    everywhere = fault("status", code=503)
    return [
        Prepared("mem0 answers 503 to a write", truth, faults=fault("status", code=503, tool="add_memory")),
        Prepared("mem0 resets a search", truth, faults=fault("reset", tool="search_memories")),
        Prepared("mem0 hangs on a search", truth, faults=fault("hang", tool="search_memories")),
        Prepared("mem0 answers a sign-in page to a search", truth, faults=fault("html", tool="search_memories")),
        Prepared("mem0 breaks off in the middle of an answer", truth, faults=fault("truncated", tool="search_memories")),
        Prepared("mem0 has an internal error", truth, faults=fault("rpc-error", tool="add_memory", code=-32603)),
        Prepared("mem0 limits writes (429)", truth, faults=fault("status", code=429, retry_after="1", tool="add_memory", times=1)),
        Prepared("honcho is down", truth, "MEM-5", "honcho", faults=everywhere),
        Prepared("honcho refuses connections", truth, "MEM-5", "honcho", dead=True),
        Prepared(
            "honcho cannot store just now",
            truth,
            "MEM-5",
            "honcho",
            faults=fault("is-error", tool="add_messages_to_session", text="Service unavailable, try again later"),
        ),
        Prepared("cognee answers 502 to a recall", truth, "MEM-2", "cognee", faults=fault("status", code=502, rpc_method=None, tool=None, nth=4)),
    ]


def changes() -> list[Prepared]:
    truth: CauseClass = "provider_change"
    search = {"content": [{"type": "text", "text": '{"memories": []}'}], "structuredContent": {"memories": []}, "isError": False}
    message = {"content": [{"type": "text", "text": '{"rows": []}'}], "structuredContent": {"rows": []}, "isError": False}
    refused = "1 validation error: unexpected keyword argument 'infer'"
    return [
        Prepared("mem0 removes a tool", truth, "DISCOVER-MEM0", mutations=(Mutation(kind="tool-removed", tool="get_memory"),)),
        Prepared("mem0 renames a tool", truth, "DISCOVER-MEM0", mutations=(Mutation(kind="tool-renamed", tool="search_memories"),)),
        Prepared("mem0 adds a tool", truth, "DISCOVER-MEM0", mutations=(Mutation(kind="tool-added", name="purge_everything"),)),
        Prepared(
            "mem0 wants a parameter that was optional", truth, "DISCOVER-MEM0", mutations=(Mutation(kind="parameter-required", tool="get_memories"),)
        ),
        Prepared("mem0 drops a parameter", truth, "DISCOVER-MEM0", mutations=(Mutation(kind="parameter-removed", tool="update_memory"),)),
        Prepared(
            "honcho retypes a parameter", truth, "DISCOVER-HONCHO", "honcho", mutations=(Mutation(kind="parameter-retyped", tool="list_peers"),)
        ),
        Prepared("mem0 answers searches in another shape", truth, faults=fault("stub-reply", tool="search_memories", result=search)),
        Prepared(
            "honcho answers reads in another shape", truth, "MEM-5", "honcho", faults=fault("stub-reply", tool="get_session_messages", result=message)
        ),
        Prepared("mem0 no longer takes the arguments", truth, faults=fault("rpc-error", tool="add_memory", code=-32602)),
        Prepared("mem0 refuses an argument in words", truth, faults=fault("is-error", tool="add_memory", text=refused)),
    ]


def defects() -> list[Prepared]:
    truth: CauseClass = "gateway_defect"
    return [
        Prepared("the gateway ignores Ask first", truth, defects=("skip-approval",)),
        Prepared("the gateway sends an approved call twice", truth, defects=("approve-twice",)),
        Prepared("the gateway sends before it asks", truth, defects=("dispatch-before-approval",)),
        Prepared("the gateway does not record the end of calls", truth, defects=("drop-audit",)),
        Prepared("the gateway calls an error a success", truth, "MEM-2", "cognee", defects=("iserror-as-success",)),
        Prepared("the gateway cuts results", truth, defects=("truncate-result",)),
        Prepared("the gateway swaps answers", truth, defects=("swap-responses",)),
        Prepared("the gateway loses the last page", truth, "DISCOVER-HONCHO", "honcho", defects=("drop-page",)),
        Prepared("the gateway rewrites schemas", truth, "DISCOVER-MEM0", defects=("normalise-schema",)),
        Prepared("the gateway calls destructive tools harmless", truth, "DISCOVER-MEM0", defects=("weaken-risk",)),
        Prepared("the gateway leaks the credential", truth, defects=("leak-credential",)),
        Prepared(
            "mem0 is down for writes, and the gateway says it worked",
            truth,
            faults=fault("is-error", tool="add_memory", text="Service unavailable"),
            defects=("wrong-outcome",),
        ),
    ]


BROKEN = """
scenario: BROKEN
title: a scenario of ours that is wrong
connections: {mem0: {}}
let: {user: "harness-${run.id}", fact: "The ${nonce} keeper."MORE}
steps:
  - id: write
    call: mem0.add_memory
    with: {text: "${fact}", user_id: "${user}", infer: false}
    expect:
      - {id: ok, result: {is_error: false}}
      - {id: wrong, WRONG}
proves: [{claim: it is written, by: [ok, wrong]}]
does_not_prove: [anything]
cleanup:
  - {id: remove, call: mem0.delete_entities, with: {user_id: "${user}"}}
"""


def broken(expectation: str, more: str = "") -> str:
    return BROKEN.replace("WRONG", expectation).replace("MORE", more)


def ours() -> list[Prepared]:
    truth: CauseClass = "harness_defect"
    return [
        Prepared("an expectation that makes no sense once it is rendered", truth, text=broken('dispatched: {count: "${many}"}', ', many: "three"')),
        Prepared("an expectation of what no provider ever says", truth, text=broken('result: {contains: "hooray"}')),
        Prepared("a budget that is too small", truth, calls=1),
    ]


def credentials() -> list[Prepared]:
    truth: CauseClass = "credentials"
    return [
        Prepared("no key for mem0 at all", truth, environment={"MEM0_API_KEY": None}),
        Prepared("a wrong key for mem0", truth, environment={"MEM0_API_KEY": "mem0-wrong-key-99"}),
        Prepared("a wrong key for honcho", truth, "MEM-5", "honcho", environment={"HONCHO_API_KEY": "honcho-wrong-key-99"}),
        Prepared("a wrong key for cognee", truth, "MEM-2", "cognee", environment={"COGNEE_API_KEY": "cognee-wrong-key-99"}),
        Prepared("nobody allowed writing", truth, allow_write=False),
        Prepared("mem0 forbids this key to write", truth, faults=fault("status", code=403, tool="add_memory")),
    ]


def prepared() -> list[Prepared]:
    return [*outages(), *changes(), *defects(), *ours(), *credentials()]


async def spend(case: Prepared, folder: Path) -> Night:
    """The night of one case, on a provider of its own."""
    async with AsyncExitStack() as stack:
        clock = SystemClock()
        running = await stack.enter_async_context(serve(case.provider, clock))
        running.admit(Account(KEYS[case.provider], "triage"))
        if case.provider == "cognee":
            running.configure(KEYS["cognee"], index_delay_s=0.7)
        chaos = await stack.enter_async_context(Tap(clock, Sequencer()))
        mount = chaos.mount(case.provider, running.base_url)
        mount.faults.extend(case.faults)
        mount.mutations.extend(case.mutations)
        address = "http://127.0.0.1:9" if case.dead else mount.url() + OWN_PATH.get(case.provider, "")
        environment = {k: v for k, v in {**ENVIRONMENT, **case.environment}.items() if v is not None}
        live = LiveOptions(case.allow_write, Budget(case.calls, 600.0), environment, {case.provider: address}, folder / "home")
        paths = tuple(data_root().glob(f"scenarios/*/{case.select}.yaml")) or tuple(data_root().glob(f"scenarios/*/{case.select.lower()}.yaml"))
        # Real time passes here, so polling that is bound to be in vain gets two seconds instead of thirty.
        text = case.text or paths[0].read_text(encoding="utf-8").replace("within: 30s", "within: 2s")
        paths = (folder / "scenario.yaml",)
        paths[0].write_text(text, encoding="utf-8")
        # Without what is allowed or set a night would go on at level fake; here it is to say what was missing.
        wish = Wish(
            select=(),
            up_to="live",
            live=live,
            folder=folder,
            run_id="triage",
            protocol="2026-07-28",
            defects=case.defects,
            paths=paths,
            exact=True,
        )
        return await night(wish, clock)


@dataclass(frozen=True)
class Answered:
    case: Prepared
    said: str
    failure: Failure | None
    reasons: tuple[str, ...] = ()


async def run_all(cases: Sequence[Prepared], folder: Path, jobs: int) -> list[Answered]:
    """Each answer is printed as it comes."""
    gate = asyncio.Semaphore(jobs)

    async def one(number: int, case: Prepared) -> Answered:
        async with gate:
            place = folder / f"{number:02}"
            place.mkdir()
            found = await spend(case, place)
        failure = found.failures[0] if found.failures else None
        answer = Answered(case, failure.cause.cause if failure else "not noticed", failure, found.reasons)
        sys.stdout.write(told(answer) + "\n")
        sys.stdout.flush()
        return answer

    return list(await asyncio.gather(*(one(number, case) for number, case in enumerate(cases))))


def matrix(answers: Sequence[Answered]) -> str:
    """Rows are true causes, columns what triage said. `unknown` is no wrong answer, and counted apart."""
    columns = [*CLASSES, "not noticed"]
    counted = Counter((a.case.truth, a.said) for a in answers)
    width = max(map(len, columns)) + 2
    lines = ["true cause".ljust(width) + "".join(c.rjust(width) for c in columns)]
    rows = ((truth, [str(counted[truth, column] or ".") for column in columns]) for truth in CLASSES[:-1])
    lines += [truth.ljust(width) + "".join(cell.rjust(width) for cell in cells) for truth, cells in rows]
    right = sum(a.case.truth == a.said for a in answers)
    unknown = sum(a.said == "unknown" for a in answers)
    lines += ["", f"{len(answers)} cases: {right} right, {len(answers) - right - unknown} wrong, {unknown} unknown"]
    return "\n".join(lines)


def told(answer: Answered) -> str:
    mark = "right" if answer.said == answer.case.truth else "unknown" if answer.said == "unknown" else "WRONG"
    lines = [f"{mark:<8}{answer.case.name}: {answer.said}" + ("" if mark == "right" else f" (truth: {answer.case.truth})")]
    signs = answer.failure.cause.signs[:2] if answer.failure else ()
    lines += [f"        {sign.speaks_for}: {sign.what} [{sign.where}]" for sign in signs]
    return "\n".join([*lines, *(f"        {reason}" for reason in answer.reasons if answer.failure is None)])


def main(arguments: list[str] | None = None) -> int:
    """0 when no answer was wrong (unknown is not wrong), else 1."""
    parser = argparse.ArgumentParser(description="Triage forty prepared nights and print the confusion matrix.")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--jobs", type=int, default=2, help="nights at the same time")
    options = parser.parse_args(arguments)
    cases = [case for case in prepared() if options.only in case.name]
    with tempfile.TemporaryDirectory(prefix="triage-") as folder:
        answers = asyncio.run(run_all(cases, Path(folder), options.jobs))
    sys.stdout.write(f"\n{matrix(answers)}\n")
    return 1 if any(a.said not in (a.case.truth, "unknown") for a in answers) else 0


if __name__ == "__main__":
    sys.exit(main())
