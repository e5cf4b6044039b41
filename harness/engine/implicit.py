"""Judged in every scenario, asked or not: that it ran, that the witnesses were awake, that the log is whole, that nothing was left changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from harness.engine.audit_order import audit_is_in_order, audit_says_whose, chained
from harness.engine.stale import catalogs_are_current
from harness.expect.audit_table import name_of, spell
from harness.expect.view import View
from harness.live.things import left_behind
from harness.model.digest import NotCanonical, canonical_text
from harness.model.evidence import ClientExchange, EvidenceRecord, PlanItemRecord, StepRecord, Trouble
from harness.model.finding import Finding
from harness.model.scenario import Scenario

Check = Callable[[Scenario, View], Iterator[Finding]]


def implicit_findings(scenario: Scenario, view: View) -> list[Finding]:
    return [finding for check in CHECKS for finding in check(scenario, view)]


def ran_to_the_end(scenario: Scenario, view: View) -> Iterator[Finding]:
    """`scenario-broken-off`: trouble of the run as a whole, or no end at all (the worker was lost)."""
    ends = [r for r in view.records if isinstance(r, PlanItemRecord) and r.phase == "end"]
    if not ends:
        yield Finding(
            id="scenario-broken-off",
            severity="error",
            message="the evidence ends in the middle of the scenario: its worker was lost, and what it had begun is unknown",
            where=str(scenario.location),
            fix="run the scenario again; a write that was under way may have happened",
        )
        return
    trouble = ends[-1].trouble
    if trouble is None:
        yield from every_step_is_there(scenario, view)
        return
    steps = [s for s in view.steps.values() if s.trouble is not None]
    step = steps[0].step if steps else ""
    where = next((str(s.location) for s in scenario.steps if s.id == step), str(scenario.location))
    yield from_trouble(trouble, step, where)


def every_step_is_there(scenario: Scenario, view: View) -> Iterator[Finding]:
    """A scenario that met no trouble has a record of each step; one that is gone took its expectations with it."""
    recorded = {(r.phase == "cleanup", r.step) for r in view.records if isinstance(r, StepRecord)}
    wanted = [(False, step) for step in scenario.steps] + [(True, step) for step in scenario.cleanup]
    for cleanup, step in wanted:
        if (cleanup, step.id) not in recorded:
            yield Finding(
                id="scenario-broken-off",
                severity="error",
                message=f"the evidence holds no record of step {step.id!r}, so what was expected of it was not judged",
                where=str(step.location),
                step=step.id,
                fix="judge the evidence as the run wrote it",
            )


def from_trouble(trouble: Trouble, step: str, where: str) -> Finding:
    """A broken contract is the subject's fault (fail); anything else means that we could not tell (error)."""
    broken = trouble.exit_code == 1
    return Finding(
        id="step-broken-off" if broken else trouble_id(trouble),
        severity="fail" if broken else "error",
        message=trouble.what,
        where=trouble.where or where,
        step=step,
        fix=trouble.fix,
    )


def trouble_id(trouble: Trouble) -> str:
    return {
        "Untestable": "untestable",
        "Unresolved": "untestable",
        "WitnessBlind": "witness-blind",
        "WorkerLost": "scenario-broken-off",
        "Unreachable": "unreachable",
        "CredentialsMissing": "credentials-missing",
        "PortInUse": "port-in-use",
        "UsageError": "usage",
        "BudgetSpent": "budget-spent",
        "ConsentMissing": "consent-missing",
        "ForeignData": "foreign-data",
    }.get(trouble.type, "unreachable" if trouble.exit_code == 4 else "could-not-tell")


def witness_was_awake(scenario: Scenario, view: View) -> Iterator[Finding]:
    """`witness-blind`: a tap that missed the gateway's discovery, or counts other dispatches than the audit, proves nothing."""
    if view.item is None or not (view.controls("access") or view.controls("shown") or view.steps):
        return  # set-up did not get far enough for a gateway to have discovered anything
    two = view.item.two_witness
    for connection in view.providers:
        seen = [e for c, e in view.exchanges if c == connection]
        discovered = any(e.rpc_method == "tools/list" for e in seen) or (view.operations(connection) and bool(seen))
        if not discovered:
            yield blind(scenario, connection, "the tap never saw the gateway discover its tools", 1, 0)
            continue
        if two:
            yield from two_agree(scenario, view, connection)
            continue
        audited = sum(r.get("event") == "call_started" and r.get("connection") == connection for r in view.audit)
        witnessed = sum(d.connection == connection for d in view.every_dispatch)
        if audited != witnessed:
            yield blind(scenario, connection, "audit and tap disagree on how many calls were dispatched", audited, witnessed)


