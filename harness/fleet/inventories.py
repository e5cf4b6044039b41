"""Inventories made and found for people: captured from a server, named by provider or file."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from harness.clock import SystemClock
from harness.errors import LoadError, UsageError
from harness.fleet.pair import inventory_folders
from harness.fleet.side import Access, load, with_document
from harness.fleet.source import Source, parse_source
from harness.inventory.build import build_inventory
from harness.inventory.canonical import NotCanonical
from harness.inventory.store import dump_inventory
from harness.model.inventory import Inventory
from harness.report.write import write_bytes
from harness.risk.oracle import Oracle

_ID = re.compile(r"[a-z][a-z0-9-]{0,39}\Z")


def captured(named: Source, provider: str | None, access: Access) -> Inventory:
    """The inventory of what a source lists now. Raises Incomplete for a short list, UsageError for a source that is no live list."""
    source = with_document(named, inventory_folders())
    capture = asyncio.run(load(source, access)).capture
    if capture is None:
        raise UsageError(
            "an inventory is captured from a server or a tool list", where=source.text, fix="give a URL, a command or a tools/list result"
        )
    name = provider or _id_from(capture.server_name)
    if name is None or not _ID.match(name):
        said = f"{name!r} is no provider id" if name else "the server does not say its name"
        raise UsageError(said, where=source.text, fix="name it: --provider NAME (a letter, then letters, digits and hyphens)")
    oracle = Oracle({})
    try:
        return build_inventory(
            capture, provider=name, date=SystemClock().now().date().isoformat(), risk_of=lambda tool: oracle.judge("generic", tool).risk
        )
    except NotCanonical as error:
        raise LoadError(f"a schema has no canonical text: {error.reason}", where=f"{source.text}{error.pointer}", fix=error.fix) from error


def _id_from(name: str) -> str | None:
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")
    return words or None


def written(inventory: Inventory, path: Path | None, *, replace: bool) -> Path:
    """Writes the file whole or not at all. Raises UsageError where one is that nobody said to replace."""
    into = path or Path("inventories") / f"{inventory.provider}.yaml"
    if into.exists() and not replace:
        raise UsageError("there is an inventory already", where=str(into), fix="compare first: harness drift; or --replace it")
    write_bytes(into, dump_inventory(inventory).encode("utf-8"))
    return into


def inventory_of(name: str, provider: str | None) -> Inventory:
    """By provider or file, ours or published. Raises LoadError."""
    source: Source = with_document(parse_source(name), inventory_folders())
    if source.kind != "file":
        raise UsageError("an inventory is a provider's name or a file", where=name, fix="capture one first: harness inventory capture")
    found = asyncio.run(load(source, Access(provider=provider))).inventory
    if found is None:
        raise LoadError("holds a tool list, and no inventory", where=name, fix="make one of it: harness inventory capture")
    return found
