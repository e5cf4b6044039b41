"""What a user may name as one side of a comparison: an inventory, a published document, a tool list in a file, a URL, a provider."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2

from harness.discover.capture import AUTO, Greeting, Pages, capture_url
from harness.discover.wire import Limits
from harness.errors import LoadError
from harness.inventory.jsontext import parse_json
from harness.inventory.published import import_published, is_published
from harness.inventory.side import Side, capture_side, inventory_side
from harness.inventory.store import load_inventory, read_inventory
from harness.model.inventory import Inventory
from harness.model.tool import Capture
from harness.registry import suggest

_FILE_BYTES = 64 * 1024 * 1024


def capture_file(path: Path) -> Capture:
    """A `tools/list` result, the JSON-RPC answer around one, a list of such pages, or a bare list of tools. Raises LoadError."""
    return capture_data(_read(path), str(path))


def capture_data(data: Any, source: str) -> Capture:
    """As `capture_file`, from parsed JSON. A last page that still names a next cursor makes the capture incomplete."""
    pages = Pages(Limits())
    cursor: str | None = None
    for page in _pages(data, source):
        cursor = pages.take(page)
        if pages.reason:
            break
    if pages.count == 0:
        raise LoadError("holds no tool list", where=source, fix='give the JSON of a tools/list result: {"tools": […]}')
    if cursor is not None:
        pages.fail("dropped-page", "the last page names a next one that is not here")
    return pages.capture(source, Greeting(version="", modern=False))


def inventory_file(path: Path, provider: str | None = None) -> Inventory:
    """An inventory of ours (YAML), or one provider's part of a published document (JSON)."""
    if path.suffix != ".json":
        return read_inventory(path)
    return _choose(import_published(_read(path), where=str(path)), provider, str(path))


async def load_side(
    source: str,
    *,
    inventories: Path,
    provider: str | None = None,
    protocol_version: str = AUTO,
    headers: Mapping[str, str] | None = None,
    client: httpx2.AsyncClient | None = None,
) -> Side:
    """One side of `harness drift OLD NEW`: a URL, a file, or the name of a provider with a committed inventory."""
    if source.startswith(("http://", "https://")):
        return capture_side(await capture_url(source, protocol_version=protocol_version, headers=headers, client=client))
    path = Path(source)
    if not path.suffix and "/" not in source and not path.exists():
        return inventory_side(load_inventory(inventories, source))
    if path.suffix in (".yaml", ".yml"):
        return inventory_side(read_inventory(path))
    data = _read(path)
    if is_published(data):
        return inventory_side(_choose(import_published(data, where=source), provider, source))
    return capture_side(capture_data(data, source))


def _choose(found: Mapping[str, Inventory], provider: str | None, where: str) -> Inventory:
    if provider is None and len(found) == 1:
        return next(iter(found.values()))
    if provider is None:
        raise LoadError(f"holds {len(found)} providers", where=where, fix=f"choose one with --provider: {', '.join(found)}")
    if provider not in found:
        raise LoadError(f"no provider {provider!r} in it", where=where, fix=suggest(provider, list(found)))
    return found[provider]


def _read(path: Path) -> Any:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise LoadError(f"cannot be read: {error.strerror}", where=str(path), fix="check the path") from error
    return parse_json(raw, where=str(path), max_bytes=_FILE_BYTES)


def _pages(data: Any, source: str) -> list[Mapping[str, Any]]:
    """The pages in any of the accepted forms."""
    if isinstance(data, list) and data and all(isinstance(item, Mapping) and "name" in item for item in data):
        return [{"tools": data}]
    found: list[Mapping[str, Any]] = []
    for item in data if isinstance(data, list) else [data]:
        page = item.get("result", item) if isinstance(item, Mapping) else None
        if not isinstance(page, Mapping) or not isinstance(page.get("tools"), list):
            raise LoadError("holds no tool list", where=source, fix='give the JSON of a tools/list result: {"tools": […]}')
        found.append(page)
    return found
