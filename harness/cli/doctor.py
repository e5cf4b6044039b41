"""`harness doctor`: which providers can run live, and what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.live_options import ENV_FILE, HOME_FOLDER, REHEARSE

if TYPE_CHECKING:
    from harness.live.options import LiveOptions
    from harness.model.manifest import Manifest
    from harness.nightly.doctor import Checkup

HELP = """Say for each provider what it can be run against here, and what is missing for a live run.

Credentials are looked for by the names that the provider's manifest gives, in the environment and in .env; their values appear nowhere.
With --probe each live endpoint that has its credential is asked for its tools once. Missing credentials are exit code 3.

\b
Examples:
  harness doctor
  harness doctor mem0 honcho --probe
  harness doctor --json
"""


def doctor(
    provider: Annotated[list[str] | None, typer.Argument(metavar="[PROVIDER]...", help="Which ones; default: all.")] = None,
    probe: Annotated[bool, typer.Option("--probe", help="Ask each live endpoint for its tools; nothing is written there.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON document instead of text.")] = False,
    rehearse: REHEARSE = None,
    home: HOME_FOLDER = Path(".harness"),
    env_file: ENV_FILE = Path(".env"),
) -> int:
    import asyncio

    from harness.cli.console import say, say_json
    from harness.cli.live_options import live_options
    from harness.nightly.doctor import document, exit_of, text
    from harness.report.inert import to_json, visible

    options = live_options(rehearse=rehearse, home=home, env_file=env_file)
    found = asyncio.run(check(chosen_manifests(provider or ()), options, asked=probe))
    if json:
        say_json(to_json(document(found), indent=1))
    else:
        say("\n".join(visible(line) for line in text(found).splitlines()))
    return int(exit_of(found, tuple(provider or options.rehearse)))


def chosen_manifests(wanted: list[str] | tuple[str, ...]) -> list[Manifest]:
    """Raises UsageError with a suggestion for a provider that has no manifest."""
    from harness.engine.vocabulary import manifests
    from harness.errors import UsageError
    from harness.registry import suggest
    from harness.scenario.files import data_root

    known = manifests(data_root())
    for name in wanted:
        if name not in known:
            raise UsageError(f"unknown provider {name!r}", where="PROVIDER", fix=suggest(name, list(known)))
    return [known[name] for name in (dict.fromkeys(wanted) or known)]


async def check(chosen: list[Manifest], options: LiveOptions, *, asked: bool) -> list[Checkup]:
    from harness.nightly.doctor import checkup
    from harness.nightly.freshness import recorded
    from harness.nightly.probe import probe

    return [checkup(manifest, options, recorded, await probe(manifest, options) if asked else None) for manifest in chosen]


def register(app: typer.Typer) -> None:
    app.command("doctor", help=HELP)(doctor)
