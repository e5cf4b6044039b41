"""The table of defects, in shares: each file beside this one tries one, so that no worker carries them all at the end of the suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

TABLE: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parents[1] / "defects.yaml").read_text(encoding="utf-8"))
SHARES = 4


def share(number: int) -> list[str]:
    """Every SHARES-th defect, in alphabetical order, beginning with this one."""
    return sorted(TABLE)[number::SHARES]


def scenarios(number: int) -> list[str]:
    """A share of the scenarios that find them, each in one share."""
    return sorted({scenario for row in TABLE.values() for scenario in row["run"]})[number::SHARES]


def pass_without(number: int, run: Any) -> None:
    """Without a defect, this share of the scenarios finds nothing."""
    ran = run(*scenarios(number))
    assert ran.found() == set()
    assert {v.outcome for v in ran.results.verdicts} == {"pass"}
    assert ran.results.exit_code == 0


def find(defect: str, run: Any) -> None:
    """The gateway with this defect alone is found out, where the table says, and told apart from its neighbours."""
    row = TABLE[defect]
    ran = run(*row["run"], defects=[defect])
    found = ran.found()
    assert set(row["finds"]) <= found
    assert not set(row["spares"]) & found
    assert ran.results.exit_code != 0
