"""Whose trouble a failure is, with the evidence for it. Pure: the same evidence gives the same class.

A contradiction between witnesses outweighs everything: a gateway that is wrong while the provider is down is still wrong. Then what is
missing on our side, then what the provider was seen to do, and only last what is merely left to blame.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.model.cause import Cause, CauseClass, Sign
from harness.nightly.case import Case
from harness.nightly.signs_gateway import contradictions, control_plane
from harness.nightly.signs_own import own_signs
from harness.nightly.signs_provider import provider_signs

ORDER: tuple[CauseClass, ...] = ("credentials", "provider_outage", "provider_change")
"""Among what the provider was seen to do: a refused credential explains more than a failure, a failure more than a difference."""


def triage(case: Case) -> Cause:
    own = tuple(own_signs(case))
    strong = tuple(contradictions(case))
    theirs = tuple(provider_signs(case))
    weak = tuple(control_plane(case))
    missing = next((s.speaks_for for s in own if s.speaks_for == "credentials" and not s.where.startswith("operator")), None)
    chosen = (
        missing or _first(own, "harness_defect") or _first(strong, "gateway_defect") or _of_provider(theirs, own) or _first(weak, "gateway_defect")
    )
    cause: CauseClass = chosen or "unknown"
    every = (*own, *strong, *theirs, *weak)
    return Cause(cause=cause, signs=tuple(_unique((s for s in every if s.speaks_for == cause), (s for s in every if s.speaks_for != cause))))


def _first(signs: tuple[Sign, ...], cause: CauseClass) -> CauseClass | None:
    return cause if any(s.speaks_for == cause for s in signs) else None


def _of_provider(theirs: tuple[Sign, ...], own: tuple[Sign, ...]) -> CauseClass | None:
    if any(s.speaks_for == "gateway_defect" for s in theirs):
        return "gateway_defect"
    return next((cause for cause in ORDER if any(s.speaks_for == cause for s in (*theirs, *own))), None)


def _unique(*groups: Iterator[Sign]) -> Iterator[Sign]:
    seen: set[Sign] = set()
    for sign in (s for group in groups for s in group):
        if sign not in seen:
            seen.add(sign)
            yield sign
