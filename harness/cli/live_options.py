"""Options of every command that may talk to a hosted provider."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from harness.live.options import LiveOptions

ALLOW_WRITE = Annotated[bool, typer.Option("--allow-write", help="Live: let scenarios change data; only what the run itself makes.")]
MAX_CALLS = Annotated[int, typer.Option(help="Live: tool calls that may reach providers.")]
MAX_SECONDS = Annotated[float, typer.Option(help="Live: how long the run may take.")]
MAX_COST = Annotated[float | None, typer.Option(help="Live: cost units (see docs/live.md); default: no bound.")]
REHEARSE = Annotated[
    list[str] | None,
    typer.Option(metavar="PROVIDER=URL", help="Live: a stand-in on loopback plays this provider's host; all is labelled fake; repeatable."),
]
HOME_FOLDER = Annotated[Path, typer.Option("--home", help="Where the gateway of live runs keeps what `harness login` put there.")]
ENV_FILE = Annotated[Path, typer.Option(help="A file of NAME=VALUE lines, if there is one; the environment wins.")]


def live_options(
    *,
    allow_write: bool = False,
    max_calls: int = 200,
    max_seconds: float = 900.0,
    max_cost: float | None = None,
    rehearse: list[str] | tuple[str, ...] | None = None,
    home: Path,
    env_file: Path,
) -> LiveOptions:
    """Raises UsageError or LoadError (2)."""
    from harness.live.budget import Budget
    from harness.live.options import LiveOptions, read_environment, read_rehearsal

    return LiveOptions(
        allow_write=allow_write,
        budget=Budget(max_calls, max_seconds, max_cost),
        environment=read_environment(env_file, os.environ),
        rehearse=read_rehearsal(tuple(rehearse or ())),
        home=home,
    )
