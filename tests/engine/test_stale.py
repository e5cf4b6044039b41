"""A refusal by an aged list is the gateway's fault, and told as such; a refusal of arguments that nobody takes is not."""

from __future__ import annotations

from typing import Any

import pytest

from harness.engine.plan import make_plan
from harness.engine.stale import catalogs_are_current
from harness.expect.scene import Scene, answer
from harness.model.finding import Finding
from harness.scenario.files import data_root

WIDE = {"type": "object", "properties": {"mode": {"enum": ["exact", "semantic", "hybrid"]}}}
REFUSED = {"outcome": "denied", "origin": "gateway", "reason": "invalid_arguments"}


def found(*, mode: str = "hybrid", said: Any = REFUSED, tool: str = "search_memories", again: str = "", new_hash: str = "b" * 64) -> list[Finding]:
    scene = Scene()
    scene.control("mutation", {"kind": "enum-widened", "tool": "search_memories"})
    if again:
        scene.control(again, None)
    scene.call(tool, {"mode": mode}, result=answer("refused", is_error=True), said=said, dispatched=0, trail="denied")
    scene.control("refresh", {"changed": ["search_memories"]})
    scene.control("catalog", {"tools": [{"name": "search_memories", "schema_hash": new_hash, "input_schema": WIDE}], "complete": True})
    scenario = make_plan([], paths=[data_root() / "scenarios" / "memory" / "MEM-1.yaml"]).items[0].scenario
    return list(catalogs_are_current(scenario, scene.view()))


def test_b07_a_refusal_by_an_aged_list_is_told_with_both_hashes() -> None:
    (finding,) = found()
    assert (finding.id, finding.severity) == ("catalog-stale", "fail")
    assert "mem0: search_memories was refused by a schema that was no longer the provider's" in finding.message
    assert finding.expected == f"schema {'b' * 64}, the provider's at the time"
    assert str(finding.actual).startswith("schema ")
    assert finding.actual != finding.expected


@pytest.mark.parametrize(
    "otherwise",
    [
        {"mode": "vague"},
        {"said": {**REFUSED, "reason": "tool_off"}},
        {"said": {"outcome": "success", "origin": "provider"}},
        {"tool": "add_memory"},
        {"again": "refresh"},
        {"again": "heal"},
    ],
    ids=["nobody takes it", "another reason", "not refused", "another tool", "read again", "as before"],
)
def test_other_refusals_are_no_such_fault(otherwise: Any) -> None:
    assert found(**otherwise) == []


AGED = """\
scenario: AGED
title: A call that the provider takes since it changed its schema, without a word
connections: {mem0: {quarantine: false}}
let: {user: "harness-${nonce}"}
steps:
  - {id: change, mutate: mem0, kind: parameter-retyped, tool: add_memory, parameter: text}
  - id: refused
    call: mem0.add_memory
    with: {text: 7, user_id: "${user}"}
    expect:
      - {id: by-the-old-list, denied: invalid_arguments}
      - {id: stays-here, dispatched: {count: 0}}
  - {id: again, refresh: mem0}
expect:
  - {id: quiet, nothing_else: true}
proves:
  - {claim: nothing, by: [by-the-old-list, stays-here, quiet]}
does_not_prove:
  - anything
cleanup:
  - {id: mend, heal: mem0}
  - {id: as-before, refresh: mem0}
"""


def test_b07_a_run_tells_it_of_the_gateway_and_not_of_the_caller(run: Any) -> None:
    ran = run.scenario(AGED)
    assert ran.found() == {"catalog-stale @ AGED / -"}
    (finding,) = [f for v in ran.results.verdicts for f in v.findings if f.id == "catalog-stale"]
    assert finding.expected != finding.actual
    assert finding.step == "refused"
    assert ran.results.exit_code == 1
