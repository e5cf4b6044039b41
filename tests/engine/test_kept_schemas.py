"""A success that is not what the provider declared is the provider's fault: a warning that says so, and no failure of the gateway."""

from __future__ import annotations

from typing import Any

import pytest

from harness.engine.implicit import providers_keep_their_schemas
from harness.engine.plan import make_plan
from harness.expect.scene import Scene
from harness.model.evidence import ProviderExchangeRecord
from harness.model.finding import Finding
from harness.scenario.files import data_root

DECLARED = {"type": "object", "properties": {"memory": {"type": "string"}}, "required": ["memory"]}
TEXT = [{"type": "text", "text": "ok"}]


def found(result: dict[str, Any] | None, *, declared: Any = DECLARED, is_error: bool = False, times: int = 1) -> list[Finding]:
    scene = Scene()
    scene.control("catalog", {"tools": [{"name": "get_memory", "status": "active", "output_schema": declared}], "complete": True})
    for _ in range(times):
        scene.dispatch("get_memory", {})
        last = scene.records[-1]
        assert isinstance(last, ProviderExchangeRecord)
        scene.records[-1] = last.model_copy(update={"exchange": last.exchange.model_copy(update={"result": result, "is_error": is_error})})
    file = data_root() / "scenarios" / "memory" / "MEM-1.yaml"
    scenario = make_plan([], paths=[file]).items[0].scenario
    return list(providers_keep_their_schemas(scenario, scene.view()))


def test_b06_a_success_without_what_was_declared_is_told_once_as_the_providers_fault() -> None:
    (finding,) = found({"content": TEXT}, times=3)
    assert (finding.id, finding.severity) == ("output-schema-unmet", "warn")
    assert "mem0: the provider declares what get_memory gives" in finding.message
    assert finding.fix.startswith("the provider's to mend")


@pytest.mark.parametrize(
    "kept",
    [
        {"result": {"content": TEXT, "structuredContent": {"memory": "x"}}},
        {"result": {"content": TEXT, "isError": True}, "is_error": True},
        {"result": {"content": TEXT}, "declared": None},
        {"result": {"resultType": "input_required", "requestState": "s"}},
        {"result": None},
    ],
)
def test_errors_and_what_declares_nothing_are_no_such_fault(kept: dict[str, Any]) -> None:
    assert found(**kept) == []
