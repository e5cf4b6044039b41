"""`harness sweep`: remove what earlier runs left at providers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.live_options import ENV_FILE, HOME_FOLDER, MAX_CALLS, MAX_SECONDS, REHEARSE

if TYPE_CHECKING:
    from harness.errors import Exit
    from harness.history.rows import Leftover
    from harness.live.options import LiveOptions
    from harness.model.manifest import Manifest
    from harness.nightly.sweep import Swept

HELP = """Remove what earlier runs left at providers: things that the history noted, and things whose name only this harness makes up.

Nothing else is touched, by rules that hold at the step and once more at the wire. What no tool of a provider can remove is listed.
Exit code 5 while something is left.

\b
Examples:
  harness sweep mem0
  harness sweep --dry-run
  harness sweep honcho --run 20261130T020000Z-1a2b3c
"""


def sweep(
    provider: Annotated[list[str] | None, typer.Argument(metavar="[PROVIDER]...", help="Where; default: every provider that can be reached.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
    run: Annotated[str, typer.Option(metavar="RUN", help="Only what this run left.")] = "",
    max_calls: MAX_CALLS = 200,
    max_seconds: MAX_SECONDS = 900.0,
    rehearse: REHEARSE = None,
    home: HOME_FOLDER = Path(".harness"),
    env_file: ENV_FILE = Path(".env"),
    reports_dir: Annotated[Path, typer.Option(help="Where runs keep evidence, reports and their history.")] = Path("reports"),
) -> int:
    from harness.cli.console import say
    from harness.cli.doctor import chosen_manifests
    from harness.cli.live_options import live_options
    from harness.errors import CredentialsMissing
    from harness.live.endpoint import wants
    from harness.report.inert import visible

    options = live_options(allow_write=True, max_calls=max_calls, max_seconds=max_seconds, rehearse=rehearse, home=home, env_file=env_file)
    chosen = chosen_manifests(provider or ())
    ready = [manifest for manifest in chosen if not wants(manifest, options)]
    lacks = [wants(manifest, options) for manifest in chosen if manifest not in ready]
    if lacks and (provider or not ready):
        raise CredentialsMissing("; ".join(lacks), where="sweep", fix="`harness doctor` says what is missing")
    done = _sweep_all(ready, options, reports_dir, run, dry=dry_run)
    say("\n".join(visible(line) for line in told(done)))
    return int(exit_of(done))


def _sweep_all(ready: list[Manifest], options: LiveOptions, reports: Path, run: str, *, dry: bool) -> list[Swept]:
    import asyncio

    from harness.cli.place import RunPlace, new_run_id
    from harness.clock import SystemClock
    from harness.history.store import NAME, History
    from harness.nightly.sweep import sweep
    from harness.report.write import run_folder

    clock = SystemClock()
    place = RunPlace(reports, new_run_id(clock))
    run_folder(reports, place.run)
    with History(reports / NAME) as history:
        done = []
        for manifest in ready:
            noted = [left for left in history.leftovers(provider=manifest.id) if mine(left, options, run)]
            work = sweep(manifest, options, noted, folder=place.folder / manifest.id, run_id=place.run, target="reference", dry=dry, run=run)
            swept = asyncio.run(work)
            history.removed(swept.settled, clock.now().isoformat())
            done.append(swept)
    return done


def mine(left: Leftover, options: LiveOptions, run: str) -> bool:
    """What was left at a stand-in is not looked for at the provider, nor the other way round."""
    return left.host == options.rehearse.get(left.provider, "live") and run in ("", left.run)


def told(done: list[Swept]) -> list[str]:
    lines = []
    for swept in done:
        lines.append(f"{swept.provider}: {len(swept.removed)} removed, {len(swept.kept)} left, {swept.foreign} not ours and left alone")
        lines += [f"  removed: {what}" for what in swept.removed]
        lines += [f"  left: {what}" for what in swept.kept]
        if swept.trouble is not None:
            lines.append(f"  broken off: {swept.trouble.what}")
    return lines


def exit_of(done: list[Swept]) -> Exit:
    from harness.errors import Exit, fold_exit

    codes = {swept.trouble.exit_code for swept in done if swept.trouble is not None}
    return fold_exit(codes | ({Exit.INCOMPLETE} if any(swept.kept for swept in done) else set()))


def register(app: typer.Typer) -> None:
    app.command("sweep", help=HELP)(sweep)
