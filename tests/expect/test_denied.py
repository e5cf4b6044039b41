"""`denied`: what the agent is told, what is on record and what reached the provider agree, or the difference is named."""

from __future__ import annotations

from typing import Any

from harness.expect.base import Place
from harness.expect.denied import KIND, Params
from harness.expect.scene import Scene, answer
from harness.model.evidence import AuditRecord
from harness.model.finding import Finding


def judged(*, trail: str = "denied", recorded: str = "tool_off") -> list[Finding]:
    scene = Scene()
    said: dict[str, Any] = {"outcome": "denied", "origin": "gateway", "reason": "tool_off"}
    scene.call(result=answer("This tool is off.", is_error=True), said=said, dispatched=0, trail=trail)
    scene.records = [
        each.model_copy(update={"record": {**each.record, "reason": recorded}}) if isinstance(each, AuditRecord) else each for each in scene.records
    ]
    return KIND.judge(Params(value="tool_off"), Place("e", "act", "f:1:1"), scene.view())


def test_the_reason_on_record_is_the_one_that_was_given() -> None:
    assert judged() == []
    assert [found.message for found in judged(recorded="policy_block")] == ["the audit gives another reason for refusing add_memory"]


def test_where_nothing_is_recorded_what_was_said_is_all_there_is() -> None:
    assert judged(trail="") == []
