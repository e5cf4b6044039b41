"""The seam of an expectation kind: one file beside this one, self-declared, pure.

A kind looks at evidence and returns findings; no finding means it holds. It never raises for what it sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel

from harness.expect.view import View
from harness.model.evidence import EvidenceRecord
from harness.model.finding import Finding, Severity
from harness.model.location import Frozen

P = TypeVar("P", bound=BaseModel)
P_contra = TypeVar("P_contra", bound=BaseModel, contravariant=True)
LegKind = Literal["schema", "memory"]
"""What an expectation rests on: the provider's tool list and protocol alone, or also what it does with memories."""


class Scalar(Frozen):
    """Parameters of a kind that takes one bare value."""

    value: Any


@dataclass(frozen=True, slots=True)
class Place:
    """Where an expectation stands: its own id, its step ("" for the whole run) and its source position."""

    expectation: str
    step: str
    where: str


@dataclass(frozen=True, slots=True)
class Specimen:
    """`yaml` is the expectation as a user writes it; `records` the evidence; judged at step `step` ("" for the run)."""

    yaml: str
    view: View
    step: str = "act"


class ExpectationKind(Protocol[P_contra]):
    """`id` is the YAML word; its finding id is the word in kebab-case. `scopes`: "step", "run" or both.

    `leg`: a claim that rests on "schema" kinds alone speaks at the level of the provider's tool list, any other at the lowest of all legs.
    `reads_inventory`: it compares with what was agreed, so a provider without an inventory is refused before anything is run.
    """

    id: str
    summary: str
    params: type[BaseModel]
    scopes: frozenset[str]
    leg: LegKind
    reads_inventory: bool
    needs: frozenset[str]
    """Abilities of the target without which it cannot be judged."""

    def judge(self, params: P_contra, place: Place, view: View) -> list[Finding]: ...
    def specimens(self) -> tuple[Specimen, Specimen]: ...


class Kind(Generic[P]):
    """Convenience base: builds findings with the kind's own id and the expectation's place."""

    id: ClassVar[str]
    summary: ClassVar[str]
    scopes: ClassVar[frozenset[str]] = frozenset({"step", "run"})
    leg: ClassVar[LegKind] = "memory"
    needs: ClassVar[frozenset[str]] = frozenset()
    reads_inventory: ClassVar[bool] = False

    def finding(
        self,
        place: Place,
        message: str,
        *,
        expected: Any = None,
        actual: Any = None,
        fix: str = "",
        severity: Severity = "fail",
        rule: str = "",
    ) -> Finding:
        return Finding(
            id=rule or self.id.replace("_", "-"),
            severity=severity,
            message=message,
            where=place.where,
            expectation=place.expectation,
            step=place.step,
            expected=expected,
            actual=actual,
            fix=fix,
        )

    def no_call(self, place: Place) -> list[Finding]:
        return [self.finding(place, "the step made no call that could be judged", severity="error", fix="see the step's own trouble in the evidence")]


def view_of(records: Sequence[EvidenceRecord], **documents: Any) -> View:
    return View(records=records, **documents)
