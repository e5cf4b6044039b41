"""`harness drift`: how one tool list differs from another, whom it breaks, and a call that proves it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli import inventory
from harness.cli.fleet import TrailingCommand, variables
from harness.cli.options import HEADER_ENV, PROTOCOL

if TYPE_CHECKING:
    from harness.fleet.check import Policy
    from harness.fleet.pair import Pair
    from harness.fleet.side import Access
    from harness.model.drift_result import DriftResult

AgainstWord = Literal["live", "local", "fake"]
LevelWord = Literal["fake", "local"]
FormatWord = Literal["text", "json", "sarif", "junit", "markdown", "html"]


class FailOn(StrEnum):
    BREAKING = "breaking"
    RISK = "risk"
    TEXT = "text"
    ANY = "any"


HELP = """Compare two tool lists: what was agreed, and what is there. Say whom the difference breaks, with a call that proves it.

A side is an inventory (a file, or a provider that has one), a published document, a file with a tools/list result, a URL, a command
that speaks MCP (quoted, as stdio:COMMAND, or at the end after --), or a provider through a gateway (mem0@reference). One side alone is
compared with the inventory that was taken from it.

\b
Examples:
  harness drift mem0 http://127.0.0.1:4001/mcp
  harness drift https://mcp.example/mcp --header-env Authorization=EXAMPLE_AUTHORIZATION
  harness drift old.json new.json --fail-on risk --fail-on text
  harness drift inventory.yaml -- python server.py
  harness drift mem0 mem0@reference --format sarif -o drift.sarif
  harness drift --fleet servers.yaml -o reports/fleet --jobs 4
"""

EPILOG = """\b
Exit codes:
  0  no drift at or above the threshold
  2  usage or configuration
  3  credentials missing
  4  unreachable
  5  a list is incomplete, or a comparison was not decided, and nobody accepted that
  6  drift at or above the threshold
