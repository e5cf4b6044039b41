"""`harness inventory`: what was agreed, captured, shown, exported, and changed on purpose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.fleet import TrailingCommand, variables
from harness.cli.options import HEADER_ENV, PROTOCOL

if TYPE_CHECKING:
    from harness.model.inventory import Inventory

HELP = """Manage inventories: what was agreed about a provider's tools. Names, hashes, prose-free shapes and risk; no text a vendor wrote.

\b
Examples:
  harness inventory capture https://mcp.example/mcp --provider example
  harness inventory show mem0
  harness inventory export mem0 zep -o published.json
  harness inventory accept mem0 https://mcp.mem0.ai/mcp/ --finding enum-narrowed --tool add_memory \\
      --owner jane --reason "never sent by us" --issue MEM-123 --expires 2026-12-31
"""

CAPTURE_HELP = """Take the inventory of a server: every page of its list, or none at all.

SOURCE is a URL, a file with a tools/list result, or a command that speaks MCP: stdio:COMMAND, or at the end after --. Read the risk
classes before you commit it: they are guessed from names and hints.

\b
Examples:
  harness inventory capture https://mcp.example/mcp --provider example
  harness inventory capture --provider notes --out - -- python server.py
"""

SHOW_HELP = """Show an inventory: its tools, their risk and their hashes.

\b
Examples:
  harness inventory show mem0
"""

EXPORT_HELP = """Write inventories as one published JSON document.

\b
Examples:
  harness inventory export mem0 zep -o published.json
"""

ACCEPT_HELP = """Accept drift on purpose, with who, when and why.

Findings of comparing OLD (an inventory) with NEW are accepted as waivers, each bound to the very change that is there now, or, with
--update, by taking the tool's new record into the inventory; accepted/PROVIDER.yaml beside it then says who did that, when and why.

\b
Examples:
  harness inventory accept mem0 new.json --finding enum-narrowed --tool add_memory --owner jane \\
      --reason "never sent by us" --issue MEM-123 --expires 2026-12-31
  harness inventory accept inventory.yaml http://127.0.0.1:4001/mcp --tool find_note --update --owner jane --reason "reviewed" --issue N-7
