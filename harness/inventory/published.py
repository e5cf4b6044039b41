"""The published inventory format (one JSON document for all providers), in and out, without loss."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from harness.errors import LoadError, LoadErrors
from harness.inventory.canonical import json_hash, parse_json
from harness.inventory.shape import open_defaults, prose_parts
from harness.model.inventory import Day, Inventory, Name, Sha256, Status, Taken, ToolRecord
from harness.model.location import Frozen
from harness.model.risk import Risk

HASH_RECIPE = (
    "sha256 of the compact JSON text of inputSchema, object keys sorted by UTF-16 code unit at every level (RFC 8785 text for ordinary schemas)"
)


class _Tool(Frozen):
    name: Name
    schema_hash: Sha256
    risk: Risk
    status: Status
    parameters: tuple[str, ...]
    shape: Mapping[str, Any] | None = None


class _Provider(Frozen):
    tools: tuple[_Tool, ...]


class _Document(Frozen):
    observed_on: Day
    hash_recipe: str
    providers: dict[str, _Provider] = Field(min_length=1)


def is_published(data: Any) -> bool:
    """Whether parsed JSON looks like this format at all."""
    return isinstance(data, Mapping) and "providers" in data and "hash_recipe" in data


def import_published(data: Any, *, where: str = "") -> dict[str, Inventory]:
    """Provider → inventory, in the document's order. Raises LoadErrors naming each JSON pointer that does not fit.

    The format says neither endpoint nor protocol version nor prose; those stay unset, never guessed.
    """
    try:
        document = _Document.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        raise LoadErrors([_explain("/".join(map(str, p["loc"])), p["msg"], where) for p in problems]) from error
    errors: list[LoadError] = []
    if document.hash_recipe != HASH_RECIPE:
        errors.append(_explain("hash_recipe", "an unknown recipe: its hashes cannot be compared with ours", where))
    found: dict[str, Inventory] = {}
    for provider, listed in document.providers.items():
        names = [tool.name for tool in listed.tools]
        errors += [
            _explain(f"providers/{provider}", f"tool {name!r} is listed twice", where) for name in sorted({n for n in names if names.count(n) > 1})
        ]
        for tool in listed.tools:
            if tool.shape is not None and (text := [pointer for pointer, _ in prose_parts(tool.shape)]):
                errors.append(_explain(f"providers/{provider}", f"{tool.name}: the shape holds text at {text[0]}", where))
        found[provider] = Inventory(provider=provider, taken=Taken(date=document.observed_on), tools=tuple(map(_record, listed.tools)))
    if errors:
        raise LoadErrors(errors)
    return found


def load_published(path: Path) -> dict[str, Inventory]:
    """Read and import a published JSON file."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise LoadError(f"cannot be read: {error.strerror}", where=str(path), fix="check the path") from error
    return import_published(parse_json(raw, where=str(path)), where=str(path))


def export_published(inventories: Iterable[Inventory]) -> dict[str, Any]:
    """The published document of these inventories, in their order.

    Raises LoadError when they were taken on different days (the format has one date) or hold what it cannot say.
    """
    listed = list(inventories)
    days = sorted({inventory.taken.date for inventory in listed})
    if len(days) != 1:
        raise LoadError(f"inventories of {len(days)} days ({', '.join(days)})", fix="export inventories of one day: the format has one date")
    providers = {inventory.provider: {"tools": [_published(record) for record in inventory.tools]} for inventory in listed}
    if len(providers) != len(listed):
        raise LoadError("one provider stands twice", fix="export each provider once")
    return {"observed_on": days[0], "hash_recipe": HASH_RECIPE, "providers": providers}


def published_text(inventories: Iterable[Inventory]) -> str:
    """The document as JSON text, indented by one space, no final newline (as published)."""
    return json.dumps(export_published(inventories), indent=1)


def _record(tool: _Tool) -> ToolRecord:
    """Text in a published default is public already, so it counts as reviewed."""
    shape = dict(tool.shape) if tool.shape is not None else None
    return ToolRecord(
        name=tool.name,
        schema_hash=tool.schema_hash,
        risk=tool.risk,
        status=tool.status,
        parameters=tool.parameters,
        shape_basis="none" if shape is None else "verified",
        shape_hash=None if shape is None else json_hash(shape),
        shape=shape,
        reviewed_defaults=() if shape is None else open_defaults(shape),
    )


def _published(record: ToolRecord) -> dict[str, Any]:
    """An assumed shape is ours, not the vendor's: it is never published."""
    data: dict[str, Any] = {
        "name": record.name,
        "schema_hash": record.schema_hash,
        "risk": record.risk,
        "status": record.status,
        "parameters": list(record.parameters),
    }
    if record.shape is not None and record.shape_basis == "verified":
        data["shape"] = dict(record.shape)
    return data


def _explain(pointer: str, message: str, where: str) -> LoadError:
    return LoadError(f"/{pointer}: {message}", where=where, fix="correct the published document, or import another one")
