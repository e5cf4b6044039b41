"""Judged in every scenario of a gateway whose records are chained: that they follow from one another, and whose they are.

A scenario sees the records of its own run, so others may stand between them; but no two may swap places, share a number or, as neighbours,
not chain. The whole log, and its signatures, are judged by `harness.audit`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from harness.expect.view import View
from harness.model.evidence import PlanItemRecord
from harness.model.finding import Finding
from harness.model.scenario import Scenario

Record = Mapping[str, Any]
BEGINNING: Record = {"seq": 0, "hash": "0" * 64}


def audit_is_in_order(scenario: Scenario, view: View) -> Iterator[Finding]:
    """`audit-sequence-broken`, `audit-chain-broken`: two records do not stand as they were written, one after the other."""
    if not chained(view):
        return
    where = str(scenario.location)
    runs: dict[Any, list[Record]] = {}
    for record in view.audit:
        runs.setdefault(record.get("run"), []).append(record)
    for records in runs.values():  # a run is asked for as a whole, and so told in order
        yield from (_disorder(before, record, where) for before, record in pairwise(records) if not _rises(before, record))
    ordered = sorted((r for r in view.audit if number(r) is not None), key=lambda r: number(r) or 0)
    for before, record in pairwise([BEGINNING, *ordered]):
        last, here = number(before), number(record)
        if last == here and before.get("run") != record.get("run"):
            yield _disorder(before, record, where)
        elif last is not None and here == last + 1 and record.get("prev_hash") != before.get("hash"):
            yield Finding(
                id="audit-chain-broken",
                message=f"audit record {here} does not follow from record {last}, though nothing stands between them",
                where=where,
                expected=before.get("hash"),
                actual=[shown(before), shown(record)],
                fix="each record carries the hash of the one before it, as prev_hash",
            )


def _rises(before: Record, record: Record) -> bool:
    last, here = number(before), number(record)
    return last is not None and here is not None and last < here


def _disorder(before: Record, record: Record, where: str) -> Finding:
    return Finding(
        id="audit-sequence-broken",
        message=f"audit record {record.get('seq')!r} stands after record {before.get('seq')!r}",
        where=where,
        expected="numbers that rise, and none of them twice",
        actual=[shown(before), shown(record)],
        fix="one sequence for the whole store, given in the transaction that writes the record",
    )


def audit_says_whose(scenario: Scenario, view: View) -> Iterator[Finding]:
    """`audit-unattributed`: a record names another tenant, run or task than one that the agent called for."""
    ends = [r for r in view.records if isinstance(r, PlanItemRecord) and r.phase == "end"]
    if not ends or not ends[-1].gateway_run or not chained(view):
        return
    end = ends[-1]
    tasks = {end.gateway_run: end.scenario} | {str(c.data["run"]): str(c.data["task"]) for c in view.controls("run_of_its_own")}
    for record in view.audit:
        run = str(record.get("run"))
        expected = {"tenant": end.tenant, "run": run if run in tasks else end.gateway_run, "task": tasks.get(run, end.scenario)}
        actual = {name: record.get(name) for name in expected}
        if actual != expected:
            yield Finding(
                id="audit-unattributed",
                message=f"audit record {record.get('seq')} ({record.get('event')}) does not say for whom it was",
                where=str(scenario.location),
                expected=expected,
                actual=actual,
                fix="each record of a run carries its tenant, its run and its task",
            )


def chained(view: View) -> bool:
    """Whether this gateway numbers and chains its records; one that does so for some must do so for all."""
    return any("hash" in record or "prev_hash" in record for record in view.audit)


def number(record: Record) -> int | None:
    found = record.get("seq")
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def shown(record: Record) -> dict[str, Any]:
    return {name: record.get(name) for name in ("seq", "event", "prev_hash", "hash")}