"""

group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@group.command("capture", help=CAPTURE_HELP, cls=TrailingCommand)
def capture(
    context: typer.Context,
    source: Annotated[str | None, typer.Argument(metavar="[SOURCE]")] = None,
    provider: Annotated[str | None, typer.Option(help="Its id; default: the server's own name.")] = None,
    out: Annotated[str | None, typer.Option("--out", "-o", metavar="FILE", help="Default: inventories/PROVIDER.yaml; - prints it.")] = None,
    protocol: PROTOCOL = "auto",
    header: Annotated[list[str] | None, typer.Option(metavar="NAME:VALUE", help="Send a header that is no secret; repeatable.")] = None,
    header_env: HEADER_ENV = None,
    env: Annotated[list[str] | None, typer.Option(metavar="VARIABLE", help="Give the command this variable; repeatable.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a file that is there.")] = False,
) -> int:
    import shlex

    from harness.cli.console import say, warn
    from harness.cli.headers import headers_from
    from harness.errors import UsageError
    from harness.fleet.inventories import captured, written
    from harness.fleet.pair import http_headers
    from harness.fleet.side import Access
    from harness.fleet.source import command_source, parse_source

    words = context.meta.get(TrailingCommand.KEY)
    if (source is None) == (words is None):
        raise UsageError("one source at a time", where="harness inventory capture", fix="name a URL or a file, or a command after --")
    headers = http_headers(header or (), headers_from(header_env or ()))
    access = Access(protocol=protocol, headers=headers, env=variables(env or []))
    inventory = captured(parse_source(source) if source else command_source(words or ()), provider, access)
    if out == "-":
        from harness.inventory.store import dump_inventory

        say(dump_inventory(inventory))
        return 0
    path = written(inventory, Path(out) if out else None, replace=replace)
    say(f"{len(inventory.tools)} tools of {inventory.provider} written to {path}")
    again = shlex.quote(source) if source else f"-- {shlex.join(words or ())}"
    warn(f"next: read the risk classes in it, commit it, then: harness drift {path} {again}")
    return 0


@group.command("show", help=SHOW_HELP)
def show(
    name: Annotated[str, typer.Argument(metavar="INVENTORY", help="A provider, or a file.")],
    provider: Annotated[str | None, typer.Option(help="Which provider of a published document.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON document instead of a table.")] = False,
) -> int:
    from harness.cli.console import say, say_json
    from harness.fleet.inventories import inventory_of
    from harness.report.inert import one_line, to_json

    inventory = inventory_of(name, provider)
    if json:
        say_json(to_json(inventory.model_dump(mode="python"), indent=1))
    else:
        say("\n".join(one_line(line) for line in _table(inventory)))
    return 0


def _table(inventory: Inventory) -> list[str]:
    rows = [("TOOL", "RISK", "STATUS", "SCHEMA HASH", "SHAPE", "PARAMETERS")]
    rows += [(t.name, t.risk, t.status, t.schema_hash[:16], t.shape_basis, ", ".join(t.parameters)) for t in inventory.tools]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[5]]).rstrip() for row in rows]
    taken = inventory.taken
    said = [f"taken {taken.date}", taken.endpoint or "", f"protocol {taken.protocol_version}" if taken.protocol_version else ""]
    return [*lines, f"{len(inventory.tools)} tools of {inventory.provider}, {', '.join(filter(None, said))}"]


@group.command("export", help=EXPORT_HELP)
def export(
    names: Annotated[list[str], typer.Argument(metavar="INVENTORY...", help="Providers, or files.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Default: print it.")] = None,
) -> int:
    from harness.cli.console import say, say_json
    from harness.fleet.inventories import inventory_of
    from harness.inventory.published import published_text

    text = published_text([inventory_of(name, None) for name in names])
    if out is None:
        say_json(text)
        return 0
    from harness.report.write import write_bytes

    write_bytes(out, text.encode("utf-8"))
    say(f"{len(names)} inventories written to {out}")
    return 0


@group.command("accept", help=ACCEPT_HELP)
def accept(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The inventory: a provider, or a file.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="What is there now.")],
    owner: Annotated[str, typer.Option(help="Who answers for it.")],
    reason: Annotated[str, typer.Option(help="Why it is acceptable.")],
    issue: Annotated[str, typer.Option(help="The issue that will end it, or where it was decided.")],
    finding: Annotated[list[str] | None, typer.Option(help="Only findings of this id; repeatable.")] = None,
    tool: Annotated[list[str] | None, typer.Option(help="Only findings on this tool; repeatable.")] = None,
    pointer: Annotated[str | None, typer.Option(help="Only the finding at this JSON pointer.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every finding there is.")] = False,
    expires: Annotated[str | None, typer.Option(metavar="YYYY-MM-DD", help="The last day of a waiver; needed for waivers.")] = None,
    update: Annotated[bool, typer.Option("--update", help="Take the new record into the inventory instead.")] = False,
    waivers: Annotated[Path, typer.Option(help="Where waivers are added.")] = Path("waivers.yaml"),
    protocol: PROTOCOL = "auto",
    header: Annotated[list[str] | None, typer.Option(metavar="NAME:VALUE", help="Send a header that is no secret; repeatable.")] = None,
    header_env: HEADER_ENV = None,
    env: Annotated[list[str] | None, typer.Option(metavar="VARIABLE", help="Give the command this variable; repeatable.")] = None,
) -> int:
    from harness.cli.console import say
    from harness.cli.headers import headers_from
    from harness.errors import UsageError
    from harness.fleet.accept import Choice, Decision, accept_by_update, accept_by_waivers, compared
    from harness.fleet.pair import http_headers
    from harness.fleet.side import Access

    if not (finding or tool or pointer or every):
        raise UsageError("nothing is chosen", where="harness inventory accept", fix="name --finding, --tool or --pointer, or say --all")
    headers = http_headers(header or (), headers_from(header_env or ()))
    access = Access(protocol=protocol, headers=headers, env=variables(env or []))
    sides = compared(old, new, access, Choice(tuple(finding or ()), tuple(tool or ()), pointer))
    decision = Decision(owner=owner, reason=reason, issue=issue)
    done = accept_by_update(sides, decision) if update else accept_by_waivers(sides, decision, expires, waivers)
    say("\n".join(done))
    return 0


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="inventory", help=HELP)
