"""A night → what the history keeps of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from harness.history.record import item_row, leftover_rows, visible_rows
from harness.history.rows import RunRow, Stored
from harness.nightly.night import Night
from harness.nightly.render import level_line


def stored_night(found: Night, hosts: Mapping[str, str]) -> Stored:
    """`hosts`: provider → the stand-in that played it, where the live path was rehearsed."""
    causes = {f.verdict.item: f.cause.cause for f in found.failures}
    # One scenario can stand in two parts only when it was asked for at two levels, which a night never does.
    items = {v.item: item_row(v, causes.get(v.item, "")) for v in found.verdicts}
    seen = {(row.item, row.step): row for v in found.verdicts for row in visible_rows(v)}
    return Stored(
        run=RunRow(found.run_id, found.started_at, "nightly", found.exit_code, level_line(found)),
        items=tuple(items.values()),
        visible=tuple(seen.values()),
        leftovers=tuple(row for v in found.verdicts for row in leftover_rows(v, hosts)),
    )
