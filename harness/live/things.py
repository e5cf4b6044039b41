"""What a run made at a provider, and what of it is still there. Pure: read from the evidence, by the manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.live.marks import texts
from harness.model.answer import json_of, pointer
from harness.model.evidence import ApprovalRecord, ClientExchange, EvidenceRecord
from harness.model.manifest import Manifest, Thing


@dataclass(frozen=True, slots=True)
class Made:
    """One thing: `id` as the provider named it ("" when its answer did not), `names` as the run named it."""

    connection: str
    provider: str
    kind: str
    tool: str
    id: str
    names: tuple[str, ...]
    seq: int
    spec: Thing

    @property
    def shown(self) -> str:
        name = self.id or (self.names[0] if self.names else "?")
        return f"{self.provider} {self.kind} {name}"


@dataclass(frozen=True, slots=True)
class Carried:
    """One tool call that the provider carried out, whoever decided on it."""

    connection: str
    tool: str
    arguments: Mapping[str, Any]
    answer: Any
    seq: int


def carried_out(records: Iterable[EvidenceRecord]) -> Iterator[Carried]:
    """Successful calls, in order; an approved one with what its execution brought."""
    held: dict[str, ClientExchange] = {}
    for record in records:
        if isinstance(record, ClientExchange) and record.method == "tools/call":
            if record.said.get("outcome") == "pending":
                held[str(record.said.get("approval"))] = record
            elif served(record.result):
                yield Carried(record.connection, record.tool, record.arguments or {}, record.result, record.started_seq)
        elif isinstance(record, ApprovalRecord) and record.decision == "approve" and served(record.result):
            call = held.get(str(record.approval.get("id")))
            if call is not None:
                yield Carried(call.connection, call.tool, call.arguments or {}, record.result, record.seq)


def served(result: Any) -> bool:
    """A result that is no error, not even one inside an answer that does not call itself so."""
    if not isinstance(result, Mapping) or result.get("isError") is True:
        return False
    answer = json_of(result)
    return not (isinstance(answer, Mapping) and answer.get("error"))


def left_behind(records: Iterable[EvidenceRecord], providers: Mapping[str, str], manifests: Mapping[str, Manifest]) -> tuple[Made, ...]:
    """Things that were made and not removed afterwards, in the order in which they were made."""
    there: list[Made] = []
    for call in carried_out(records):
        manifest = manifests.get(providers.get(call.connection, ""))
        if manifest is None:
            continue
        there = [thing for thing in there if not removes(call, thing)]
        for made in makes(call, manifest):
            if not any((m.connection, m.kind, m.id, m.names) == (made.connection, made.kind, made.id, made.names) for m in there):
                there.append(made)
    return tuple(there)


def makes(call: Carried, manifest: Manifest) -> Iterator[Made]:
    answer = json_of(call.answer)
    for thing in manifest.live.things:
        if thing.made_by != call.tool or not fits(thing.when, call.arguments):
            continue
        found, value = pointer(answer, thing.id) if thing.id is not None else (False, None)
        names = tuple(str(call.arguments[n]) for n in thing.name if isinstance(call.arguments.get(n), str))
        identity = str(value) if found and isinstance(value, str | int) else ""
        if identity or names:
            yield Made(call.connection, manifest.id, thing.kind, call.tool, identity, names, call.seq, thing)


def removes(call: Carried, made: Made) -> bool:
    argument = made.spec.removed_by.get(call.tool)
    if call.connection != made.connection or argument is None or not fits(made.spec.removed_when, call.arguments):
        return False
    named = set(texts(call.arguments.get(argument)))
    return bool(named & {made.id, *made.names} - {""})


def fits(when: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    return all(arguments.get(name) == value for name, value in when.items())
