"""What a scenario sees of the log follows from one record to the next and says whose it is; each way in which it does not is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.engine.audit_order import audit_is_in_order, audit_says_whose
from harness.engine.implicit import audit_is_whole
from harness.engine.plan import make_plan
from harness.expect.scene import ITEM, Scene
from harness.model.digest import json_digest
from harness.model.evidence import AuditRecord, PlanItemRecord
from harness.model.finding import Finding
from harness.model.scenario import Scenario
from harness.scenario.files import data_root

Records = list[dict[str, Any]]
RUN, OTHER = "run_1", "run_2"


def rehashed(record: dict[str, Any]) -> dict[str, Any]:
    content = {name: value for name, value in record.items() if name != "hash"}
    return {**content, "hash": json_digest(content)}


def log(*seqs: int, run: str = RUN, task: str | None = "MEM-1") -> Records:
    """Records of these numbers out of one whole log."""
    found, before = [], "0" * 64
    for seq in range(1, max(seqs) + 1):
        body = {"seq": seq, "tenant": "t", "run": run, "task": task, "event": "policy_decision", "prev_hash": before}
        record = rehashed(body)
        before = record["hash"]
        found += [record] if seq in seqs else []
    return found


def scenario() -> Scenario:
    return make_plan([], paths=[data_root() / "scenarios" / "memory" / "MEM-1.yaml"]).items[0].scenario


def judged(records: Records) -> list[Finding]:
    scene = Scene()
    scene.records += [AuditRecord(item=ITEM, record=record) for record in records]
    scene.control("run_of_its_own", {"run": OTHER, "task": "waiting"}, connection="")
    end = {"phase": "end", "item": ITEM, "at": "", "scenario": "MEM-1", "level": "fake", "target": "reference", "protocol": "2026-07-28"}
    scene.records.append(PlanItemRecord.model_validate({**end, "tenant": "t", "gateway_run": RUN}))
    view = scene.view()
    return [found for check in (audit_is_whole, audit_is_in_order, audit_says_whose) for found in check(scenario(), view)]


@pytest.mark.parametrize("seqs", [(1,), (1, 2, 3), (2, 3, 7, 8, 20), (5,)])
def test_what_one_run_sees_of_a_sound_log_is_sound(seqs: tuple[int, ...]) -> None:
    assert judged(log(*seqs)) == []


def test_runs_whose_records_stand_between_each_other_are_sound() -> None:
    whole: Records = []
    for seq, (run, task) in enumerate([(RUN, "MEM-1"), (OTHER, "waiting"), (OTHER, "waiting"), (RUN, "MEM-1")], start=1):
        before = whole[-1]["hash"] if whole else "0" * 64
        whole.append(rehashed({"seq": seq, "tenant": "t", "run": run, "task": task, "prev_hash": before}))
    one, other = [r for r in whole if r["run"] == RUN], [r for r in whole if r["run"] == OTHER]
    assert judged([*other, *one]) == []
    assert [f.id for f in judged([*other, *(rehashed({**r, "prev_hash": "0" * 64}) for r in one)])] == ["audit-chain-broken"]
    assert "audit-sequence-broken" in [f.id for f in judged([*other, rehashed({**one[0], "seq": 2}), one[1]])]


def test_a_gateway_that_chains_nothing_is_not_judged_by_its_chain() -> None:
    assert judged([{"seq": 2, "event": "call_started"}, {"seq": 1, "event": "call_completed"}]) == []


def at(index: int, **changes: Any) -> Callable[[Records], Records]:
    return lambda records: [rehashed({**record, **changes}) if n == index else record for n, record in enumerate(records)]


@pytest.mark.parametrize(
    ("change", "finds", "names"),
    [
        (at(2, prev_hash="f" * 64), {"audit-chain-broken"}, ["2", "3"]),
        (at(0, prev_hash="f" * 64), {"audit-chain-broken"}, ["0", "1"]),
        (at(2, seq=2), {"audit-sequence-broken"}, ["2"]),
        (at(1, seq=None), {"audit-sequence-broken"}, ["None", "1"]),
        (at(1, seq=True), {"audit-sequence-broken"}, ["True", "1"]),
        (at(1, seq=0), {"audit-sequence-broken"}, ["0", "1"]),
        (lambda records: [records[1], records[0], *records[2:]], {"audit-sequence-broken"}, ["1", "2"]),
        (lambda records: [*records[:2], records[1], *records[2:]], {"audit-sequence-broken"}, ["2"]),
        (lambda records: [{k: v for k, v in records[0].items() if k != "hash"}, *records[1:]], {"audit-altered", "audit-chain-broken"}, ["1"]),
        (lambda records: [*records[:3], {**records[3], "event": "x"}], {"audit-altered"}, ["4"]),
        (lambda records: [*records[:3], rehashed({**records[3], "task": None})], {"audit-unattributed"}, ["4"]),
        (lambda records: [*records[:3], rehashed({**records[3], "task": "waiting"})], {"audit-unattributed"}, ["4"]),
        (lambda records: [*records[:3], rehashed({**records[3], "run": OTHER})], {"audit-unattributed"}, ["4"]),
        (lambda records: [*records[:3], rehashed({**records[3], "run": None})], {"audit-unattributed"}, ["4"]),
        (lambda records: [*records[:3], rehashed({**records[3], "tenant": "u"})], {"audit-unattributed"}, ["4"]),
    ],
)
def test_each_disorder_is_named_with_its_records(change: Callable[[Records], Records], finds: set[str], names: list[str]) -> None:
    found = judged(change(log(1, 2, 3, 4)))
    assert finds <= {f.id for f in found} <= finds | {"audit-chain-broken"}
    assert all(any(name in f.message for f in found) for name in names)
    assert {f.severity for f in found} == {"fail"}
