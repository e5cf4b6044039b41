"""Two sides in, a report out: facts from inventory.diff, judged by the table, and by the relations where these are known.

`compare` never searches: what needs searching comes in as `relations` (see relations.relations_between, relater.Relater), so that
a judge may recompute a stored comparison byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.drift.glance import introduced
from harness.drift.relations import overruled, relation_facts
from harness.drift.rules import judge_fact, rule_of
from harness.inventory.diff import Diff, diff
from harness.inventory.facts import ASPECTS, Aspect, Fact
from harness.inventory.side import Side
from harness.model.drift import SEVERITIES, Against, AspectCount, DriftFinding, DriftReport, ToolRelation

_FAKE: frozenset[Aspect] = frozenset({"names", "parameters", "risk", "status", "shape"})
Relations = Mapping[str, ToolRelation]


def aspects_against(against: Against) -> frozenset[Aspect]:
    """What may be compared. A fake's prose, hints, output schemas and so its hashes are its own, and prove nothing either way."""
    return _FAKE if against == "fake" else frozenset(ASPECTS)


def compare(old: Side, new: Side, *, against: Against = "live", relations: Relations | None = None) -> DriftReport:
    """Judge `new` by `old`. Findings come with the worst first, then in the order of the list. `relations` by tool name, if known."""
    return judge_diff(diff(old, new), old, new, against=against, relations=relations)


def judge_diff(found: Diff, old: Side, new: Side, *, against: Against, relations: Relations | None = None) -> DriftReport:
    """As `compare`, on facts already found."""
    wanted = aspects_against(against)
    known = relations or {}
    facts = [*found.facts, *(introduced(old, new) if relations is not None else ())]
    findings = _findings([fact for fact in facts if fact.aspect in wanted], known, wanted)
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))

    def count(aspect: Aspect) -> AspectCount:
        if aspect not in wanted:
            return AspectCount(compared=0, agreed=0)
        return AspectCount(compared=found.compared[aspect], agreed=found.agreed[aspect])

    short = [f"{side.label}: {side.reason}" for side in (old, new) if not side.complete]
    return DriftReport(
        old=old.label,
        new=new.label,
        against=against,
        complete=not short,
        reason="; ".join(short),
        names=count("names"),
        parameters=count("parameters"),
        risk=count("risk"),
        status=count("status"),
        shape=count("shape"),
        hash=count("hash"),
        findings=tuple(findings),
        relations=dict(known),
    )


def _findings(facts: list[Fact], relations: Relations, wanted: frozenset[Aspect]) -> list[DriftFinding]:
    """Located facts, overruled where more is known, then what the relations add; a breaking one carries its tool's witness."""
    judged = [overruled(fact, rule_of(fact).severity, relations.get(fact.tool)) for fact in facts]
    out = [_proven(judge_fact(fact), relations) for fact in judged]
    said: dict[str, set[tuple[str, str, str]]] = {}
    breaking: dict[str, set[str]] = {}
    for fact, finding in zip(judged, out, strict=True):
        said.setdefault(fact.tool, set()).add((fact.kind, fact.direction, fact.pointer))
        if finding.severity == "breaking":
            breaking.setdefault(fact.tool, set()).add(finding.direction)
    for name, relation in relations.items():
        more = relation_facts(name, relation, said.get(name, set()), breaking.get(name, set()))
        out += [_proven(judge_fact(fact), relations) for fact in more if fact.aspect in wanted]
    return out


def _proven(finding: DriftFinding, relations: Relations) -> DriftFinding:
    relation = relations.get(finding.tool)
    if relation is None or finding.severity != "breaking":
        return finding
    if finding.direction == "output":
        found = relation.output.reverse_witness if relation.output is not None else None
    else:
        found = relation.input.witness if relation.input is not None and relation.input.documented_witness else None
    return finding.model_copy(update={"witness": found}) if found is not None else finding
