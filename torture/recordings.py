"""Whatever is recorded replays to the same verdict: every scenario that runs against a stand-in, recorded in one run and replayed in another.

The control replays the same recordings with one word of each answer altered: the run's own nonce. Whoever still passes did not look.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from harness.cassette.format import content_hash
from harness.cassette.store import dump_cassette, read_cassette
from harness.cli.record_options import one_version_each
from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.engine.run import run_plan
from harness.engine.tapes import Tapes
from harness.model.plan import Plan
from harness.model.verdict import Verdict
from torture.figures import Figures, Scale

SHORT = ("MEM-1", "MEM-2", "MEM-5", "PAPR-1", "GOV-PERMISSIONS", "FAULT-STATUS", "TRAP-MASKED-404")
JOBS = 2


def verdicts(plan: Plan, tapes: Tapes, place: Path, name: str) -> dict[str, Verdict]:
    """By scenario. A plan without items has none."""
    evidence = place / f"run-{name}" / "evidence.jsonl"
    evidence.parent.mkdir()
    asyncio.run(run_plan(plan, jobs=JOBS, evidence=evidence, run_id=f"20261201T000000Z-{name}", tapes=tapes))
    return {verdict.scenario: verdict for verdict in judge(read_evidence(evidence)).verdicts}


def replayable(names: Iterable[str], recorded: Plan, tapes: Tapes) -> Plan:
    """The same scenarios at the same protocol version, where they apply to recordings at all."""
    then = {(item.scenario.id, item.protocol) for item in recorded.items}
    items = make_plan(list(names), level="replayed", protocol="all", tapes=tapes).items
    return Plan(items=tuple(item for item in items if (item.scenario.id, item.protocol) in then and not item.not_applicable))


def altered(whole: Path, place: Path) -> None:
    """Each recording with another nonce in its answers, sealed again: as if the provider had answered so."""
    for path in whole.glob("*/*.yaml"):
        found = read_cassette(path)
        assert found.header is not None
        nonce = str(found.header.values["nonce"]).encode()
        changed = tuple(replace(one, response_body=one.response_body.replace(nonce, nonce[::-1])) for one in found.interactions)
        target = place / path.parent.name / path.name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(dump_cassette(found.header.model_copy(update={"content": content_hash(changed)}), changed))


def run(scale: Scale) -> list[Figures]:
    names = SHORT if scale == "short" else ("*",)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        tapes = {name: Tapes(folder=place / name, record="all" if name == "whole" else "none") for name in ("whole", "altered")}
        for one in tapes.values():
            one.folder.mkdir()
        plan = one_version_each(make_plan(list(names), level="fake"))
        plan = Plan(items=tuple(item for item in plan.items if item.runnable and item.scenario.place == "host"))
        then = verdicts(plan, tapes["whole"], place, "recorded")
        play = Tapes(folder=tapes["whole"].folder)
        again = verdicts(replayable(then, plan, play), play, place, "replayed")
        altered(tapes["whole"].folder, tapes["altered"].folder)
        wrong = verdicts(replayable(then, plan, tapes["altered"]), tapes["altered"], place, "altered")
    differ = [f"{name}: {then[name].outcome}, then {found.outcome}" for name, found in again.items() if found.outcome != then[name].outcome]
    control = sum(found.outcome != "pass" and again[name].outcome == "pass" for name, found in wrong.items())
    counted = f"{len(then)} recorded, of which {len(then) - len(again)} do not apply to recordings; {control} see that the answers were altered"
    return [Figures("what was recorded replays to the same verdict", len(again), len(differ), control, (counted, *differ))]
