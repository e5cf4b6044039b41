"""Facts of the two legs, and how they differ. Frozen data, no judgement: which difference is a fault is for the rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from harness.model.location import Frozen

FORMAT = "transparency/v1"
Observations = Mapping[str, Any]
"""Fact id → JSON value, as one leg showed it. An id is AREA.WORD or AREA.WORD/SUBJECT, such as `component.title/add_memory`."""

Judgement = Literal["same", "declared", "waived", "note", "fault"]


class Fact(Frozen):
    """`direct` and `through`: JSON values; None where that leg shows nothing of the kind."""

    id: str
    subject: str = ""
    direct: Any = None
    through: Any = None

    @property
    def key(self) -> str:
        return f"{self.id}/{self.subject}" if self.subject else self.id

    @property
    def differs(self) -> bool:
        return bool(self.direct != self.through)


class Judged(Frozen):
    """A fact with what it counts as. `why`: the rule's, the declaration's or the waiver's reason."""

    fact: Fact
    counts: Judgement
    why: str = ""


class Measure(Frozen):
    """A figure with its unit. Never a fault by itself: it depends on the machine."""

    id: str
    direct: float | None
    through: float | None
    unit: str


class Staleness(Frozen):
    """After one change of the provider's list: what each view shows. Words: `new`, `old`, `new after N s`, `withheld`, `none` (there is
    no such view), `incomplete`, `another`.

    `told`: the live session was notified. `asked`: pages of its list that the provider was asked for meanwhile. `wanted`: the judgement.
    """

    change: str
    registry: str
    session: str
    fresh_session: str
    refresh: str
    told: bool
    asked: int

    @property
    def views(self) -> tuple[str, ...]:
        return (self.registry, self.session, self.fresh_session, self.refresh)

    @property
    def trouble(self) -> str:
        """"" when the gateway is honest about the change: shown, or withheld, or shown once it is told to refresh."""
        if self.change == "cursor-dropped":
            return ""  # its provider ended the list: no gateway can know better, and no view of it counts as clean
        if any(view.startswith("incomplete") for view in self.views):
            return "incomplete: a list that lost tools is shown as if it were whole"
        if self.refresh == "old" or (self.refresh == "none" and self.fresh_session == "old"):
            return "stale: the old list is shown to new sessions, and nothing brings the new one"
        if self.refresh.startswith("refused") and self.fresh_session == "old":
            return ""
        if self.session == "old" and not self.told and self.refresh == "none":
            return "stale: a live session goes on with the old list, and is not told"
        return "another list than the provider's" if "another" in self.views else ""


class Entry(Frozen):
    """One ending of a call. `agent`, `witness` and `record` are words; `record` is `none` where nothing was written."""

    case: str
    agent: str
    witness: str
    record: str
    counts: Judgement
    why: str


class CaseResult(Frozen):
    """One case of another project's, shown to this gateway."""

    case: str
    outcome: Literal["pass", "fail", "untestable"]
    what: str


class Report(Frozen):
    """`news`: what was written down of this gateway and no longer holds, and what holds and was not written down."""

    format: str = FORMAT
    target: str
    gateway: str
    protocol: str
    measured: str
    judged: tuple[Judged, ...]
    measures: tuple[Measure, ...] = ()
    news: tuple[str, ...] = ()
    incomplete: str = ""
    catalog: tuple[Staleness, ...] = ()
    audit: tuple[Entry, ...] = ()
    cases: tuple[CaseResult, ...] = ()
    advice: str = ""
    """What must be switched on to have a record of calls."""

    def of(self, *kinds: Judgement) -> tuple[Judged, ...]:
        return tuple(one for one in self.judged if one.counts in kinds)

    def named(self, key: str) -> Judged | None:
        return next((one for one in self.judged if one.fact.key == key), None)
