"""`harness discover`: what a server lists, every page of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import HEADER_ENV, PROTOCOL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.model.drift import DriftFinding
    from harness.model.tool import Capture

HELP = """List the tools of an MCP server, with their hashes and what we think of their risk.

TARGET is a URL, a file with a tools/list result, or, after --stdio --, a command that speaks MCP on standard input and output.
What is wrong with the list by itself is said below it: schemas that refuse every call, texts that hide characters or speak to the model.
Discovery proves that a tool is listed, not that it works. A list that may be short is exit code 5.

\b
Examples:
  harness discover http://127.0.0.1:4001/mcp
  harness discover https://mcp.example/mcp --header-env Authorization=EXAMPLE_AUTHORIZATION
  harness discover --stdio -- python server.py
  harness discover http://127.0.0.1:4001/mcp --provider mem0 --json > tools.json
"""


def discover(
    target: Annotated[list[str], typer.Argument(metavar="TARGET")],
    stdio: Annotated[bool, typer.Option("--stdio", help="TARGET is a command and its arguments.")] = False,
    provider: Annotated[str, typer.Option(help="Whose tools these are: its reviewed inventory decides on risk.")] = "generic",
    protocol: PROTOCOL = "auto",
    header_env: HEADER_ENV = None,
    json: Annotated[bool, typer.Option("--json", help="Print the tools as they came, as one JSON document.")] = False,
) -> int:
    import asyncio

    from harness.cli.console import say, say_json
    from harness.cli.headers import headers_from
    from harness.drift.lint import lint
    from harness.errors import Exit
    from harness.inventory.side import capture_side
    from harness.report.inert import to_json

    capture = asyncio.run(_capture(target, stdio, protocol, headers_from(header_env or ())))
    judged, wrong = _judged(capture, provider), lint(capture_side(capture))
    if json:
        say_json(to_json(_document(capture, judged, wrong), indent=1))
    else:
        say(_table(capture, judged, wrong))
    return int(Exit.OK if capture.complete else Exit.INCOMPLETE)


async def _capture(target: list[str], stdio: bool, protocol: str, headers: dict[str, str]) -> Capture:
    from pathlib import Path

    from harness.discover.capture import capture_stdio, capture_url
    from harness.discover.sources import capture_file
    from harness.errors import UsageError

    if stdio:
        return await capture_stdio(target, protocol_version=protocol)
    if len(target) != 1:
        raise UsageError("one target at a time", where=" ".join(target), fix="to start a command, write --stdio -- before it")
    if target[0].startswith(("http://", "https://")):
        return await capture_url(target[0], protocol_version=protocol, headers=headers)
    return capture_file(Path(target[0]))


def _judged(capture: Capture, provider: str) -> list[dict[str, Any]]:
    """What we make of each tool: never its prose, which is the server's."""
    from harness.inventory.side import tool_view
    from harness.inventory.store import load_inventories
    from harness.risk.oracle import Oracle
    from harness.scenario.files import inventories_folder

    oracle = Oracle(load_inventories(inventories_folder()))
    found = []
    for tool in capture.tools:
        view, risk = tool_view(tool), oracle.judge(provider, tool)
        found.append(
            {
                "name": tool.name,
                "risk": risk.risk,
                "risk_reason": risk.reason,
                "schema_hash": view.schema_hash,
                "shape_hash": view.shape_hash,
                "parameters": list(view.parameters or ()),
                "problems": [f"{pointer}: {reason}" for pointer, reason in view.problems],
            }
        )
    return found


def _document(capture: Capture, judged: list[dict[str, Any]], wrong: Sequence[DriftFinding]) -> dict[str, Any]:
    """Readable again as a side of `harness drift`; a short list then still says that it is short, by naming a next page."""
    return {
        "schema": "discovery/v1",
        "source": capture.source,
        "protocol_version": capture.protocol_version,
        "server": {"name": capture.server_name, "version": capture.server_version},
        "pages": capture.pages,
        "complete": capture.complete,
        "reason": capture.reason,
        **({"cursor_rule": capture.cursor_rule} if capture.cursor_rule else {}),
        "nameless": capture.nameless,
        "duplicates": list(capture.duplicates),
        "judged": judged,
        "findings": [{"id": f.id, "tool": f.tool, "pointer": f.pointer, "message": f.message, "fix": f.fix} for f in wrong],
        "tools": [tool.wire for tool in capture.tools],
        **({} if capture.complete else {"nextCursor": "incomplete"}),
    }


def _table(capture: Capture, judged: list[dict[str, Any]], wrong: Sequence[DriftFinding]) -> str:
    from harness.report.inert import one_line

    rows = [("TOOL", "RISK", "SCHEMA HASH", "PARAMETERS")]
    rows += [(t["name"], t["risk"], (t["schema_hash"] or "none")[:16], ", ".join(t["parameters"])) for t in judged]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip() for row in rows]
    server = " ".join(filter(None, (capture.server_name, capture.server_version))) or "a server"
    lines.append(f"{len(capture.tools)} tools on {capture.pages} pages of {server}, protocol {capture.protocol_version or 'unknown'}")
    if not capture.complete:
        lines.append(f"INCOMPLETE: {capture.reason}")
    if capture.cursor_rule:
        lines.append(capture.cursor_rule)
    lines += [f"listed twice: {name}" for name in capture.duplicates]
    lines += [f"{t['name']}: {problem}" for t in judged for problem in t["problems"]]
    lines += [f"{finding.id}: {finding.message}" for finding in wrong]
    return "\n".join(one_line(line) for line in lines)


def register(app: typer.Typer) -> None:
    app.command("discover", help=HELP)(discover)
