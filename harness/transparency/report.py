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
from harness.transparency.facts import CaseResult, Entry, Fact, Report, Staleness
from harness.transparency.measure import Seat, costs, observe, under_glass
from harness.transparency.rules import Declaration, Rule, judge, load_declaration

OF_THIS_TREE = "of this tree"
NO_RECORD = ("untestable: audit", "no record")
HONEST_WORD = "agent, witness and record agree"


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
    facts = (*compare(direct, through), *outcomes(catalog, audit, shown))
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
        advice=declaration.audit if declaration is not None and any(entry.why.startswith(NO_RECORD) for entry in audit) else "",
    )


def outcomes(catalog: Sequence[Staleness], audit: Sequence[Entry], shown: Sequence[CaseResult]) -> tuple[Fact, ...]:
    """The same table judges them: what an honest gateway shows stands as the direct leg. What is untestable is no difference, and red by itself."""
    told = [(f"catalog.{one.change}", "shown or withheld", one.trouble or "shown or withheld") for one in catalog]
    told += [(f"audit.{one.case}", HONEST_WORD, HONEST_WORD if one.counts == "same" else one.why) for one in audit if not _untestable(one.why)]
    told += [(f"case.{one.case}", "pass", "pass" if one.outcome == "pass" else one.what) for one in shown if one.outcome != "untestable"]
    return tuple(Fact(id=key, direct=wanted, through=found) for key, wanted, found in told)


def _untestable(why: str) -> bool:
    return why.startswith("untestable")


def exit_code(report: Report) -> Exit:
    """0 when nothing but declared and waived differences is there; 1 for a fault or news; 5 when the list is incomplete or the record untestable.

    `notes` are not counted: the rules say that they are no faults. Of a gateway with a declaration they are news.
    """
    codes = {Exit.OK}
    if report.of("fault") or report.news:
        codes.add(Exit.FAILED)
    if report.incomplete or any(_untestable(entry.why) for entry in report.audit):
        codes.add(Exit.INCOMPLETE)
    return fold_exit(codes)


def version_of(seat: Seat) -> str:
    kind = seat.target
    return kind.installation().version if isinstance(kind, LightTarget) and kind.package else OF_THIS_TREE


def declaration_of(target: str) -> Declaration | None:
    return load_declaration(declaration_file(target))


def declaration_file(target: str) -> Path:
    return data_root() / "targets" / target / "transparency.yaml"
