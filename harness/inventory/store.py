"""`inventories/<provider>.yaml`: read with positioned, three-part errors; written so that a text diff stays small."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from harness.errors import LoadError, LoadErrors
from harness.inventory.canonical import NotCanonical, json_hash
from harness.inventory.shape import has_sealed_default, open_defaults, prose_parts
from harness.model.inventory import Components, Inventory, Taken, ToolRecord
from harness.registry import suggest
from harness.yaml_hints import source_lines
from harness.yaml_nodes import MapNode, Node, locate, parse_yaml

NodePath = tuple[str | int, ...]

MAX_CHARACTERS = 64 * 1024 * 1024
"""An inventory is written by a program, for ten thousand tools if there are so many."""
MAX_DEPTH = 160
"""Levels of a schema as deep as is looked into, and those of the file around it."""
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_HEX = re.compile(r"[0-9a-f]{64}\Z")


def inventory_path(folder: Path, provider: str) -> Path:
    return folder / f"{provider}.yaml"


def load_inventory(folder: Path, provider: str) -> Inventory:
    """The agreed tools of `provider`. Raises LoadError when there is none, LoadErrors when it is not sound."""
    path = inventory_path(folder, provider)
    if not path.is_file():
        known = sorted(found.stem for found in folder.glob("*.yaml"))
        hint = suggest(provider, known) if known else "capture it first"
        raise LoadError(f"no inventory for provider {provider!r}", where=str(path), fix=f"{hint}, or write {path.name} from a reviewed capture")
    inventory = read_inventory(path)
    if inventory.provider != provider:
        raise LoadError(f"the file speaks of {inventory.provider!r}", where=f"{path}:1:1", fix=f"name it {inventory.provider}.yaml")
    return inventory


def load_inventories(folder: Path) -> dict[str, Inventory]:
    """Every `*.yaml` of the folder, by provider, in order of name. All errors of all files together."""
    if not folder.is_dir():
        raise LoadError("no such folder of inventories", where=str(folder), fix="name the folder that holds <provider>.yaml files")
    found: dict[str, Inventory] = {}
    errors: list[LoadError] = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            found[path.stem] = load_inventory(folder, path.stem)
        except LoadErrors as several:
            errors.extend(several.errors)
        except LoadError as error:
            errors.append(error)
    if errors:
        raise LoadErrors(errors)
    return found


def read_inventory(path: Path) -> Inventory:
    """One inventory file. Raises LoadError (unreadable) or LoadErrors (every problem, each with its position)."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise LoadError("no such inventory", where=str(path), fix="check the path") from error
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"cannot be read: {error}", where=str(path), fix="make it a readable UTF-8 file") from error
    return parse_inventory(text, str(path))


def parse_inventory(text: str, name: str) -> Inventory:
    """An inventory from YAML text; `name` stands in the positions."""
    node = parse_yaml(text, name, max_characters=MAX_CHARACTERS, max_depth=MAX_DEPTH)
    place = _Place(node, source_lines(text))
    if not isinstance(node, MapNode):
        raise LoadError("an inventory is a mapping", where=str(node.location), fix="start with `inventory: <provider>`")
    data = node.plain()
    if "provider" in data:
        raise LoadErrors([place.error(("provider",), "unknown key 'provider'", "write `inventory:`")])
    fields = {("provider" if key == "inventory" else key): value for key, value in data.items()}
    try:
        inventory = Inventory.model_validate(fields)
    except ValidationError as error:
        raise LoadErrors([_explain(problem, place) for problem in error.errors(include_url=False)]) from error
    if problems := list(_inconsistencies(inventory, place)):
        raise LoadErrors(problems)
    return inventory


def dump_inventory(inventory: Inventory) -> str:
    """YAML text that `parse_inventory` reads back to the same inventory. Text is quoted; what is unset is left out."""
    data = inventory.model_dump(mode="json", exclude_defaults=True, exclude={"provider", "recipe", "taken", "tools"})
    data = {"inventory": inventory.provider, "recipe": inventory.recipe, **data}
    data["taken"] = inventory.taken.model_dump(mode="json", exclude_defaults=True)
    data["tools"] = [_tool_data(record) for record in inventory.tools]
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