Several at once: 2, then 3, 4, 5, 6.
"""


def drift(
    context: typer.Context,
    sides: Annotated[list[str] | None, typer.Argument(metavar="[OLD] [NEW]", help="What was agreed, and what is there.")] = None,
    provider: Annotated[str | None, typer.Option(help="Which provider of a document that holds several; the name in waivers.")] = None,
    inventory_file: Annotated[str | None, typer.Option("--inventory", metavar="FILE", help="The agreed side, when one side is given.")] = None,
    protocol: PROTOCOL = "auto",
    header: Annotated[list[str] | None, typer.Option(metavar="NAME:VALUE", help="Send a header that is no secret; repeatable.")] = None,
    header_env: HEADER_ENV = None,
    env: Annotated[list[str] | None, typer.Option(metavar="VARIABLE", help="Give the command this variable; repeatable.")] = None,
    against: Annotated[AgainstWord | None, typer.Option(help="What NEW is evidence of; a fake's prose and hashes are not compared.")] = None,
    level: Annotated[LevelWord, typer.Option(help="Which provider stands behind a gateway.")] = "fake",
    fail_on: Annotated[list[FailOn] | None, typer.Option(help="What fails, besides breaking changes; repeatable.")] = None,
    config: Annotated[Path | None, typer.Option(help="Severities and threshold; default: drift.yaml here, if there is one.")] = None,
    waivers: Annotated[Path | None, typer.Option(help="Accepted exceptions; default: waivers.yaml here, if there is one.")] = None,
    format: Annotated[FormatWord, typer.Option(help="How to report.")] = "text",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the report there; of a fleet, the folder of its pages.")] = None,
    also: Annotated[list[str] | None, typer.Option(metavar="FORMAT=FILE", help="Write one more report of the same result; repeatable.")] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    fleet: Annotated[Path | None, typer.Option(metavar="FILE", help="Check every server of a file.")] = None,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Of a fleet: processes at the same time.")] = 2,
    resume: Annotated[bool, typer.Option("--resume", help="Of a fleet: go on where the same check was broken off.")] = False,
    scheduler: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Of a fleet: the Dask cluster to run it on.")] = None,
) -> int:
    from harness.cli.fleet import run_fleet_command
    from harness.fleet.pair import http_headers
    from harness.fleet.side import Access

    words = tuple(word.value for word in fail_on or ())
    policy = _policy(words, config, waivers)
    if fleet is not None:
        _nothing_beside_fleet(sides, context)
        return run_fleet_command(fleet, policy, folder=output, jobs=jobs, resume=resume, scheduler=scheduler)
    from harness.cli.headers import headers_from

    access = Access(
        protocol=protocol,
        headers=http_headers(header or (), headers_from(header_env or ())),
        env=variables(env or []),
        provider=provider,
        level=level,
    )
    pair = _pair(list(sides or ()), context.meta.get(TrailingCommand.KEY), inventory_file, provider, against)
    more = _more_reports(also or [])
    result = _run(pair, access, policy)
    for word, file in more:
        _write(result, word, file)
    _report(result, "json" if json else format, output)
    return result.exit_code


def _policy(fail_on: tuple[str, ...], config: Path | None, waivers: Path | None) -> Policy:
    """The command line over drift.yaml over nothing. Both files may be absent; one that is named may not."""
    from harness.clock import SystemClock
    from harness.fleet.check import Policy
    from harness.fleet.config import NAME, Config, load_config
    from harness.fleet.rules import rule_ids
    from harness.waiver.load import load_waivers

    chosen = config or (Path(NAME) if Path(NAME).is_file() else None)
    loaded = load_config(chosen, rule_ids()) if chosen else Config()
    file = waivers or loaded.waivers or (Path("waivers.yaml") if Path("waivers.yaml").is_file() else None)
    return Policy(
        today=SystemClock().now().date().isoformat(),
        fail_on=fail_on or loaded.fail_on,
        severities=loaded.severities,
        waivers=load_waivers(file) if file else (),
    )


def _pair(sides: list[str], command: list[str] | None, inventory_file: str | None, provider: str | None, against: AgainstWord | None) -> Pair:
    from harness.errors import UsageError
    from harness.fleet.pair import Pair, baseline_of, inventory_folders
    from harness.fleet.side import with_document
    from harness.fleet.source import command_source, parse_source

    sources = [parse_source(side) for side in sides]
    if command is not None:
        sources.append(command_source(command))
    if inventory_file is not None:
        sources.insert(0, parse_source(inventory_file))
    folders = inventory_folders()
    if len(sources) == 1:
        sources.insert(0, baseline_of(sources[0], folders))
    if len(sources) != 2:
        raise UsageError(f"{len(sources)} sides", where="harness drift", fix="name two, OLD NEW, or one that has an inventory")
    old, new = (with_document(source, folders) for source in sources)
    return Pair(old, new, subject=provider or "", against=against)


def _run(pair: Pair, access: Access, policy: Policy) -> DriftResult:
    import asyncio

    from harness.fleet.pair import run_pair
    from harness.fleet.relating import relater

    with relater() as relate:
        return asyncio.run(run_pair(pair, access, policy, relate)).result


def _more_reports(given: list[str]) -> list[tuple[str, Path]]:
    """Checked before anything is asked: a misspelt format must not cost a run."""
    from harness.errors import UsageError
    from harness.report.drift.base import load_formats

    found = []
    for text in given:
        word, equals, file = text.partition("=")
        if not (equals and file):
            raise UsageError(f"{text!r} is not FORMAT=FILE", where="--also", fix="for example: --also sarif=drift.sarif")
        load_formats().need(word, where="--also")
        found.append((word, Path(file)))
    return found


def _write(result: DriftResult, word: str, file: Path) -> None:
    from harness.report.drift.base import load_formats
    from harness.report.write import write_bytes

    write_bytes(file, load_formats().need(word, where="--format").render(result))


def _report(result: DriftResult, format: str, output: Path | None) -> None:
    from harness.cli.console import say, say_json, warn
    from harness.report.drift.base import load_formats
    from harness.report.inert import visible

    if output is not None:
        _write(result, format, output)
        _summary(result)
    elif format == "text":
        _summary(result, to_screen=True)
    else:
        content = load_formats().need(format, where="--format").render(result).decode("utf-8")
        say_json(content) if format == "json" else say(content)
    if result.report is None:
        warn(visible("error: " + "\n  ".join(result.reasons)))


def _summary(result: DriftResult, *, to_screen: bool = False) -> None:
    """The whole text, or, beside a written file, its answer."""
    from harness.cli.console import say
    from harness.report.drift.reading import answer
    from harness.report.drift.text import FORMAT, coloured

    if to_screen:
        if result.report is not None:
            say((coloured(result) if _colour_wanted() else FORMAT.render(result)).decode("utf-8"))
    else:
        say(answer(result))


def _colour_wanted() -> bool:
    """Only on a terminal that can, and not where the user said no (no-color.org)."""
    import os
    import sys

    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def _nothing_beside_fleet(sides: list[str] | None, context: typer.Context) -> None:
    from harness.errors import UsageError

    if sides or TrailingCommand.KEY in context.meta:
        raise UsageError("sides stand beside --fleet", where="harness drift", fix="write them into the fleet's file")


def register(app: typer.Typer) -> None:
    app.command("drift", help=HELP, epilog=EPILOG, cls=TrailingCommand)(drift)
    inventory.register(app)
