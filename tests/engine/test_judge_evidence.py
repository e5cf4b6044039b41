"""The judge reads evidence and nothing else: the same bytes from anywhere, and evidence that was altered is never a pass."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import harness
from harness.engine.evidence_log import dump, read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.engine.run import run_plan
from harness.errors import HarnessError, LoadError
from harness.model.digest import canonical_text
from harness.model.evidence import EVIDENCE, AuditRecord, EvidenceRecord, PlanItemRecord, RunRecord
from harness.model.secret import marker
from harness.model.verdict import Verdict
from harness.report.results_json import document

NEWEST = "2026-07-28"
ITEMS = tuple(f"{scenario}[fake,reference,{NEWEST}]" for scenario in ("MEM-1", "MEM-3", "GOV-PERMISSIONS"))
ITEM = ITEMS[0]
Data = dict[str, Any]
Change = Callable[[Data], Data | None]


@dataclass(frozen=True)
class Recorded:
    path: Path
    records: list[EvidenceRecord]

    def changed(self, change: Change) -> list[EvidenceRecord]:
        """Every record through `change`; None drops it. What nothing changed would prove nothing."""
        before = [json.loads(dump(record)) for record in self.records]
        after = [changed for data in before if (changed := change(json.loads(json.dumps(data)))) is not None]
        assert after != before, "the change applies to no record"
        return [EVIDENCE.validate_json(json.dumps(data)) for data in after]

    def alone(self, item: str) -> list[EvidenceRecord]:
        """The evidence as if this item had been run alone, with every document it needs."""
        every = [r for r in self.records if isinstance(r, PlanItemRecord)]
        documents = {key: document for r in every for key, document in r.embedded.items()}
        kept: list[EvidenceRecord] = []
        for record in self.records:
            if isinstance(record, RunRecord) and record.phase == "start":
                kept.append(record.model_copy(update={"options": {**record.options, "items": [item]}}))
            elif isinstance(record, PlanItemRecord) and record.item == item and record.phase == "start":
                kept.append(record.model_copy(update={"embedded": {key: documents[key] for key in record.documents}}))
            elif of_item(record) in ("", item):
                kept.append(record)
        return kept


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    path = tmp_path_factory.mktemp("recorded") / "evidence.jsonl"
    plan = make_plan(["MEM-1", "MEM-3", "GOV-PERMISSIONS"], protocol=NEWEST)
    asyncio.run(run_plan(plan, jobs=3, evidence=path, run_id="recorded"))
    return Recorded(path, read_evidence(path))


def mine(data: Data, kind: str) -> bool:
    return bool(data["kind"] == kind and data["item"] == ITEM)


def of_mine(records: Sequence[EvidenceRecord]) -> Verdict:
    return next(verdict for verdict in judge(records).verdicts if verdict.item == ITEM)


# ---- the same bytes


def test_the_evidence_as_it_is_passes(recorded: Recorded) -> None:
    results = judge(recorded.records)
    assert {v.outcome for v in results.verdicts} == {"pass"}
    assert results.exit_code == 0


def test_a_copy_judged_where_there_is_nothing_but_the_package_gives_the_same_bytes(recorded: Recorded, tmp_path: Path) -> None:
    """No scenario, inventory or manifest is near: neither in the working folder nor beside the code that judges."""
    package, empty = tmp_path / "elsewhere", tmp_path / "empty"
    shutil.copytree(Path(harness.__file__).parent, package / "harness", ignore=shutil.ignore_patterns("__pycache__", "_data"))
    empty.mkdir()
    shutil.copyfile(recorded.path, empty / "evidence.jsonl")
    command = "import harness, sys; from harness.cli.main import main; print(harness.__file__, file=sys.stderr); sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", command, "judge", "evidence.jsonl", "--json"],
        cwd=empty,
        env={"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
    )
    assert done.stderr.decode().strip() == str(package / "harness" / "__init__.py"), done.stderr
    assert done.stdout.decode() == document(judge(recorded.records))
    assert done.returncode == 0
    assert [p.name for p in empty.iterdir()] == ["evidence.jsonl"]


def test_judging_twice_and_a_round_trip_through_the_file_change_no_byte(recorded: Recorded, tmp_path: Path) -> None:
    copy = tmp_path / "evidence.jsonl"
    copy.write_text("".join(dump(record) + "\n" for record in recorded.records), encoding="utf-8")
    assert document(judge(read_evidence(copy))) == document(judge(recorded.records)) == document(judge(recorded.records))


def of_item(record: EvidenceRecord) -> str:
    return getattr(record, "item", "")


@given(st.randoms(use_true_random=False))
@settings(max_examples=15, deadline=None)
def test_how_the_lines_of_concurrent_items_interleave_does_not_matter(recorded: Recorded, random: Any) -> None:
    """Only the order within one item counts, and the order in which items began."""
    queues: dict[str, list[EvidenceRecord]] = {}
    for record in recorded.records:
        queues.setdefault(of_item(record), []).append(record)
    framing = queues.pop("")
    starts = [queue.pop(0) for queue in queues.values()]
    rest: list[EvidenceRecord] = []
    while pending := [q for q in queues.values() if q]:
        rest.append(random.choice(pending).pop(0))
    shuffled = [framing[0], *starts, *rest, *framing[1:]]
    assert document(judge(shuffled)) == document(judge(recorded.records))


# ---- nothing can be left out


def may_be_missing(data: Data) -> str:
    """Why a verdict may stand without this record; "" when it may not."""
    kind = data["kind"]
    if kind == "process":
        return "when processes came and went is told, not judged"
    if kind == "approval":
        return "a decision is judged by the audit's own record of it"
    if kind == "audit" and data["record"]["event"] == "run_created":
        return "a run's own record belongs to no call"
    if kind == "audit_log":
        return "it vouches for the audit records and is no witness of its own; a bundle names those that nothing vouches for"
    if kind == "control" and data["action"] in ("permissions", "catalog", "phase"):
        return "a read-back that no expectation of these scenarios rests on"
    if kind == "provider_exchange" and data["exchange"]["rpc_method"] in ("server/discover", "tools/list"):
        return "one witnessed discovery is enough, and there were several"
    return ""


@pytest.mark.parametrize("item", ITEMS)
def test_without_any_one_record_the_evidence_is_no_longer_a_pass(recorded: Recorded, item: str) -> None:
    records = recorded.alone(item)
    assert judge(records).exit_code == 0
    passed_without = []
    for index, record in enumerate(records):
        try:
            accepted = judge(records[:index] + records[index + 1 :]).exit_code == 0
        except HarnessError:
            accepted = False
        if accepted and not may_be_missing(json.loads(dump(record))):
            passed_without.append(record)
    assert passed_without == []


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_without_any_several_records_neither(recorded: Recorded, data: st.DataObject) -> None:
    needed = [i for i, r in enumerate(recorded.records) if not may_be_missing(json.loads(dump(r)))]
    gone = data.draw(st.sets(st.sampled_from(needed), min_size=1, max_size=6))
    try:
        results = judge([r for i, r in enumerate(recorded.records) if i not in gone])
    except HarnessError:
        return
    assert results.exit_code != 0


def test_without_all_discovery_the_witness_was_blind(recorded: Recorded) -> None:
    records = recorded.changed(lambda d: None if mine(d, "provider_exchange") and d["exchange"]["rpc_method"] == "tools/list" else d)
    verdict = of_mine(records)
    assert (verdict.outcome, verdict.exit_code) == ("error", 5)
    assert [f.id for f in verdict.findings] == ["witness-blind"]
    assert not any(claim.proven for claim in verdict.claims), "a witness in doubt proves nothing"


def test_a_tap_that_saw_nothing_at_all_is_an_error_and_never_a_pass(recorded: Recorded) -> None:
    verdict = of_mine(recorded.changed(lambda d: None if mine(d, "provider_exchange") else d))
    assert verdict.outcome == "error"
    assert "the tap saw nothing at all" in {f.message for f in verdict.findings}


# ---- nothing can be altered


def rehashed(record: Data) -> Data:
    content = {k: v for k, v in record.items() if k != "hash"}
    return {**content, "hash": hashlib.sha256(canonical_text(content).encode()).hexdigest()}


@pytest.mark.parametrize("field", ["event", "outcome", "decision", "reason"])
@pytest.mark.parametrize("hashed", [False, True], ids=["as-it-stands", "hash-recomputed"])
def test_every_word_of_every_call_record_counts(recorded: Recorded, field: str, hashed: bool) -> None:
    records = recorded.alone(ITEM)
    for index, record in enumerate(records):
        if not isinstance(record, AuditRecord) or not record.record.get("invocation"):
            continue
        altered = {**record.record, field: "something-else"}
        changed = AuditRecord(item=record.item, record=rehashed(altered) if hashed else altered)
        (verdict,) = judge([*records[:index], changed, *records[index + 1 :]]).verdicts
        assert verdict.outcome != "pass", (field, record.record)
        assert ("audit-altered" in {f.id for f in verdict.findings}) is not hashed


def exchange_of(data: Data, tool: str) -> bool:
    return mine(data, "provider_exchange") and data["exchange"]["tool"] == tool


def before_approval(data: Data) -> Data:
    if exchange_of(data, "add_memory"):
        data["exchange"]["started_seq"] = 1
    return data


def twice(records: Sequence[EvidenceRecord]) -> Iterator[EvidenceRecord]:
    for record in records:
        yield record
        if exchange_of(json.loads(dump(record)), "add_memory"):
            yield record


def never_forwarded(data: Data) -> Data:
    if exchange_of(data, "add_memory"):
        data["exchange"]["traceparent"] = None
        data["exchange"]["arguments_digest"] = "0" * 64
    return data


def replaced(kind: str, old: str, new: str, **where: Any) -> Change:
    def change(data: Data) -> Data:
        if not mine(data, kind) or any(data.get(k) != v for k, v in where.items()):
            return data
        text = json.dumps(data)
        changed: Data = json.loads(text.replace(old, new))
        return changed

    return change


def edited(kind: str, path: str, value: Any, **where: Any) -> Change:
    def change(data: Data) -> Data:
        if mine(data, kind) and all(data.get(k) == v for k, v in where.items()):
            *parents, last = path.split("/")
            place = data
            for name in parents:
                place = place[name]
            place[last] = value
        return data

    return change


ALTERED: dict[str, tuple[Change, set[str]]] = {
    "the dispatch came before the approval": (before_approval, {"dispatched @ not-dispatched", "dispatched @ dispatched-once"}),
    "the dispatch is of a call nobody made": (never_forwarded, {"dispatched @ dispatched-once", "nothing-else @ quiet"}),
    "the agent was told success": (edited("client_exchange", "said/outcome", "success", step="write"), {"pending @ held"}),
    "the pending call looks like a success": (edited("client_exchange", "result/isError", False, step="write"), {"pending @ held"}),
    "the fact is another": (replaced("client_exchange", "silver compass", "golden compass", step="recall"), {"recalled @ exact"}),
    "the recall failed": (edited("client_exchange", "result/isError", True, step="recall"), {"recalled @ exact"}),
    "the recall had no answer": (edited("client_exchange", "result", None, step="recall"), {"recalled @ exact"}),
    "the memory belongs to somebody else": (replaced("client_exchange", "harness-recorded", "somebody-else", step="recall"), {"recalled @ exact"}),
    "a credential came back": (edited("client_exchange", "result/_meta", {"debug": marker("mem0:key")}, step="recall"), {"no-secret @ clean"}),
    "access was not restored": (
        edited("control", "data", {"allowed": 10, "ask_first": 1, "off": 0}, action="access", phase="after"),
        {"access @ access", "access-not-restored @ "},
    ),
}


@pytest.mark.parametrize("what", sorted(ALTERED))
def test_an_altered_record_fails_what_rests_on_it(recorded: Recorded, what: str) -> None:
    change, finds = ALTERED[what]
    results = judge(recorded.changed(change))
    verdict = next(v for v in results.verdicts if v.item == ITEM)
    assert verdict.outcome in ("fail", "error")
    assert finds <= {f"{f.id} @ {f.expectation}" for f in verdict.findings}
    broken = {f.expectation for f in verdict.findings if f.severity != "warn"}
    assert all(claim.proven is not bool(broken & set(claim.by)) for claim in verdict.claims)
    assert [v.outcome for v in results.verdicts if v.item != ITEM] == ["pass", "pass"], "the other scenarios are not touched"


def test_a_dispatch_seen_twice_is_a_failed_count_and_a_witness_in_doubt(recorded: Recorded) -> None:
    verdict = of_mine(list(twice(recorded.records)))
    assert {"dispatched", "witness-blind"} <= {f.id for f in verdict.findings}


def test_evidence_of_one_item_proves_nothing_about_another(recorded: Recorded) -> None:
    other = ITEMS[1]
    moved = recorded.changed(lambda d: {**d, "item": other} if mine(d, "client_exchange") else d)
    assert {v.item for v in judge(moved).verdicts if v.outcome != "pass"} >= {ITEM, other}


# ---- documents, torn and midway


def test_a_document_that_was_taken_out_is_said_to_be_missing(recorded: Recorded) -> None:
    def without(data: Data) -> Data:
        return {**data, "embedded": {}} if data["kind"] == "plan_item" else data

    with pytest.raises(LoadError, match="is not in the evidence") as raised:
        judge(recorded.changed(without))
    assert raised.value.exit_code == 2


def test_a_scenario_that_was_altered_in_the_evidence_is_refused(recorded: Recorded) -> None:
    """Documents are named by their content: nobody can weaken an expectation after the run."""

    def weakened(data: Data) -> Data:
        for embedded in (data.get("embedded") or {}).values():
            embedded["text"] = embedded["text"].replace("{id: not-dispatched, dispatched: 0}", "{id: not-dispatched, dispatched: 1}")
        return data

    with pytest.raises(LoadError, match="not the one that was run"):
        judge(recorded.changed(weakened))


@pytest.mark.parametrize("cut", [1, 40, 400])
def test_a_torn_last_line_is_named_with_its_number(recorded: Recorded, tmp_path: Path, cut: int) -> None:
    torn = tmp_path / "evidence.jsonl"
    content = recorded.path.read_bytes().rstrip(b"\n")
    lines = content.count(b"\n") + 1
    last = content.rpartition(b"\n")[2]
    torn.write_bytes(content[: len(content) - min(cut, len(last) - 1)])
    with pytest.raises(LoadError, match="cut off") as raised:
        read_evidence(torn)
    assert raised.value.where == f"{torn}:{lines}"
    assert raised.value.exit_code == 2


def test_a_line_that_is_no_record_is_named_with_its_number(recorded: Recorded, tmp_path: Path) -> None:
    lines = recorded.path.read_text(encoding="utf-8").split("\n")
    lines[2] = lines[2].replace('"kind":', '"kin":')
    bad = tmp_path / "evidence.jsonl"
    bad.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(LoadError, match="not an evidence/v1 record") as raised:
        read_evidence(bad)
    assert raised.value.where == f"{bad}:3"


@pytest.mark.parametrize("kept", [0.35, 0.6, 0.85])
def test_a_run_that_was_killed_midway_is_incomplete_and_never_a_pass(recorded: Recorded, kept: float) -> None:
    """No item and no run has an end: what was begun is unknown."""
    part = recorded.records[: int(len(recorded.records) * kept)]
    part = [r for r in part if not (isinstance(r, (PlanItemRecord, RunRecord)) and r.phase == "end")]
    results = judge(part)
    assert results.exit_code == 5 or {v.outcome for v in results.verdicts} & {"fail", "error"}
    assert results.exit_code in (1, 5)
    assert "the run did not come to its end" in results.exit_reasons
    assert {v.outcome for v in results.verdicts} == {"error"}
    for verdict in results.verdicts:
        assert "scenario-broken-off" in {f.id for f in verdict.findings}
        assert not any(claim.proven for claim in verdict.claims)


def test_items_that_never_began_are_named(recorded: Recorded) -> None:
    lost = ITEMS[1]
    records = [r for r in recorded.records if of_item(r) != lost]
    results = judge(records)
    assert results.exit_code == 5
    assert f"{lost}: was planned and left no evidence" in results.exit_reasons
    assert {v.outcome for v in results.verdicts} == {"pass"}, "what did run keeps its verdict"
