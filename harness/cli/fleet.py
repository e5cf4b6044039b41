"""`harness drift --fleet`: many servers, one report with a page each. And what its commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

if TYPE_CHECKING:
    from harness.fleet.check import Policy
    from harness.fleet.workers import Workers
    from harness.model.drift_result import FleetEntry

DEFAULT = Path("reports") / "fleet"


class TrailingCommand(TyperCommand):
    """Keeps what stands after `--` apart: it is one side, a command with its own options."""

    KEY = "harness.command"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[self.KEY] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


def variables(names: list[str]) -> dict[str, str]:
    import os

    from harness.errors import CredentialsMissing

    missing = [name for name in names if name not in os.environ]
    if missing:
        raise CredentialsMissing(f"environment variable {missing[0]} is not set", where="--env", fix="set it, or leave it out")
    return {name: os.environ[name] for name in names}


def run_fleet_command(file: Path, policy: Policy, *, folder: Path | None, jobs: int, resume: bool, scheduler: str | None) -> int:
    """Writes index.html, fleet.json and servers/ into the folder; progress goes to standard error, the summary to standard output."""
    from harness.cli.console import say
    from harness.fleet.journal import Journal
    from harness.fleet.pair import inventory_folders
    from harness.fleet.run import FleetRun
    from harness.fleet.servers import load_servers
    from harness.report.drift.fleet import index_page, render_json, text
    from harness.report.write import write_bytes

    servers = load_servers(file)
    into = folder or DEFAULT
    with Journal(into, resume=resume) as journal, _workers(jobs, scheduler) as workers:
        run = FleetRun(servers, policy, journal, folder=file.parent, folders=inventory_folders())
        result = run.run(workers, _tell)
    write_bytes(into / "fleet.json", render_json(result))
    write_bytes(into / "index.html", index_page(result))
    say(text(result) + f"Report: {into / 'index.html'}\n")
    return result.exit_code


def _workers(jobs: int, scheduler: str | None) -> Workers:
    from harness.fleet.workers import Dask, Processes

    return Dask(scheduler) if scheduler else Processes(jobs)


def _tell(entry: FleetEntry, done: int, total: int) -> None:
    from harness.cli.console import warn
    from harness.report.drift.fleet import line

    warn(f"[{done:{len(str(total))}}/{total}] {line(entry)}")
