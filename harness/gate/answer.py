"""gate/v1: the answer, and each rule with the evidence that satisfied or broke it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from harness.model.location import Frozen
from harness.model.scenario import Level
from harness.model.verdict import Outcome

RuleWord = Literal["evidence", "require", "provider", "drift", "coverage", "budget", "waivers"]


class Proof(Frozen):
    """One verdict that a rule was decided by. `date` is when its run began (RFC 3339), `level` that of its weakest leg."""

    run: str
    item: str
    level: Level
    date: str
    outcome: Outcome


class RuleAnswer(Frozen):
    """`holds` or not; `broken` says why not, `green` what would change that, `notes` what a reader should know either way."""

    rule: RuleWord
    about: str
    where: str = ""
    holds: bool
    exit_code: int = 0
    evidence: tuple[Proof, ...] = ()
    broken: tuple[str, ...] = ()
    green: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class GateAnswer(Frozen):
    """The whole decision. `exit_code` follows the same order as everywhere: 2, then 3, 4, 1, 5, 6, else 0."""

    schema_id: Literal["gate/v1"] = Field(default="gate/v1", alias="schema")
    accepted: bool
    exit_code: int
    policy: str
    policy_file: str
    at: str
    level_line: str
    runs: tuple[str, ...]
    rules: tuple[RuleAnswer, ...]

    model_config = Frozen.model_config | {"populate_by_name": True}


def json_schema() -> dict[str, Any]:
    """The published schema of the JSON answer."""
    found = GateAnswer.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}
