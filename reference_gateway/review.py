"""Quarantine: what is new or changed in a catalog waits, hidden and refused, until an operator has looked at it.

Each entry is one proposal, of one tool in one exact form. It is decided exactly once; when the tool changes again meanwhile, the proposal
is superseded and a new one takes its place, so that nobody allows what nobody saw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from reference_gateway.catalog import Catalog, Tool, form
from reference_gateway.errors import GatewayError

Json = dict[str, Any]
State = Literal["pending_review", "allowed", "kept_blocked", "superseded"]
Choice = Literal["allow", "keep_blocked"]

STATES: tuple[State, ...] = ("pending_review", "allowed", "kept_blocked", "superseded")
FACETS: Mapping[str, str] = {
    "input_schema": "inputSchema",
    "output_schema": "outputSchema",
    "annotations": "annotations",
    "title": "title",
    "description": "description",
}
MAX_DECIDED = 1_000
"""Decided entries that a connection remembers; the audit has them all."""


class ReviewUnknown(GatewayError):
    http_status = 404

    def __init__(self, review: str) -> None:
        super().__init__("review_unknown", "there is no such entry", where=review[:100], fix="list the connection's reviews")


class ReviewConflict(GatewayError):
    """It has been decided, or overtaken by another change; `state` says which."""

    http_status = 409

    def __init__(self, review: str, state: str) -> None:
        super().__init__("review_not_pending", f"the entry is {state}, not pending", where=review, fix="list the connection's reviews")
        self.state = state


@dataclass(frozen=True, slots=True)
class Review:
    """`facets`: what differs from `before` (None: the tool is new), in words of the catalog; `meta` stands for everything else."""

    id: str
    tool: str
    state: State
    cause: Literal["added", "changed"]
    facets: tuple[str, ...]
    before: Json | None
    after: Json
    requested_at: str
    decided_by: str | None = None
    decided_at: str | None = None
    reason: str | None = None

    def doc(self) -> Json:
        return {**asdict(self), "facets": list(self.facets)}

    @staticmethod
    def load(doc: Json) -> Review:
        return Review(**{**doc, "facets": tuple(doc["facets"])})


def differing(before: Json | None, after: Json) -> tuple[str, ...]:
    """Facets of a tool that are not, to the letter of their JSON, what they were."""
    if before is None:
        return ()
    named = [facet for facet, key in FACETS.items() if form(before.get(key)) != form(after.get(key))]
    rest = [{key: value for key, value in wire.items() if key not in FACETS.values()} for wire in (before, after)]
    return (*named, *(["meta"] if form(rest[0]) != form(rest[1]) else []))


def proposed(reviews: Sequence[Review], old: Catalog, new: Catalog, now: str, new_id: Callable[[], str]) -> tuple[Review, ...]:
    """The entries after a refresh that led from one catalog to the other."""
    pending = {review.tool: review for review in reviews if review.state == "pending_review"}
    latest = {review.tool: review for review in reviews}
    added: list[Review] = []
    overtaken: set[str] = set()
    for name, tool in new.tools.items():
        before = old.tools.get(name)
        known = pending.get(name)
        if tool.status != "quarantined":
            if known is not None:  # the provider took it back before anybody decided
                overtaken.add(known.id)
            continue
        if before is not None and before.status == "quarantined" and form(before.wire) == form(tool.wire):
            continue
        if known is not None:
            overtaken.add(known.id)
        trusted = _trusted(before, latest.get(name))
        cause: Literal["added", "changed"] = "added" if trusted is None else "changed"
        added.append(Review(new_id(), name, "pending_review", cause, differing(trusted, tool.wire), trusted, tool.wire, now))
    kept = [replace(each, state="superseded", decided_at=now) if each.id in overtaken else each for each in reviews]
    return _bounded((*kept, *added))


def _trusted(before: Tool | None, latest: Review | None) -> Json | None:
    """The form of the tool that was last in use without a break; None when there is none."""
    if before is None or before.status == "removed":
        return None
    if before.status == "active":
        return before.wire
    return latest.before if latest is not None else None


def decide(
    reviews: Sequence[Review], catalog: Catalog, review: str, choice: Choice, *, by: str, reason: str | None, now: str
) -> tuple[tuple[Review, ...], Catalog, Review]:
    """Entries and catalog after the decision, and the entry decided. Raises ReviewUnknown and ReviewConflict."""
    found = next((each for each in reviews if each.id == review), None)
    if found is None:
        raise ReviewUnknown(review)
    if found.state != "pending_review":
        raise ReviewConflict(review, found.state)
    done = replace(found, state="allowed" if choice == "allow" else "kept_blocked", decided_by=by, decided_at=now, reason=reason)
    tools: dict[str, Tool] = dict(catalog.tools)
    if choice == "allow":
        tools[found.tool] = replace(tools[found.tool], status="active")
    return tuple(done if each.id == review else each for each in reviews), replace(catalog, tools=tools), done


def _bounded(reviews: Sequence[Review]) -> tuple[Review, ...]:
    decided = [each for each in reviews if each.state != "pending_review"]
    forgotten = {each.id for each in decided[: max(0, len(decided) - MAX_DECIDED)]}
    return tuple(each for each in reviews if each.id not in forgotten)
