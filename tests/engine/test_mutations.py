"""All 82 tools, and apart from them the 7 of our Papr bridge, each changed in six ways by the tap and discovered anew by the gateway.

Every change is found, under its tool's name.

One kind at a time on every tool of a provider, so that six refreshes a provider carry all changes. The bridges' tools come from the
gateway itself, where no tap can reach them: there the change is made to the catalog entry.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.drift.compare import compare
from harness.engine.documents import read_documents
from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.engine.run import run_plan
from harness.fake.kit import providers as stand_ins
from harness.inventory.side import catalog_side, inventory_side
from harness.model.drift import Against
from harness.model.evidence import ControlRecord, EvidenceRecord
from harness.scenario.files import data_root
from harness.tap import SIX_KINDS, mutate_tool

OVER_MCP = {"mem0": 11, "zep": 12, "supermemory": 16, "honcho": 40}
BRIDGED = {"cognee": 3}
OWN = {"papr": 7}
"""Bridged too, and agreed with nobody but ourselves."""
EVERY = (*OVER_MCP, *BRIDGED, *OWN)
Entries = Sequence[Mapping[str, Any]]
NOT_APPLICABLE = {kind: ["zep.get_user_summary"] for kind in SIX_KINDS if kind not in ("parameter-added", "description-changed")}
"""Kind → tools that it cannot change: this one takes no parameter and refuses any, so there is none to remove, retype, require or narrow."""
OWN_NOT_APPLICABLE = {"parameter-required": ["papr.get_memory"]}
"""Its only parameter is required already."""


def scenario() -> str:
    """Change, refresh, and take the change back: six times for each provider; then all is as before."""
    steps = [
        f"  - {{id: {kind}-{name}, mutate: {name}, kind: {kind}}}\n"
        f"  - {{id: {kind}-{name}-seen, refresh: {name}}}\n"
        f"  - {{id: {kind}-{name}-healed, heal: {name}}}\n"
        for kind in SIX_KINDS
        for name in OVER_MCP
    ]
    steps += [f"  - {{id: {name}-as-before, refresh: {name}}}\n" for name in EVERY]
    connections = ", ".join(f"{name}: {{}}" for name in EVERY)
    expect = "".join(f"  - {{id: same-{name}, no_drift: {{connection: {name}}}}}\n" for name in EVERY)
    return (
        f"scenario: SIX-WAYS\ntitle: Every tool changed in six ways\nconnections: {{{connections}}}\nsteps:\n{''.join(steps)}"
        f"expect:\n{expect}proves:\n  - {{claim: all is as before, by: [{', '.join(f'same-{name}' for name in EVERY)}]}}\n"
    )


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> list[EvidenceRecord]:
    folder = tmp_path_factory.mktemp("six-ways")
    path = folder / "six-ways.yaml"
    path.write_text(scenario(), encoding="utf-8")
    evidence = folder / "run" / "evidence.jsonl"
    asyncio.run(run_plan(make_plan([], paths=[Path(path)]), jobs=1, evidence=evidence, run_id="six-ways"))
    return read_evidence(evidence)


def catalog(records: list[EvidenceRecord], provider: str, step: str) -> Entries:
    """The gateway's catalog of this provider as it was read back at that step ("" is before the first)."""
    (found,) = [r.data for r in records if isinstance(r, ControlRecord) and (r.action, r.connection, r.step) == ("catalog", provider, step)]
    assert found["complete"]
    return list(found["tools"])


