"""Every rule that a drift report may name, with its severity here: the table's, and those on waivers."""

from __future__ import annotations

from collections.abc import Mapping

from harness.drift.rules import TABLE
from harness.model.drift import DriftSeverity
from harness.model.drift_result import RuleInfo
from harness.waiver.apply import FIXES

_ON_WAIVERS = {
    "waiver-expired": "an exception outlived its date",
    "waiver-stale": "an exception was accepted for another change than the one found now",
    "waiver-unused": "an exception covers nothing that was found",
}


def rule_infos(severities: Mapping[str, DriftSeverity] | None = None) -> tuple[RuleInfo, ...]:
    """In order of id; `severities` replace the table's own."""
    chosen = severities or {}
    found: dict[str, RuleInfo] = {}
    for rule in TABLE:
        if rule.id not in found:
            found[rule.id] = RuleInfo(
                id=rule.id,
                severity=chosen.get(rule.id, rule.severity),
                default=rule.severity,
                direction=rule.direction,
                title=rule.id.replace("-", " "),
                fix=rule.fix,
            )
    for name, title in _ON_WAIVERS.items():
        found[name] = RuleInfo(id=name, severity=chosen.get(name, "risk"), default="risk", direction="waiver", title=title, fix=FIXES[name])
    return tuple(found[name] for name in sorted(found))


def rule_ids() -> tuple[str, ...]:
    return tuple(rule.id for rule in rule_infos())
