"""How a gateway's catalog relates to what was agreed: searched while the item runs and stored, so that a judge only checks the examples again."""

from __future__ import annotations

import asyncio

from harness.drift.relater import Relater
from harness.drift.relations import relations_between
from harness.expect.no_drift import NoDrift, sides_of
from harness.expect.view import View
from harness.model.drift import ToolRelation
from harness.model.evidence import RelationRecord
from harness.model.scenario import Scenario


async def relations_of(item: str, scenario: Scenario, view: View) -> list[RelationRecord]:
    """One record per tool whose schemas differ, of every connection; none where no expectation asks. Takes its time beside the event loop."""
    if not any(expectation.word == NoDrift.id for expectation in scenario.expect):
        return []
    return await asyncio.to_thread(_searched, item, view)


def _searched(item: str, view: View) -> list[RelationRecord]:
    found: list[RelationRecord] = []
    with Relater() as relate:
        for connection in view.providers:
            sides = sides_of(view, connection)
            known = relations_between(*sides, relate) if sides is not None else {}
            found += [
                RelationRecord(item=item, connection=connection, tool=tool, data=relation.model_dump(mode="json"))
                for tool, relation in known.items()
                if _says_something(relation)
            ]
    return found


def _says_something(relation: ToolRelation) -> bool:
    return any(one is not None and one.method != "identical" for one in (relation.input, relation.output))
