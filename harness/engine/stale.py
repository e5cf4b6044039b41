"""Judged in every scenario: that a gateway does not refuse by a tool list that has aged what the provider takes by now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.drift.validators import first_opinion
from harness.expect.view import View
from harness.model.evidence import ClientExchange, ControlRecord
from harness.model.finding import Finding
from harness.model.scenario import Scenario

READS_AGAIN = ("refresh", "heal")
"""After these the gateway's list is the provider's again, or the provider's is what it was."""


def catalogs_are_current(scenario: Scenario, view: View) -> Iterator[Finding]:
    """`catalog-stale`: a call was refused for its arguments by a schema that was no longer the provider's, and which those arguments fit by now.

    Told from a list that the gateway read later: it has another hash than the refusal names, and takes these very arguments.
    """
    changed: dict[str, set[str]] = {}
    refused: list[ClientExchange] = []
    for record in view.records:
        if isinstance(record, ClientExchange) and record.tool in changed.get(record.connection, ()) and _for_its_arguments(record):
            refused.append(record)
        if not isinstance(record, ControlRecord):
            continue
        if record.action == "mutation" and isinstance(record.data, Mapping):
            changed.setdefault(record.connection, set()).add(str(record.data.get("tool")))
        elif record.action in READS_AGAIN:
            changed.pop(record.connection, None)
        elif record.action == "catalog" and isinstance(record.data, Mapping):
            for call in [each for each in refused if each.connection == record.connection]:
                refused.remove(call)
                yield from _told(scenario, view, call, record.data)


def _for_its_arguments(call: ClientExchange) -> bool:
    return call.said.get("outcome") == "denied" and call.said.get("reason") == "invalid_arguments"


def _told(scenario: Scenario, view: View, call: ClientExchange, catalog: Mapping[str, Any]) -> Iterator[Finding]:
    trail = view.trail_of(call)
    old = trail[-1].get("schema_hash") if trail else None
    now = next((each for each in catalog.get("tools", ()) if each.get("name") == call.tool), None)
    if now is None or now.get("schema_hash") in (None, old) or not _takes(now.get("input_schema"), dict(call.arguments or {})):
        return
    yield Finding(
        id="catalog-stale",
        message=f"{call.connection}: {call.tool} was refused by a schema that was no longer the provider's, which takes these arguments",
        where=str(scenario.location),
        step=call.step,
        expected=f"schema {now['schema_hash']}, the provider's at the time",
        actual=f"schema {old or 'unnamed'}, by which the gateway refused",
        fix="the gateway has to notice that a list has aged: read it again before refusing by it, or from time to time",
    )


def _takes(schema: object, arguments: dict[str, Any]) -> bool:
    try:
        return isinstance(schema, dict) and first_opinion(schema)(arguments)
    except ValueError:
        return False