def two_agree(scenario: Scenario, view: View, connection: str) -> Iterator[Finding]:
    """Without an audit, client and tap are all there is: each success the agent got left for the provider, and nothing else did."""
    dispatches = [d for d in view.every_dispatch if d.connection == connection]
    callers = {id(d.caller) for d in dispatches}
    calls = [r for r in view.records if isinstance(r, ClientExchange) and r.method == "tools/call" and r.connection == connection]
    served = [c for c in calls if c.result is not None and c.result.get("isError") is not True]
    unseen = sum(id(c) not in callers for c in served)
    if unseen:
        yield blind(scenario, connection, "the agent was given results of calls that the tap never saw", len(served), len(served) - unseen)
    stray = sum(d.caller is None for d in dispatches)
    if stray:
        yield blind(scenario, connection, "the tap saw calls that no agent made", 0, stray)


def blind(scenario: Scenario, connection: str, what: str, audited: int, witnessed: int) -> Finding:
    return Finding(
        id="witness-blind",
        severity="error",
        message=f"{connection}: {what}",
        where=str(scenario.location),
        expected=audited,
        actual=witnessed,
        fix="check that the gateway reaches this provider through the tap only, and audits every dispatch",
    )


def names_are_mapped(scenario: Scenario, view: View) -> Iterator[Finding]:
    """`name-unmapped`: the agent was shown names that do not follow what the target declares of its gateway."""
    for listing in (c for c in view.clients if c.method == "tools/list"):
        unmapped = (listing.result or {}).get("unmapped")
        if unmapped:
            yield Finding(
                id="name-unmapped",
                message=f"{len(unmapped)} tools are shown under names that belong to no connection",
                where=str(scenario.location),
                step=listing.step,
                expected="names as the target declares them",
                actual=unmapped[:10],
                fix="a gateway that renames must do so by one rule; see docs/targets.md",
            )


def audit_is_whole(scenario: Scenario, view: View) -> Iterator[Finding]:
    """`audit-altered`: a record whose hash is not that of its content."""
    for record in view.audit:
        if "hash" not in record and not chained(view):
            continue
        content = {k: v for k, v in record.items() if k != "hash"}
        try:
            actual = hashlib.sha256(canonical_text(content).encode()).hexdigest()
        except NotCanonical:
            actual = ""
        if actual != record.get("hash") and "[secret:" not in canonical_or_empty(record):
            yield Finding(
                id="audit-altered",
                message=f"audit record {record.get('seq')} does not have the hash it carries",
                where=str(scenario.location),
                expected=record.get("hash"),
                actual=actual,
                fix="a record must never change after it was written",
            )


def audit_is_complete(scenario: Scenario, view: View) -> Iterator[Finding]:
    """`audit-incomplete`: a call, of cleanup too, whose records fit no outcome of the table."""
    for trail in view.trails.values():
        if not name_of(trail):
            yield Finding(
                id="audit-incomplete",
                message=f"the audit's records of one call of {trail[0].get('tool')} fit no outcome",
                where=str(scenario.location),
                expected="all records of one outcome, in order",
                actual=[spell(record) for record in trail],
                fix="docs/operator-api.md lists the records of each outcome",
            )


def canonical_or_empty(record: object) -> str:
    try:
        return canonical_text(record)
    except NotCanonical:
        return ""


def access_was_restored(scenario: Scenario, view: View) -> Iterator[Finding]:
    """`access-not-restored`: the scenario left the control plane other than it found it."""
    for connection in view.providers:
        reads = {c.phase: c.data for c in view.controls("access", connection)}
        if "before" in reads and "after" in reads and reads["before"] != reads["after"]:
            yield Finding(
                id="access-not-restored",
                message=f"access of {connection} is not what it was before the scenario",
                where=str(scenario.location),
                expected=reads["before"],
                actual=reads["after"],
                fix="permissions that a scenario changes are restored after its cleanup",
            )


def replay_was_whole(scenario: Scenario, view: View) -> Iterator[Finding]:
    """`replay-unmatched`, `replay-unused`: what was asked and what was recorded are not the same."""
    ends = [r for r in view.records if isinstance(r, PlanItemRecord) and r.phase == "end"]
    for connection in view.providers:
        for read in view.controls("replay", connection):
            for lost in read.data["unmatched"]:
                near = "" if lost["nearest"] is None else f"; the nearest is interaction {lost['nearest']}"
                yield Finding(
                    id="replay-unmatched",
                    severity="error",
                    message=f"{connection}: {read.data['file']} holds no answer to: {lost['asked']}{near}",
                    where=str(scenario.location),
                    expected="a request that was recorded",
                    actual=lost["diff"],
                    fix="see the diff: mend the gateway if it asks wrongly, record again if it is right to ask anew",
                )
            for left in () if ends and ends[-1].trouble else read.data["unused"]:
                yield Finding(
                    id="replay-unused",
                    severity="fail" if left["tool"] else "warn",
                    message=f"{connection}: {read.data['file']}, interaction {left['number']}: recorded, and never asked for: {left['what']}",
                    where=str(scenario.location),
                    expected="every recorded exchange, once",
                    fix="find out why the gateway does not ask any more; record again if it is right",
                )


