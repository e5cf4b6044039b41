"""How long it took until what was written could be read, and which writes were only queued. Pure: read from the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.live.things import carried_out, fits
from harness.model.answer import json_of, pointer
from harness.model.evidence import ClientExchange, EvidenceRecord, StepRecord
from harness.model.manifest import Manifest
from harness.model.scenario import Scenario
from harness.model.verdict import Queued, Visible


def visible(
    scenario: Scenario, records: Sequence[EvidenceRecord], providers: Mapping[str, str], manifests: Mapping[str, Manifest], failed: frozenset[str]
) -> tuple[Visible, ...]:
    """One entry for each step with `eventually` that was carried out; `failed` names the steps whose expectations did not come true."""
    polled = {step.id for step in scenario.steps if step.eventually is not None}
    last: dict[str, ClientExchange] = {}
    for record in records:
        if isinstance(record, ClientExchange) and record.method == "tools/call":
            last[record.step] = record
    found = []
    for record in records:
        if not isinstance(record, StepRecord) or record.phase != "steps" or record.step not in polled or record.step not in last:
            continue
        call = last[record.step]
        manifest = manifests.get(providers.get(call.connection, ""))
        found.append(
            Visible(
                step=record.step,
                provider=providers.get(call.connection, call.connection),
                tool=call.tool,
                kind=kind_of(manifest, call) if manifest else "unknown",
                seconds=record.elapsed_s,
                attempts=record.attempts,
                visible=record.step not in failed and record.trouble is None,
            )
        )
    return tuple(found)


def kind_of(manifest: Manifest, call: ClientExchange) -> str:
    return next((v.kind for v in manifest.live.visible if v.tool == call.tool and fits(v.when, call.arguments or {})), "unknown")


def queued(records: Sequence[EvidenceRecord], providers: Mapping[str, str], manifests: Mapping[str, Manifest]) -> tuple[Queued, ...]:
    """Writes whose answer says no more than that they were accepted."""
    return tuple(_queued(records, providers, manifests))


def _queued(records: Sequence[EvidenceRecord], providers: Mapping[str, str], manifests: Mapping[str, Manifest]) -> Iterator[Queued]:
    for call in carried_out(records):
        provider = providers.get(call.connection, call.connection)
        manifest = manifests.get(provider)
        for spec in manifest.live.queued if manifest else ():
            found, value = pointer(json_of(call.answer), spec.at)
            if spec.tool == call.tool and found and str(value).casefold() in {v.casefold() for v in spec.values}:
                yield Queued(provider=provider, tool=call.tool, said=str(value))
