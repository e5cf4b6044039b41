"""`harness transparency`: what a gateway changes on the way, with the same provider asked directly beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from harness.transparency.facts import Report

HELP = """Ask one provider directly and through a gateway, side by side, and tell what differs; then which of it is a fault.

Tools listed, hidden and renamed, each component's hash, pages, content, structured content, errors, arguments, progress, cancellation,
versions, headers and credentials, requests per call, latency and CPU. Then the provider's list changes under it (catalog honesty), and six
endings of a call are compared with its record (audit honesty). Which difference is a fault is a table; --rules puts rules before it. What
targets/ID/transparency.yaml declares or waives is no fault; what it names and is no longer so is news.

\b
Examples:
  harness transparency --target fastmcp
  harness transparency --target reference --facts-only
  harness transparency --target ctrlrun --rules my-rules.yaml --json
"""

EPILOG = "Exit codes: 0 only declared and known differences, 1 a fault or news, 2 usage, 4 gateway unreachable, 5 incomplete or untestable."

DEFAULT = Path("reports") / "transparency"


def transparency(
    target: Annotated[str, typer.Option(metavar="ID[=VALUE]", help="The gateway; see docs/targets.md.")] = "reference",
    protocol: Annotated[str, typer.Option(help="MCP version that both legs speak.")] = "2025-11-25",
    rules: Annotated[Path | None, typer.Option(metavar="FILE", help="Rules tried before the default table: a list of {fact, counts, why}.")] = None,
    facts_only: Annotated[bool, typer.Option("--facts-only", help="Leave out catalog and audit honesty.")] = False,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where TARGET.json, TARGET.md and TARGET.html go.")] = DEFAULT,
    json: Annotated[bool, typer.Option("--json", help="Print the JSON report instead of text.")] = False,
) -> int:
    from harness.cli.console import say, warn
    from harness.report.write import write_bytes
    from harness.transparency.render import as_html, as_json, as_markdown, as_text
    from harness.transparency.report import exit_code

    report = measured(target, protocol, rules, whole=not facts_only)
    for suffix, text in (("json", as_json(report)), ("md", as_markdown(report)), ("html", as_html(report))):
        write_bytes(output / f"{report.target}.{suffix}", text.encode("utf-8"))
    say(as_json(report) if json else as_text(report))
    warn(f"report: {output / report.target}.html")
    return int(exit_code(report))


def measured(target: str, protocol: str, rules: Path | None, *, whole: bool) -> Report:
    """Raises UsageError for what cannot be asked for, Unreachable or Incomplete for what cannot be told."""
    import asyncio
    import tempfile

    from harness.clock import SystemClock
    from harness.engine.plan import target_for
    from harness.errors import UsageError
    from harness.registry import suggest
    from harness.transparency.measure import Seat
    from harness.transparency.report import declaration_of, transparency
    from harness.transparency.rules import load_rules

    kind = target_for(target)
    if protocol not in kind.protocols:
        what = f"target {kind.id} does not speak {protocol!r}"
        raise UsageError(what, where="--protocol", fix=suggest(protocol, list(kind.protocols)))
    table = load_rules(rules) if rules is not None else ()
    with tempfile.TemporaryDirectory(prefix="transparency-") as folder:
        seat = Seat(kind, Path(folder), SystemClock(), protocol)
        return asyncio.run(ended_by_signals(transparency(seat, table, declaration_of(kind.id), whole=whole)))


async def ended_by_signals(work: Coroutine[Any, Any, Report]) -> Report:
    """Told to end, we end what we started first. Raises Incomplete then."""
    import asyncio
    import signal

    from harness.errors import Incomplete

    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise Incomplete("told to end before all was measured; the gateway is ended too", where="transparency", fix="start it again") from None


def register(app: typer.Typer) -> None:
    app.command("transparency", help=HELP, epilog=EPILOG)(transparency)