def cleanup_worked(scenario: Scenario, view: View) -> Iterator[Finding]:
    """`cleanup-failed`: something the scenario made is still there (a warning: it changes no claim)."""
    for record in view.records:
        why = not_cleaned(record)
        if why is not None:
            what, actual = why
            yield Finding(
                id="cleanup-failed",
                severity="warn",
                message=f"cleanup: {what}, so what the scenario made may still be there",
                where=str(scenario.location),
                step=getattr(record, "step", ""),
                actual=actual,
                fix="remove it by hand",
            )


def not_cleaned(record: EvidenceRecord) -> tuple[str, Any] | None:
    """(what went wrong, in whose words) if this record is of a cleanup that failed; a step without its capture had nothing to clean."""
    if isinstance(record, StepRecord) and record.phase == "cleanup" and record.trouble is not None and record.trouble.type != "Unresolved":
        return f"step {record.step!r} broke off", record.trouble.what
    if not isinstance(record, ClientExchange) or record.phase != "cleanup":
        return None
    if record.error is None and not record.transport_error and (record.result or {}).get("isError") is not True:
        return None
    return f"{record.tool} failed", record.said.get("reason") or record.transport_error


def live_rules_held(scenario: Scenario, view: View) -> Iterator[Finding]:
    """`live-guard`: the gateway sent what the rules of a live run forbid; it was stopped at the tap."""
    for connection, exchange in view.exchanges:
        rule = next((f for f in (exchange.fault or "").split(",") if f.startswith("live-guard")), "")
        if rule:
            what = exchange.tool or exchange.rpc_method or exchange.path
            yield Finding(
                id="live-guard",
                severity="error",
                message=f"{connection}: {what} was stopped before the provider ({rule.partition(':')[2]})",
                where=str(scenario.location),
                fix="see docs/live.md for the rules; a gateway that repeats or hurries requests runs into them",
            )


def nothing_left_behind(scenario: Scenario, view: View) -> Iterator[Finding]:
    """`left-behind`: a live run made something that is still at the provider (a warning: it changes no claim)."""
    if view.item is None or not (view.item.level == "live" or view.item.rehearsed):
        return
    for thing in left_behind(view.records, view.providers, view.manifests):
        way = f"by {' or '.join(thing.spec.removed_by)}" if thing.spec.removed_by else "by none of the provider's tools"
        yield Finding(
            id="left-behind",
            severity="warn",
            message=f"left at the provider: {thing.shown} (made by {thing.tool}, removable {way})",
            where=str(scenario.location),
            actual={"provider": thing.provider, "kind": thing.kind, "id": thing.id, "names": list(thing.names), "tool": thing.tool},
            fix="run harness sweep" if thing.spec.removed_by else "remove it by hand",
        )


def providers_keep_their_schemas(scenario: Scenario, view: View) -> Iterator[Finding]:
    """`output-schema-unmet`: a provider declares structured results and gives a success without one (a warning: its fault, not the gateway's)."""
    told: set[tuple[str, str]] = set()
    for connection, exchange in view.exchanges:
        result, catalog = exchange.result, view.catalog(connection)
        if exchange.rpc_method != "tools/call" or exchange.tool is None or not isinstance(result, dict) or exchange.is_error or catalog is None:
            continue
        if not any(e.get("name") == exchange.tool and e.get("output_schema") is not None for e in catalog.data.get("tools", [])):
            continue
        complete = result.get("resultType", "complete") == "complete"
        if complete and not isinstance(result.get("structuredContent"), dict) and (connection, exchange.tool) not in told:
            told.add((connection, exchange.tool))
            yield Finding(
                id="output-schema-unmet",
                severity="warn",
                message=f"{connection}: the provider declares what {exchange.tool} gives, and gave a success without structured content",
                where=str(scenario.location),
                expected="structured content that fits the output schema",
                actual="none, as the tap saw it on its way to the gateway",
                fix="the provider's to mend; a gateway passes such a result on unchanged",
            )


CHECKS: tuple[Check, ...] = (
    providers_keep_their_schemas,
    ran_to_the_end,
    witness_was_awake,
    names_are_mapped,
    audit_is_whole,
    audit_is_complete,
    audit_is_in_order,
    audit_says_whose,
    access_was_restored,
    cleanup_worked,
    replay_was_whole,
    live_rules_held,
    nothing_left_behind,
    catalogs_are_current,
)
