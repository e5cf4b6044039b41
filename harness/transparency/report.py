"""From a gateway to its transparency report: facts first, judgement after, nothing rendered here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.errors import Exit, fold_exit
from harness.scenario.files import data_root
from harness.target.light import LightTarget
from harness.transparency.audit import audit_honesty
from harness.transparency.cases import cases
from harness.transparency.catalog import catalog_honesty
from harness.transparency.compare import compare
from harness.transparency.facts import CaseResult, Entry, Report, Staleness
from harness.transparency.measure import Seat, costs, observe, under_glass
from harness.transparency.rules import Declaration, Rule, judge, load_declaration

OF_THIS_TREE = "of this tree"


async def transparency(seat: Seat, rules: Sequence[Rule], declaration: Declaration | None, *, whole: bool = True) -> Report:
    """`whole`: with catalog and audit honesty, which change what the provider lists and take the gateway's rights away.

    Raises Unreachable (4) when the gateway cannot be had or dies, Incomplete (5) when it leaves processes behind.
    """
    catalog: tuple[Staleness, ...] = ()
    audit: tuple[Entry, ...] = ()
    shown: tuple[CaseResult, ...] = ()
    async with under_glass(replace(seat, still=True)) as glass:
        direct = await observe(glass, direct=True)
        through = await observe(glass, direct=False)
        measures = await costs(glass)
        if whole:
            catalog = await catalog_honesty(glass)
            shown = await cases(glass, through)
            audit = await audit_honesty(glass)
        label = glass.gateway.label
    facts = compare(direct, through)
    judged, news = judge(facts, rules, declaration, version_of(seat))
    hidden = [fact.subject for fact in facts if fact.id == "list.tool" and fact.through is None]
    return Report(
        target=seat.target.id,
        gateway=label,
        protocol=seat.protocol,
        measured=f"{seat.clock.now():%Y-%m-%d}",
        judged=judged,
        measures=measures,
        news=news,
        incomplete=f"{len(hidden)} tools of the direct list are not in the gateway's: {', '.join(hidden)}" if hidden else "",
        catalog=catalog,
        audit=audit,
        cases=shown,
        advice=declaration.audit if declaration is not None and any(entry.why == "untestable: audit" for entry in audit) else "",
    )


def exit_code(report: Report) -> Exit:
    """0 when nothing but declared and waived differences is there; 1 for a fault or news; 5 when the list is incomplete or the record untestable.

    `notes` are not counted: the rules say that they are no faults. Of a gateway with a declaration they are news.
    """
    codes = {Exit.OK}
    if report.of("fault") or report.news or any(one.trouble for one in report.catalog) or any(one.outcome == "fail" for one in report.cases):
        codes.add(Exit.FAILED)
    if any(entry.counts == "fault" and not entry.why.startswith("untestable") for entry in report.audit):
        codes.add(Exit.FAILED)
    if report.incomplete or any(entry.why.startswith("untestable") for entry in report.audit):
        codes.add(Exit.INCOMPLETE)
    return fold_exit(codes)


def version_of(seat: Seat) -> str:
    kind = seat.target
    return kind.installation().version if isinstance(kind, LightTarget) and kind.package else OF_THIS_TREE


def declaration_of(target: str) -> Declaration | None:
    return load_declaration(declaration_file(target))


def declaration_file(target: str) -> Path:
    return data_root() / "targets" / target / "transparency.yaml"
