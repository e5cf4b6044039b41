"""Each deliberate defect of the gateway is found, where the table says, told apart from the others; without one, all is well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

TABLE: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "defects.yaml").read_text(encoding="utf-8"))
REQUIRED = {
    "iserror-as-success",
    "skip-approval",
    "approve-twice",
    "dispatch-before-approval",
    "drop-audit",
    "wrong-outcome",
    "weaken-risk",
    "stale-catalog",
    "drop-page",
    "leak-credential",
    "truncate-result",
    "swap-responses",
    "bypass-tap",
    "spawn-subprocess",
    "normalise-schema",
}


def test_the_table_covers_every_defect() -> None:
    assert set(TABLE) >= REQUIRED


def test_the_table_tells_defects_apart() -> None:
    """Two defects on the same scenarios differ in what they break: one's finding is what the other must spare."""
    for name, row in TABLE.items():
        for other, against in TABLE.items():
            if name < other and row["run"] == against["run"]:
                assert set(row["finds"]) != set(against["finds"]), f"{name} and {other} look the same"


@pytest.mark.parametrize("defect", sorted(TABLE))
def test_a_defect_is_found_where_the_table_says(defect: str, run: Any) -> None:
    row = TABLE[defect]
    ran = run(*row["run"], defects=[defect])
    found = ran.found()
    assert set(row["finds"]) <= found
    assert not set(row["spares"]) & found
    assert ran.results.exit_code != 0


def test_the_gateway_without_defects_passes_what_finds_them(run: Any) -> None:
    scenarios = sorted({scenario for row in TABLE.values() for scenario in row["run"]})
    ran = run(*scenarios)
    assert ran.found() == set()
    assert {v.outcome for v in ran.results.verdicts} == {"pass"}
    assert ran.results.exit_code == 0
