"""`harness record`: `harness run --record new`, under the name one looks for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.live_options import ALLOW_WRITE, ENV_FILE, HOME_FOLDER, MAX_CALLS, MAX_COST, MAX_SECONDS, REHEARSE
from harness.cli.record_options import CASSETTES, NO_PROSE, RecordWord
from harness.cli.run import EPILOG, LevelWord, Request, default_jobs, execute, live_of

HELP = """Run scenarios and keep what their providers answered.

The same as `harness run SELECT --record new`: a cassette is written to CASSETTES/<provider>/<scenario>.yaml for each scenario that has none
yet. Secrets are replaced before anything is written; what cannot be searched for them is not written.

\b
Examples:
  harness record MEM-1 --level local --no-prose
  harness record MEM-1 --level local --record all     again, in place of the cassette that is there
  harness record mine/scenarios/EX-1.yaml --level local --cassettes mine/cassettes
                              a provider of your own: mine/providers/<id>.yaml says how it is started
"""


def record(
    select: Annotated[list[str], typer.Argument(metavar="SELECT...")],
    level: Annotated[LevelWord, typer.Option(help="Evidence level to record at: fake, local or live.")] = "fake",
    target: Annotated[str, typer.Option(help="The gateway adapter to drive.")] = "reference",
    protocol: Annotated[str | None, typer.Option(help="MCP version; default: the newest that the scenario asks for.")] = None,
    mode: Annotated[RecordWord, typer.Option("--record", help="new: what has no cassette yet; all: everything.")] = "new",
    cassettes: CASSETTES = None,
    no_prose: NO_PROSE = False,
    reports_dir: Annotated[Path, typer.Option(help="Where runs keep evidence and reports.")] = Path("reports"),
    allow_write: ALLOW_WRITE = False,
    max_calls: MAX_CALLS = 200,
    max_seconds: MAX_SECONDS = 900.0,
    max_cost: MAX_COST = None,
    rehearse: REHEARSE = None,
    home: HOME_FOLDER = Path(".harness"),
    env_file: ENV_FILE = Path(".env"),
) -> int:
    from harness.cli.record_options import tapes_for

    live = live_of(
        level,
        allow_write=allow_write,
        max_calls=max_calls,
        max_seconds=max_seconds,
        max_cost=max_cost,
        rehearse=rehearse,
        home=home,
        env_file=env_file,
    )
    return execute(
        Request(
            select=tuple(select),
            providers=(),
            level=level,
            target=target,
            protocol=protocol,
            jobs=default_jobs(),
            formats=(),
            defects=(),
            reports=reports_dir,
            json=False,
            live=live,
            tapes=tapes_for(mode, cassettes, no_prose, level),
        )
    )


def register(app: typer.Typer) -> None:
    app.command("record", help=HELP, epilog=EPILOG)(record)