def changed_entry(entry: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """The catalog entry after this change of the tool, or None where the kind does not apply to it."""
    wire = {"name": entry["name"], "inputSchema": entry["input_schema"], "description": entry["description"] or ""}
    changed = mutate_tool(wire, kind)
    if changed is None:
        return None
    return {**entry, "input_schema": changed["inputSchema"], "description": changed["description"], "schema_hash": None}


def after(records: list[EvidenceRecord], provider: str, kind: str) -> Entries:
    if provider in OVER_MCP:
        return catalog(records, provider, f"{kind}-{provider}-seen")
    before = catalog(records, provider, "")
    return [changed_entry(entry, kind) or entry for entry in before]


def named(before: Entries, now: Entries, against: Against) -> set[str]:
    report = compare(catalog_side("before", before), catalog_side("after", now), against=against)
    return {finding.tool for finding in report.findings}


def everything(records: list[EvidenceRecord]) -> Iterator[tuple[str, str, Entries, Entries]]:
    for provider in EVERY:
        for kind in SIX_KINDS:
            yield provider, kind, catalog(records, provider, ""), after(records, provider, kind)


def test_there_are_82_tools_and_the_run_ends_as_it_began(records: list[EvidenceRecord]) -> None:
    assert {name: len(catalog(records, name, "")) for name in EVERY} == OVER_MCP | BRIDGED | OWN
    assert sum((OVER_MCP | BRIDGED).values()) == 82
    (verdict,) = judge(records).verdicts
    assert verdict.outcome == "pass", [f.message for f in verdict.findings]


def test_every_change_is_found_under_its_tools_name(records: list[EvidenceRecord], capsys: pytest.CaptureFixture[str]) -> None:
    found: Counter[str] = Counter()
    cannot: dict[str, list[str]] = {}
    missed = []
    for provider, kind, before, now in everything(records):
        seen = named(before, now, "live")
        for entry in before:
            tool = f"{provider}.{entry['name']}"
            if changed_entry(entry, kind) is None:
                cannot.setdefault(kind, []).append(tool)
                assert entry["name"] not in seen, f"{tool} cannot be changed by {kind}, and yet differs"
            elif entry["name"] in seen:
                found[kind] += 1
            else:
                missed.append(f"{tool}: {kind}")
    with capsys.disabled():
        rows = [f"  {kind}: {found[kind]} found, {len(cannot.get(kind, []))} do not apply" for kind in SIX_KINDS]
        sys.stdout.write("\n82 tools and 7 of our own bridge, six changes each:\n" + "\n".join(rows) + "\n")
    assert missed == []
    assert sum(found.values()) + sum(map(len, cannot.values())) == (82 + 7) * len(SIX_KINDS)
    assert cannot == {kind: tools + OWN_NOT_APPLICABLE.get(kind, []) for kind, tools in NOT_APPLICABLE.items()}


def test_a_change_of_one_tool_names_no_other(records: list[EvidenceRecord]) -> None:
    for provider, kind, before, now in everything(records):
        middle = len(before) // 2
        tool = next(entry["name"] for entry in (*before[middle:], *before[:middle]) if changed_entry(entry, kind) is not None)
        changed = next(entry for entry in now if entry["name"] == tool)
        assert named(before, [changed if entry["name"] == tool else entry for entry in before], "live") == {tool}, (provider, kind)


def test_what_is_agreed_finds_them_too_wherever_the_shape_is_known(records: list[EvidenceRecord]) -> None:
    """Against a stand-in only names, parameters, risk and known shapes count: its prose is its own."""
    documents = read_documents(data_root(), [*EVERY])
    counted = own = 0
    for provider, kind, before, now in everything(records):
        if kind == "description-changed":
            continue
        assumed = stand_ins()[provider].assumed_shapes
        inventory = documents.parsed_inventories[provider]
        report = compare(inventory_side(inventory), catalog_side("after", now, assumed=assumed), against="fake")
        seen = {finding.tool for finding in report.findings}
        known = {record.name for record in inventory.tools if record.shape is not None} - set(assumed)
        changed = {str(e["name"]) for e in before if changed_entry(e, kind) is not None}
        assert known & changed <= seen, (provider, kind, sorted((known & changed) - seen))
        if provider in OWN:
            own += len(known & changed)
        else:
            counted += len(known & changed)
    assert counted == 64 * 5 - sum(map(len, NOT_APPLICABLE.values()))
    assert own == 7 * 5 - sum(map(len, OWN_NOT_APPLICABLE.values()))
