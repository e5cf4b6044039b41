"""What was found of changed schemas while an item ran: stored with its example, checked again by the judge, never searched for again."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from harness.engine.related import relations_of
from harness.expect.no_drift import drift_report, entry
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.inventory.build import record_of
from harness.model.drift import DriftReport
from harness.model.evidence import RelationRecord
from harness.model.inventory import Inventory, Taken
from harness.model.location import Location
from harness.model.scenario import Expectation, Scenario
from harness.model.tool import Tool

HERE = Location(file="s.yaml", line=1, column=1)


def scene_of(schema: dict[str, Any]) -> View:
    scene = Scene()
    listed = Tool.from_wire({"name": "get_memory", "inputSchema": entry("get_memory")["input_schema"]})
    scene.inventories["mem0"] = Inventory(provider="mem0", taken=Taken(date="2026-01-01"), tools=(record_of(listed, risk="read"),))
    scene.control("catalog", {"tools": [{**entry("get_memory"), "input_schema": schema}], "complete": True})
    return scene.view()


def searched(view: View, word: str = "no_drift") -> list[RelationRecord]:
    scenario = Scenario.model_construct(expect=(Expectation(id="found", word=word, args=True, location=HERE),))
    return asyncio.run(relations_of("item", scenario, view))


def judged(view: View, records: list[RelationRecord]) -> DriftReport:
    report = drift_report(replace(view, records=[*view.records, *records]), "mem0")
    assert report is not None
    return report


def test_a_break_is_stored_with_its_example_and_a_false_example_is_no_proof() -> None:
    agreed = entry("get_memory")["input_schema"]
    assert searched(scene_of(agreed)) == []  # nothing differs, nothing is stored
    view = scene_of({**agreed, "properties": {"memory_id": {"type": "string", "minLength": 3}}})
    assert searched(view, "dispatched") == []  # nobody asks
    (record,) = searched(view)
    (broken,) = judged(view, [record]).findings_of("breaking")
    assert broken.witness == record.data["input"]["witness"] != {}
    forged = record.model_copy(update={"data": {**record.data, "input": {**record.data["input"], "witness": {"memory_id": "long enough"}}}})
    found = judged(view, [forged])
    assert found.relations["get_memory"].input is not None
    assert found.relations["get_memory"].input.strict == "unproven"
    assert all(finding.witness is None for finding in found.findings)
    unread = judged(view, [record.model_copy(update={"data": {"input": {"strict": "fine"}}})])
    assert "relation-unproven" in {finding.id for finding in unread.findings}
