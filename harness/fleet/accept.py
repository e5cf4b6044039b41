"""Drift accepted on purpose: as waivers, or by taking new records into the inventory; either way with who, when and why."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from harness.clock import SystemClock
from harness.errors import LoadError, UsageError
from harness.fleet.check import Policy, check
from harness.fleet.pair import inventory_folders
from harness.fleet.relating import relater
from harness.fleet.side import Access, Loaded, load, with_document
from harness.fleet.source import parse_source
from harness.inventory.build import record_of
from harness.inventory.canonical import NotCanonical
from harness.inventory.store import dump_inventory
from harness.model.drift_result import Judged
from harness.model.inventory import Inventory, ToolRecord
from harness.model.tool import Tool
from harness.model.waiver import Waiver, Where
from harness.report.write import write_bytes
from harness.risk.oracle import Oracle
from harness.waiver.append import read_or_empty, with_waivers
from harness.waiver.load import waiver_text

_LOG_HEAD = "# What was taken into the inventory on purpose: which finding, by whom, when, why. Only ever added to.\n"


@dataclass(frozen=True, slots=True)
class Choice:
    """Empty: any. `pointer` None: any."""

    findings: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    pointer: str | None = None

    def takes(self, judged: Judged) -> bool:
        finding = judged.finding
        return (
            (not self.findings or finding.id in self.findings)
            and (not self.tools or finding.tool in self.tools)
            and self.pointer in (None, finding.pointer)
        )


@dataclass(frozen=True, slots=True)
class Decision:
    owner: str
    reason: str
    issue: str


@dataclass(frozen=True, slots=True)
class Compared:
    """`chosen` findings are to be accepted; `judged` are all."""

    old: Loaded
    new: Loaded
    judged: tuple[Judged, ...]
    chosen: tuple[Judged, ...]
    subject: str


def compared(old: str, new: str, access: Access, choice: Choice) -> Compared:
    """Raises UsageError when nothing that is there is chosen."""
    folders = inventory_folders()
    sources = [with_document(parse_source(text), folders) for text in (old, new)]

    async def both() -> list[Loaded]:
        return [await load(source, access) for source in sources]

    before, after = asyncio.run(both())
    subject = before.provider or after.provider
    with relater() as relate:
        result = check(before, after, Policy(today=_today()), relate=relate, subject=subject, against="live").result
    chosen = tuple(judged for judged in result.judged if choice.takes(judged))
    if not chosen:
        there = sorted({f"{judged.finding.id} on {judged.finding.tool or 'the server'}" for judged in result.judged})
        fix = f"there is: {', '.join(there[:10])}" if there else "there is no drift at all"
        raise UsageError("no finding is chosen", where=f"{before.label} → {after.label}", fix=fix)
    return Compared(before, after, result.judged, chosen, subject)


def _today() -> str:
    return SystemClock().now().date().isoformat()


def accept_by_waivers(sides: Compared, decision: Decision, expires: str | None, path: Path) -> list[str]:
    """Adds one waiver per chosen finding to the file, whole or not at all. Raises UsageError, or LoadErrors for a bad waiver or file."""
    if expires is None or expires < _today():
        what = "a waiver needs its last day" if expires is None else f"{expires} is over"
        raise UsageError(what, where="--expires", fix="write a date to come: --expires YYYY-MM-DD")
    added = [_waiver(judged, decision, expires, sides.subject) for judged in sides.chosen]
    text = with_waivers(read_or_empty(path), str(path), added)
    write_bytes(path, text.encode("utf-8"))
    return [f"accepted until {expires}: {_said(judged)}" for judged in sides.chosen] + [f"{len(added)} waivers added to {path}"]


def _waiver(judged: Judged, decision: Decision, expires: str, subject: str) -> Waiver:
    finding = judged.finding
    try:
        return Waiver(
            finding=finding.id,
            where=Where(provider=subject or None, tool=finding.tool, pointer=finding.pointer),
            owner=decision.owner,
            reason=decision.reason,
            issue=decision.issue,
            expires=expires,
            accepted=_today(),
            fingerprint=judged.fingerprint,
        )
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        option = str(problem["loc"][0])
        raise UsageError(f"{option}: {problem['msg']}", where=f"--{option}", fix="write it out; a date is YYYY-MM-DD") from error


def accept_by_update(sides: Compared, decision: Decision) -> list[str]:
    """Takes the new records of the chosen tools into the inventory file. Raises UsageError where that would accept more than was chosen."""
    inventory = sides.old.inventory
    if inventory is None or not sides.old.file.endswith((".yaml", ".yml")):
        raise UsageError("only an inventory file of ours can be updated", where=sides.old.label, fix="make one: harness inventory capture")
    if sides.new.capture is None or not sides.new.capture.complete:
        raise UsageError("an inventory is updated from a whole tool list", where=sides.new.label, fix="give a URL or a tools/list result")
    tools = list(dict.fromkeys(judged.finding.tool for judged in sides.chosen))
    _nothing_else(sides, tools)
    listed = {tool.name: tool for tool in sides.new.capture.tools}
    updated = _updated(inventory, {name: listed.get(name) for name in tools})
    path, log = Path(sides.old.file), Path(sides.old.file).parent / "accepted" / Path(sides.old.file).name
    entries = "".join(waiver_text(_entry(judged, decision, inventory, updated)) for judged in sides.chosen)
    write_bytes(log, ((read_or_empty(log) or _LOG_HEAD) + entries).encode("utf-8"))
    write_bytes(path, dump_inventory(updated).encode("utf-8"))
    return [f"taken into the inventory: {_said(judged)}" for judged in sides.chosen] + [f"{len(tools)} tools updated in {path}; recorded in {log}"]


def _nothing_else(sides: Compared, tools: list[str]) -> None:
    if "" in tools:
        raise UsageError(
            "a finding on the server itself has no record", where="--update", fix="accept it with a waiver, or capture the inventory anew"
        )
    others = [judged for judged in sides.judged if judged.finding.tool in tools and judged not in sides.chosen]
    if others:
        more = ", ".join(sorted({f"{judged.finding.id} on {judged.finding.tool}" for judged in others})[:10])
        raise UsageError(f"the new record would also accept {more}", where="--update", fix="choose those too, or accept these with waivers")


def _updated(inventory: Inventory, tools: dict[str, Tool | None]) -> Inventory:
    """A tool that is gone is recorded as removed; a class that was reviewed stays, a new tool's is guessed and to be read by people."""
    oracle = Oracle({inventory.provider: inventory})
    records = {record.name: record for record in inventory.tools}
    for name, tool in tools.items():
        known = records.get(name)
        if tool is None:
            if known is not None:
                records[name] = known.model_copy(update={"status": "removed"})
            continue
        try:
            records[name] = _record(tool, known, oracle, inventory.provider)
        except NotCanonical as error:
            raise LoadError(f"{name}: {error.reason}", where=error.pointer, fix=error.fix) from error
    return inventory.model_copy(update={"tools": tuple(records.values())})


def _record(tool: Tool, known: ToolRecord | None, oracle: Oracle, provider: str) -> ToolRecord:
    risk = oracle.judge(provider, tool).risk
    return record_of(tool, risk=risk, reviewed_defaults=known.reviewed_defaults if known else ())


def _entry(judged: Judged, decision: Decision, before: Inventory, after: Inventory) -> dict[str, object]:
    finding = judged.finding
    old, new = before.get(finding.tool), after.get(finding.tool)
    return {
        "finding": finding.id,
        "where": {"tool": finding.tool, "pointer": finding.pointer},
        "fingerprint": judged.fingerprint,
        "from": old.schema_hash if old else None,
        "to": new.schema_hash if new and new.status != "removed" else None,
        "owner": decision.owner,
        "accepted": _today(),
        "reason": decision.reason,
        "issue": decision.issue,
    }


def _said(judged: Judged) -> str:
    finding = judged.finding
    return " ".join(filter(None, (finding.id, finding.tool, finding.pointer)))