def save_inventory(inventory: Inventory, path: Path) -> None:
    """Write atomically: a reader sees the old file or the new one, never half of one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(dump_inventory(inventory))
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _tool_data(record: ToolRecord) -> dict[str, Any]:
    data = record.model_dump(mode="json", exclude_defaults=True)
    data["status"] = record.status
    if record.components is not None:
        data["components"] = record.components.model_dump(mode="json", exclude_defaults=True)
    order = ("name", "schema_hash", "risk", "status", "parameters", "shape_basis", "shape_hash", "shape")
    return {key: data[key] for key in (*order, *(key for key in data if key not in order)) if key in data}


class _Place:
    """Turns a path in the data into file:line:column and the source line."""

    def __init__(self, node: Node, lines: list[str]) -> None:
        self._node, self._lines = node, lines

    def error(self, path: NodePath, what: str, fix: str) -> LoadError:
        mark = locate(self._node, path, key=True)
        return LoadError(what, where=str(mark), fix=fix, excerpt=self._lines[mark.line - 1].strip()[:160])


def _explain(problem: ErrorDetails, place: _Place) -> LoadError:
    """One pydantic problem in the file's own words."""
    path: NodePath = tuple("inventory" if part == "provider" and index == 0 else part for index, part in enumerate(problem["loc"]))
    last = str(path[-1]) if path else ""
    kind = problem["type"]
    if kind == "extra_forbidden":
        model = {1: [*Inventory.model_fields, "inventory"], 2: list(Taken.model_fields), 3: list(ToolRecord.model_fields)}
        known = model.get(len(path), list(Components.model_fields))
        return place.error(path, f"unknown key {last!r}", suggest(last, [key for key in known if key != "provider"]))
    if kind == "missing":
        return place.error(path, f"key {last!r} is missing", f"add `{last}:`")
    if kind == "string_pattern_mismatch" and "[0-9a-f]{64}" in str(problem.get("ctx", {}).get("pattern", "")):
        return place.error(path, f"{last} is not a SHA-256: {problem['input']!r}", "write 64 lower-case hexadecimal digits")
    if kind == "literal_error":
        return place.error(path, f"{last} is {problem['input']!r}", f"use {problem.get('ctx', {}).get('expected', 'a known word')}")
    if last == "date":
        return place.error(path, f"date is {problem['input']!r}", 'write a quoted date, "YYYY-MM-DD"')
    return place.error(path, f"{last or 'the file'}: {problem['msg']}", "see docs: inventories")


def _inconsistencies(inventory: Inventory, place: _Place) -> Iterator[LoadError]:
    """What each field alone cannot show: duplicates, and hashes that do not fit the shape beside them."""
    seen: set[str] = set()
    for index, record in enumerate(inventory.tools):
        path: NodePath = ("tools", index)
        if record.name in seen:
            yield place.error((*path, "name"), f"tool {record.name!r} is listed twice", "remove one of them")
        seen.add(record.name)
        if len(set(record.parameters)) != len(record.parameters):
            yield place.error((*path, "parameters"), f"{record.name}: a parameter is listed twice", "remove one of them")
        yield from _shape_problems(record, path, place)


def _shape_problems(record: ToolRecord, path: NodePath, place: _Place) -> Iterator[LoadError]:
    name, shape = record.name, record.shape
    if (shape is None) != (record.shape_basis == "none"):
        yield place.error((*path, "shape_basis"), f"{name}: shape_basis is {record.shape_basis!r}", "say `none` exactly when there is no shape")
    if shape is None:
        return  # a shape may be withheld while its hash is kept
    if leftover := [pointer for pointer, _ in prose_parts(shape)]:
        yield place.error((*path, "shape"), f"{name}: the shape holds text at {leftover[0]}", "remove it: inventories hold no prose")
    reviewed = set(record.reviewed_defaults)
    if unsealed := [pointer for pointer in open_defaults(shape) if pointer not in reviewed]:
        yield place.error(
            (*path, "shape"),
            f"{name}: text in clear at {unsealed[0]}",
            "replace it by sha256:<hex>, or list the pointer in reviewed_defaults",
        )
    properties = shape.get("properties", {})
    if isinstance(properties, dict) and set(properties) != set(record.parameters):
        odd = sorted(set(properties) ^ set(record.parameters))
        yield place.error((*path, "parameters"), f"{name}: parameters and shape differ in {', '.join(odd)}", "make them agree")
    yield from _hash_problems(record, path, place)


def _hash_problems(record: ToolRecord, path: NodePath, place: _Place) -> Iterator[LoadError]:
    """Recompute what can be recomputed from the file alone."""
    if record.shape_hash is None:
        yield place.error(path, f"{record.name}: a shape without shape_hash", "add `shape_hash:`, the hash of the shape")
        return
    if has_sealed_default(record.shape):
        return
    try:
        actual = json_hash(record.shape)
    except NotCanonical as error:
        yield place.error((*path, "shape"), f"{record.name}: the shape is {error.what}", error.fix)
        return
    if actual != record.shape_hash:
        yield place.error((*path, "shape_hash"), f"{record.name}: shape_hash does not fit the shape", f"the shape hashes to {actual}")
    elif record.prose is not None and not record.prose and record.schema_hash != actual:
        yield place.error(
            (*path, "schema_hash"),
            f"{record.name}: schema_hash does not fit: no prose was removed, so it must equal shape_hash",
            f"write {actual}, or record the prose hashes",
        )


class _Dumper(yaml.SafeDumper):
    """Values that are text are quoted always, keys only where a YAML reader could take them for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        node = super().represent_mapping(tag, mapping, flow_style=flow_style)
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and _PLAIN_KEY.match(key.value):
                key.style = None
        return node


def _quoted(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')


_Dumper.add_representer(str, _quoted)
