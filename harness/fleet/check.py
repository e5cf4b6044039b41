"""One check: two sides in, the whole result out, with waivers, threshold, places and exit code. Reads nothing and writes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import harness
from harness.drift.compare import compare
from harness.drift.relations import RelateSchemas, relations_between
from harness.drift.risk_table import risk_table
from harness.errors import Exit, HarnessError, fold_exit
from harness.fleet.locate import Locator
from harness.fleet.pairs import schema_pairs
from harness.fleet.rules import rule_infos
from harness.fleet.side import Loaded, with_risks
from harness.inventory.canonical import NotCanonical, canonical_bytes
from harness.inventory.side import Side
from harness.model.drift import UNDECIDED, Against, DriftFinding, DriftReport, DriftSeverity, RiskRow
from harness.model.drift_result import DriftResult, Judged, State, threshold
from harness.model.waiver import Waiver
from harness.report.drift.reading import count
from harness.risk.oracle import Oracle
from harness.waiver.apply import Applied, Candidate, apply


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user decided. `today` is YYYY-MM-DD; `alone`: nothing else is checked beside it, so that unused waivers can be told."""

    today: str
    fail_on: tuple[str, ...] = ()
    severities: Mapping[str, DriftSeverity] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    alone: bool = True


@dataclass(frozen=True, slots=True)
class Checked:
    result: DriftResult
    used: frozenset[Waiver]


def check(old: Loaded, new: Loaded, policy: Policy, *, relate: RelateSchemas, subject: str, against: Against, headers: Iterable[str] = ()) -> Checked:
    """`subject` names the provider or server in waivers and reports; `relate` decides pairs of schemas, and is where time is spent."""
    before, after = with_risks(old, None), with_risks(new, old.inventory)
    report = compare(before, after, against=against, relations=relations_between(before, after, relate))
    found = [_overridden(finding, policy.severities) for finding in report.findings]
    report = report.model_copy(update={"findings": tuple(found)})
    candidates = [Candidate(finding, fingerprint(finding)) for finding in found]
    applied = apply(candidates, policy.waivers, provider=subject, today=policy.today, complete=report.complete, alone=policy.alone)
    judged = _judged(candidates, applied, policy, _locator(old))
    unproven = sum(1 for item in judged if item.finding.id in UNDECIDED and item.state != "accepted")
    codes, reasons = _outcome(report, judged, unproven)
    rows = risk_rows(old, new, before, after)
    result = DriftResult(
        subject=subject,
        old=report.old,
        new=report.new,
        report=report,
        judged=tuple(judged),
        rules=rule_infos(policy.severities),
        fail_on=tuple(sorted({*policy.fail_on, "breaking"})),
        exit_code=int(fold_exit(codes)),
        reasons=reasons,
        unproven=unproven,
        pairs=schema_pairs(before, after, judged),
        headers=tuple(sorted(headers)),
        risks=tuple(row for row in rows if row.disputed),
        risks_agreed=sum(1 for row in rows if not row.disputed),
        harness_version=harness.__version__,
    )
    return Checked(result, applied.used)


def risk_rows(old: Loaded, new: Loaded, before: Side, after: Side) -> tuple[RiskRow, ...]:
    """Every tool's risk as each party at hand has it. A gateway's catalog is the one side that is neither an inventory nor a list from the wire."""
    sides = ((old, before), (new, after))
    inventory = next((side for loaded, side in sides if loaded.inventory is not None), None)
    listed = next((side for loaded, side in reversed(sides) if loaded.capture is not None), None)
    gateway = next((side for loaded, side in reversed(sides) if loaded.capture is None and loaded.inventory is None), None)
    reviewed = {loaded.inventory.provider: loaded.inventory for loaded, _ in sides if loaded.inventory is not None}
    return risk_table(next(iter(reviewed), "generic"), Oracle(reviewed), gateway=gateway, inventory=inventory, listed=listed)


def failed(error: HarnessError, policy: Policy, *, subject: str, old: str, new: str) -> DriftResult:
    """The result of a check that could not be made, so that a report says so instead of being absent."""
    return DriftResult(
        subject=subject,
        old=old,
        new=new,
        report=None,
        rules=rule_infos(policy.severities),
        fail_on=tuple(sorted({*policy.fail_on, "breaking"})),
        exit_code=int(error.exit_code),
        reasons=tuple(line.strip() for line in str(error).splitlines() if line.strip()),
        harness_version=harness.__version__,
    )


def fingerprint(finding: DriftFinding) -> str:
    """Names this very change: rule, place, old and new value. Not the words of its message, which may improve."""
    digest = hashlib.sha256()
    for part in (finding.id, finding.tool, finding.pointer, finding.expected, finding.actual):
        try:
            data = canonical_bytes(part)
        except NotCanonical:
            data = repr(part).encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:32]


def _overridden(finding: DriftFinding, severities: Mapping[str, DriftSeverity]) -> DriftFinding:
    wanted = severities.get(finding.id, finding.severity)
    return finding if wanted == finding.severity else finding.model_copy(update={"severity": wanted})


def _locator(old: Loaded) -> Callable[[], Locator]:
    """Reads the file's positions when the first finding asks for one: most checks find nothing."""
    made: list[Locator] = []

    def get() -> Locator:
        if not made:
            made.append(Locator(old.file, old.text, old.provider))
        return made[0]

    return get


def _judged(candidates: list[Candidate], applied: Applied, policy: Policy, locator: Callable[[], Locator]) -> list[Judged]:
    failing = threshold(policy.fail_on)
    judged = []
    for candidate in candidates:
        waiver = applied.accepted.get(candidate.fingerprint)
        finding = candidate.finding
        state: State = "accepted" if waiver else "failing" if finding.severity in failing else "reported"
        said = f"{waiver.owner} until {waiver.expires}: {waiver.reason} ({waiver.issue})" if waiver else ""
        place = locator().locate(finding.tool, finding.pointer)
        judged.append(Judged(finding=finding, fingerprint=candidate.fingerprint, state=state, accepted_by=said, location=place))
    for notice, waiver in applied.notices:
        finding = _overridden(notice, policy.severities)
        state = "failing" if finding.severity in failing else "reported"
        judged.append(Judged(finding=finding, fingerprint=fingerprint(finding), state=state, location=waiver.at if waiver.at.file else None))
    return judged


def _outcome(report: DriftReport, judged: list[Judged], unproven: int) -> tuple[set[Exit], tuple[str, ...]]:
    codes: set[Exit] = set()
    reasons: list[str] = []
    accepted = any(item.finding.id == "list-incomplete" and item.state == "accepted" for item in judged)
    if not report.complete and not accepted:
        codes.add(Exit.INCOMPLETE)
        reasons.append(f"a list is incomplete: {report.reason}")
    if unproven:
        codes.add(Exit.INCOMPLETE)
        reasons.append(f"{count(unproven, 'comparison')} not decided, and nobody accepted that")
    failing = sum(1 for item in judged if item.state == "failing")
    if failing:
        codes.add(Exit.DRIFT)
        reasons.append(f"{count(failing, 'finding')} at or above the threshold")
    return codes, tuple(reasons)
