"""How old our recordings are, and whether today's provider still says what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from harness.cassette.store import read_header
from harness.clock import SystemClock
from harness.engine.tapes import inventory_hash
from harness.errors import HarnessError
from harness.model.inventory import Inventory
from harness.model.verdict import Verdict
from harness.scenario.files import cassettes_folder, shown

Freshness = Literal["fresh", "stale", "contradicted by live", "unreadable"]
ORDER: tuple[Freshness, ...] = ("unreadable", "contradicted by live", "stale", "fresh")


@dataclass(frozen=True, slots=True)
class Cassette:
    """What the header of one recording says. `problem`: why it cannot be read, "" when it can."""

    file: str
    provider: str
    scenario: str
    recorded_at: str
    recorded_on: str
    expires: str
    expired: bool
    problem: str = ""
    outdated: bool = False
    """It was recorded against another inventory than the one that is agreed now."""
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class Judged:
    cassette: Cassette
    state: Freshness
    because: tuple[str, ...]


def read_cassettes(folder: Path, now: datetime, inventories: Mapping[str, Inventory] = MappingProxyType({})) -> list[Cassette]:
    """Every recording below the folder, by its header alone; one that cannot be read says so and hides nothing."""
    found = []
    for path in sorted(folder.glob("*/*.yaml")):
        try:
            header = read_header(path)
        except HarnessError as error:
            found.append(Cassette(shown(path), path.parent.name, path.stem, "", "", "", False, error.what))
            continue
        found.append(
            Cassette(
                file=shown(path),
                provider=header.provider,
                scenario=header.scenario,
                recorded_at=header.recorded_at,
                recorded_on=header.day,
                expires=header.expires,
                expired=header.expired(now),
                protocol=header.protocol,
                outdated=bool(inventories) and header.inventory != inventory_hash(inventories.get(header.provider)),
            )
        )
    return found


def recorded(provider: str) -> str:
    """Why nothing recorded can be replayed for a provider now, or ""."""
    found = [c for c in read_cassettes(cassettes_folder(), SystemClock().now()) if c.provider == provider]
    if not found:
        return "nothing is recorded"
    usable = [c for c in found if not c.problem and not c.expired]
    return "" if usable else f"all {len(found)} recordings are expired or unreadable; record them again"


def judge_freshness(
    cassettes: Sequence[Cassette],
    verdicts: Sequence[Verdict],
    causes: Mapping[str, str],
    drifted: Mapping[str, Sequence[str]],
    speaks: Mapping[str, str] = MappingProxyType({}),
) -> list[Judged]:
    """`causes`: item → triage's class. `drifted`: provider → what today's live list has that the reviewed inventory has not, or lacks.
    `speaks`: provider → the newest protocol version that it speaks today.

    A recording is contradicted when the provider itself, asked today, differs: its own list drifted, it no longer speaks the version
    that was recorded, or the recorded scenario failed above level replayed for a reason that is the provider's change.
    """
    found = []
    for cassette in cassettes:
        against = [f"today's tool list differs: {what}" for what in drifted.get(cassette.provider, ())]
        if today := speaks.get(cassette.provider, ""):
            newest = f"it speaks nothing newer than {today} today, and was recorded at {cassette.protocol}"
            against += [newest] if today < cassette.protocol else []
        against += [
            f"{v.item} says otherwise: {_failing(v)}"
            for v in verdicts
            if v.scenario == cassette.scenario and v.level in ("local", "live") and causes.get(v.item) == "provider_change"
        ]
        if cassette.problem:
            found.append(Judged(cassette, "unreadable", (cassette.problem,)))
        elif against:
            found.append(Judged(cassette, "contradicted by live", tuple(against)))
        elif cassette.expired:
            found.append(Judged(cassette, "stale", (f"recorded on {cassette.recorded_on}, expired on {cassette.expires}",)))
        elif cassette.outdated:
            found.append(Judged(cassette, "stale", ("recorded against another inventory than the one agreed now",)))
        else:
            found.append(Judged(cassette, "fresh", (f"recorded on {cassette.recorded_on}, expires on {cassette.expires}",)))
    return sorted(found, key=lambda judged: (ORDER.index(judged.state), judged.cassette.file))


def _failing(verdict: Verdict) -> str:
    return next((f"{f.id}: {f.message}" for f in verdict.findings if f.severity in ("fail", "drift", "error")), verdict.outcome)
