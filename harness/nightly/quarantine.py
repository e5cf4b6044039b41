"""`quarantine.yaml`: steps that are known to be flaky, who mends them, and until when they may be.

A quarantined step that fails does not turn a night red; it is listed all the same. An entry ends by itself, an entry that is past its
end or that no scenario knows is a finding, and what contradicts the gateway's own witnesses cannot be quarantined at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from harness.errors import LoadError, LoadErrors
from harness.model.location import Frozen, Location
from harness.model.scenario import Scenario
from harness.model.verdict import Verdict
from harness.nightly.case import BAD
from harness.scenario.files import shown
from harness.scenario.params import check_model
from harness.scenario.problems import Problems
from harness.yaml_nodes import SeqNode, parse_yaml

LONGEST = timedelta(days=30)
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class Written(Frozen):
    """An entry as it stands in the file."""

    scenario: str
    step: str
    owner: str
    reason: str
    issue: str
    accepted: str
    expires: str


@dataclass(frozen=True, slots=True)
class Quarantined:
    scenario: str
    step: str
    owner: str
    reason: str
    issue: str
    expires: date
    at: Location

    def expired(self, today: date) -> bool:
        return today > self.expires


def load_quarantine(path: Path) -> tuple[Quarantined, ...]:
    """The entries of a file; none when there is no file. Raises LoadError or LoadErrors, positioned."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"cannot be read: {error}", where=str(path), fix="make it a readable UTF-8 file") from error
    return parse_quarantine(text, shown(path))


def parse_quarantine(text: str, name: str) -> tuple[Quarantined, ...]:
    node = parse_yaml(text, name)
    if not isinstance(node, SeqNode):
        fix = "write one `- scenario: …` per entry, or [] for none"
        raise LoadErrors([LoadError("a quarantine is a list", where=str(node.location), fix=fix)])
    problems = Problems(text)
    found: list[Quarantined] = []
    for item in node.items:
        entry = problems.mapping(item, "an entry of the quarantine")
        written = check_model(Written, entry, "an entry of the quarantine", problems) if entry is not None else None
        if isinstance(written, Written) and (made := _dated(written, item.location, problems)):
            found.append(made)
    problems.raise_any()
    return tuple(found)


def _dated(written: Written, at: Location, problems: Problems) -> Quarantined | None:
    days: dict[str, date] = {}
    for key in ("accepted", "expires"):
        value = getattr(written, key)
        try:
            days[key] = date.fromisoformat(value if DAY.fullmatch(value) else "")
        except ValueError:
            problems.add(at, f"{key} is no date: {value!r}", 'write a quoted date, such as "2026-12-31"')
            return None
    if not timedelta(0) <= days["expires"] - days["accepted"] <= LONGEST:
        problems.add(at, f"it ends more than {LONGEST.days} days after it was accepted, or before it", "mend the step, or accept it anew")
        return None
    if not written.issue.startswith("https://"):
        problems.add(at, "issue is no https link", "link the issue that will end it")
        return None
    return Quarantined(written.scenario, written.step, written.owner, written.reason, written.issue, days["expires"], at)


def problems_of(entries: Sequence[Quarantined], scenarios: Mapping[str, Scenario], today: date) -> list[str]:
    """Entries that hold no more, and entries that are about nothing."""
    found = []
    for entry in entries:
        scenario = scenarios.get(entry.scenario)
        if entry.expired(today):
            found.append(
                f"{entry.at}: the quarantine of {entry.scenario}/{entry.step} ended on {entry.expires}; mend it ({entry.owner}, {entry.issue})"
            )
        elif scenario is None:
            found.append(f"{entry.at}: there is no scenario {entry.scenario!r} to quarantine a step of")
        elif entry.step not in {step.id for step in scenario.steps}:
            found.append(f"{entry.at}: {entry.scenario} has no step {entry.step!r}")
    return found


def excusing(verdict: Verdict, cause: str, entries: Sequence[Quarantined], today: date) -> tuple[Quarantined, ...]:
    """The entries that together excuse this failure: each failing finding stands at a quarantined step. Empty when one does not."""
    if cause in ("gateway_defect", "credentials"):
        return ()
    usable = {(e.scenario, e.step): e for e in entries if not e.expired(today)}
    needed = [usable.get((verdict.scenario, f.step)) for f in verdict.findings if f.severity in BAD]
    excused = [entry for entry in needed if entry is not None]
    return tuple(dict.fromkeys(excused)) if needed and len(excused) == len(needed) else ()
