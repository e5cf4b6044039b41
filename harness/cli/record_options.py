"""Options of every command that may record or replay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from harness.engine.tapes import Tapes
    from harness.model.plan import Plan

RecordWord = Literal["none", "new", "all"]

RECORD = Annotated[RecordWord, typer.Option("--record", help="Write cassettes: of what has none yet (new), of everything (all).")]
CASSETTES = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where cassettes are; default: those beside the scenarios.")]
NO_PROSE = Annotated[bool, typer.Option("--no-prose", help="Record: replace the texts that vendors wrote by their hashes.")]


def tapes_for(record: RecordWord, cassettes: Path | None, no_prose: bool, level: str) -> Tapes:
    """Raises UsageError for options that cannot go together."""
    from harness.engine.tapes import Tapes
    from harness.errors import UsageError
    from harness.scenario.files import cassettes_folder

    if level == "replayed" and record != "none":
        raise UsageError("a replay cannot be recorded", where=f"--record {record}", fix="record at level fake, local or live")
    if cassettes is not None and not cassettes.is_dir():
        raise UsageError("no such folder", where=f"--cassettes {cassettes}", fix="make it first")
    return Tapes(folder=cassettes or cassettes_folder(), record=record, hash_prose=no_prose)


def one_version_each(plan: Plan) -> Plan:
    """A cassette holds one protocol version: the newest that was planned for its scenario."""
    from harness.model.plan import Plan

    newest = {item.scenario.id: item for item in plan.items}
    return Plan(items=tuple(newest.values()))
