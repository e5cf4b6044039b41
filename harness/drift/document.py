"""A schema made comparable: JSON Schema 2020-12, only what decides validity, every reference local and by one spelling.

`normalise` up-converts drafts 4, 6, 7 and 2019-09, drops annotations and unknown keywords, inlines references that do not recur
and names the rest d0, d1, … in the order in which they are met, so that renaming, moving or inlining a definition leaves no trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from harness.drift.refused import Refused
from harness.inventory.canonical import exact_bytes
from harness.inventory.walk import escape, schemas

Schema = dict[str, Any] | bool
MAX_EXPANDED = 20_000
MAX_EXPANDED_DEPTH = 64

_DRAFTS = {
    "json-schema.org/draft-03/schema": 3,
    "json-schema.org/draft-04/schema": 4,
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft/2020-12/schema": 2020,
}
DRAFT_URIS: tuple[str, ...] = tuple(f"{scheme}://{name}{end}" for name in _DRAFTS for scheme in ("http", "https") for end in ("", "#"))

IN_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else"})
LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
SINGLES = ("items", "contains", "not", "if", "then", "else", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties")
MAPS = ("properties", "patternProperties", "dependentSchemas")
PLAIN = frozenset(
    {"type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern"}
    | {"format", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "required", "minProperties", "maxProperties"}
    | {"dependentRequired"}
)
_SINCE = {
    "const": 6,
    "contains": 6,
    "propertyNames": 6,
    "if": 7,
    "then": 7,
    "else": 7,
    "dependentRequired": 2019,
    "dependentSchemas": 2019,
    "minContains": 2019,
    "maxContains": 2019,
    "unevaluatedItems": 2019,
    "unevaluatedProperties": 2019,
    "prefixItems": 2020,
}


@dataclass(frozen=True, slots=True)
class Document:
    """`root` refers to `defs` only as `{"$ref": "#/$defs/dN"}`; `defs` holds what recurs, and nothing else."""

    root: Schema
    defs: Mapping[str, Schema]

    @property
    def schema(self) -> Schema:
        """As one schema that stands alone."""
        return self.under(self.root)

    def under(self, node: Schema) -> Schema:
        """A node of this document as a schema that stands alone."""
        if not self.defs or isinstance(node, bool):
            return node
        return {**node, "$defs": dict(self.defs)}

    def target(self, node: Mapping[str, Any]) -> Schema | None:
        """What a node's `$ref` names; None without one."""
        found = node.get("$ref")
        return self.defs[str(found).rpartition("/")[2]] if found is not None else None


def draft_of(schema: Any, default: int = 2020) -> int:
    """4, 6, 7, 2019 or 2020, as declared; `default` when nothing is."""
    declared = schema.get("$schema") if isinstance(schema, Mapping) else None
    if not isinstance(declared, str):
        return default
    name = declared.rstrip("#").rpartition("://")[2]
    if name not in _DRAFTS:
        raise Refused("unknown-draft", "/$schema", f"the dialect {declared[:80]!r} is not known here")
    return max(_DRAFTS[name], 4)


def normalise(schema: Any, draft: int | None = None) -> Document:
    """`schema` comparable. `draft` is what it was declared under, where the schema no longer says so. Raises Refused."""
    if schema is None:
        schema = {}
    if not isinstance(schema, (Mapping, bool)):
        raise Refused("not-a-schema", "", f"a schema is an object or a boolean, not {type(schema).__name__}")
    return _Normaliser(schema, draft_of(schema) if draft is None else draft).document()


class _Normaliser:
    def __init__(self, root: Mapping[str, Any] | bool, draft: int) -> None:
        self.root = root
        self.draft = draft
        self.nodes = self.depth = 0
        self.names: dict[str, str] = {}  # pointer of what recurs → dN
        self.defs: dict[str, Schema] = {}
        self.recurring: set[str] = set()
        self.own = str(root.get("$id", root.get("id", ""))).rstrip("#") if isinstance(root, Mapping) else ""
        self.anchors: dict[str, str] = {}
        self.embedded = False
        for pointer, node in schemas(root):
            for word in ("$anchor", "$dynamicAnchor"):
                if isinstance(node.get(word), str):
                    self.anchors[node[word]] = pointer
            found = node.get("$id", node.get("id") if draft == 4 else None)
            if pointer and isinstance(found, str):
                if draft <= 7 and found.startswith("#"):
                    self.anchors[found[1:]] = pointer
                else:
                    self.embedded = True

    def document(self) -> Document:
        self.find_recurring()
        root = self.convert(self.root, "")
        return Document(root, self.defs)

    def find_recurring(self) -> None:
        """References that lead back to themselves: those stay references, whichever way they are reached."""
        edges: dict[str, list[str]] = {}
        queue = [""]
        while queue:
            pointer = queue.pop()
            if pointer in edges:
                continue
            edges[pointer] = self.below(pointer)
            queue += edges[pointer]
        self.recurring = _on_cycles(edges)

    def below(self, pointer: str) -> list[str]:
        """Pointers referred to from inside the schema at `pointer`, its own definitions left out."""
        out: list[str] = []
        stack = [self.at(pointer)]
        while stack:
            node = stack.pop()
            if not isinstance(node, Mapping):
                continue
            if (found := self.reference(node, pointer)) is not None:
                out.append(found)
                if self.draft <= 7:
                    continue
            for keyword, value in node.items():
                if keyword in (*SINGLES, "additionalItems") and isinstance(value, Mapping):
                    stack.append(value)
                elif keyword in (*LISTS, "items") and isinstance(value, list):
                    stack += value
                elif keyword in (*MAPS, "dependencies") and isinstance(value, Mapping):
                    stack += value.values()
        return out

    def reference(self, node: Mapping[str, Any], where: str) -> str | None:
        """The pointer that a node's reference names; None when it has none. Raises Refused: nothing is ever fetched."""
        if "$dynamicRef" in node:
            raise Refused("dynamic-reference", where, "$dynamicRef is not resolved here")
        found = node.get("$ref", node.get("$recursiveRef"))
        if found is None:
            return None
        if not isinstance(found, str):
            raise Refused("broken-reference", where, "a $ref must be text")
        base, _, fragment = found.partition("#")
        if base and base != self.own:
            raise Refused("remote-reference", where, f"$ref {found[:120]!r} points outside the schema; nothing is fetched")
        if self.embedded:
            raise Refused("embedded-resource", where, "references beside an embedded $id are not resolved here")
        fragment = unquote(fragment)
        pointer = self.anchors.get(fragment, fragment) if not fragment.startswith("/") else fragment
        if pointer and not pointer.startswith("/"):
            raise Refused("dangling-reference", where, f"$ref {found[:120]!r} names no anchor of the schema")
        self.at(pointer)
        return pointer

    def at(self, pointer: str) -> Any:
        node: Any = self.root
        for token in pointer.split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(key)] if isinstance(node, list) else node[key]
            except (KeyError, IndexError, ValueError, TypeError) as error:
                raise Refused("dangling-reference", "", f"$ref '#{pointer[:120]}' leads nowhere") from error
        if not isinstance(node, (Mapping, bool)):
            raise Refused("dangling-reference", "", f"$ref '#{pointer[:120]}' leads to no schema")
        return node

    def convert(self, node: Any, where: str) -> Schema:
        if isinstance(node, bool):
            return node
        if not isinstance(node, Mapping):
            raise Refused("not-a-schema", where, f"a schema is an object or a boolean, not {type(node).__name__}")
        self.nodes += 1
        if self.nodes > MAX_EXPANDED:
            raise Refused("expands-too-far", where, f"the references unfold to more than {MAX_EXPANDED} schemas")
        if self.depth >= MAX_EXPANDED_DEPTH:
            raise Refused("too-deep", where, f"the references unfold to more than {MAX_EXPANDED_DEPTH} schemas inside one another")
        self.depth += 1
        try:
            return self.unfolded(node, where)
        finally:
            self.depth -= 1

    def unfolded(self, node: Mapping[str, Any], where: str) -> Schema:
        target = self.reference(node, where)
        if target is not None and self.draft <= 7:
            return self.linked(target)
        out = self.keywords(node, where)
        if target is None:
            return out
        linked = self.linked(target)
        if not out:
            return linked
        return {**out, "allOf": [*out.get("allOf", []), linked]} if isinstance(linked, bool) or "$ref" not in linked else {**out, **linked}

    def linked(self, pointer: str) -> Schema:
        """What stands in for a reference: the schema itself, or a reference to a definition where it recurs."""
        if pointer not in self.recurring:
            return self.convert(self.at(pointer), pointer)
        name = self.names.get(pointer)
        if name is None:
            name = self.names[pointer] = f"d{len(self.names)}"
            self.defs[name] = self.convert(self.at(pointer), pointer)
        return {"$ref": f"#/$defs/{name}"}

    def keywords(self, node: Mapping[str, Any], where: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        tuple_items = isinstance(node.get("items"), list) and (self.draft < 2020 or "prefixItems" not in node)
        for keyword, value in node.items():
            at = f"{where}/{escape(keyword)}"
            if _SINCE.get(keyword, 0) > self.draft:
                continue
            if keyword in PLAIN:
                out[keyword] = value
            elif keyword == "items" and tuple_items:
                out["prefixItems"] = [self.convert(child, f"{at}/{index}") for index, child in enumerate(value)]
                if "additionalItems" in node:
                    out["items"] = self.convert(node["additionalItems"], f"{where}/additionalItems")
            elif keyword in SINGLES:
                out[keyword] = self.convert(value, at)
            elif keyword in LISTS and isinstance(value, list):
                out[keyword] = [self.convert(child, f"{at}/{index}") for index, child in enumerate(value)]
            elif keyword in MAPS and isinstance(value, Mapping):
                out[keyword] = {name: self.convert(child, f"{at}/{escape(name)}") for name, child in value.items()}
            elif keyword in (*LISTS, *MAPS):
                raise Refused("not-a-schema", at, f"{keyword} holds {type(value).__name__}")
        if isinstance(node.get("dependencies"), Mapping) and self.draft <= 7:
            self.dependencies(node["dependencies"], out, f"{where}/dependencies")
        _exclusive(out)
        return _tidied(out)

    def dependencies(self, found: Mapping[str, Any], out: dict[str, Any], where: str) -> None:
        for name, value in found.items():
            if isinstance(value, list):
                out.setdefault("dependentRequired", {})[name] = value
            else:
                out.setdefault("dependentSchemas", {})[name] = self.convert(value, f"{where}/{escape(name)}")


def _exclusive(out: dict[str, Any]) -> None:
    """Draft 4 says "exclusive" by a boolean beside the bound; no later draft allows that, so it can be read under any."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(out.get(exclusive), bool) and out.pop(exclusive) and bound in out:
            out[exclusive] = out.pop(bound)


def _tidied(out: dict[str, Any]) -> dict[str, Any]:
    """Without what says nothing: many servers send `required: null` or `[]`, and a lone `then` is never asked."""
    if "required" in out and not out["required"]:
        del out["required"]
    elif isinstance(out.get("required"), list) and all(isinstance(name, str) for name in out["required"]):
        out["required"] = list(dict.fromkeys(out["required"]))  # a name said twice is forbidden, and yet plain
    if "if" not in out:
        out.pop("then", None)
        out.pop("else", None)
    if "contains" not in out:
        out.pop("minContains", None)
        out.pop("maxContains", None)
    return out


def unordered(node: Any, *, data: bool = False) -> Any:
    """A normalised schema with every list whose order says nothing in one order. Values inside `enum` and `const` stay as they are."""
    if isinstance(node, list):
        return node if data else [unordered(child) for child in node]
    if not isinstance(node, dict) or data:
        return node
    out: dict[str, Any] = {}
    for word, value in node.items():
        if word in MAPS or word == "$defs":
            out[word] = {name: unordered(child) for name, child in value.items()}
        elif word == "dependentRequired" and isinstance(value, dict):
            out[word] = {name: _in_order(names) for name, names in value.items()}
        else:
            out[word] = unordered(value, data=word in ("enum", "const"))
            if word in ("allOf", "anyOf", "oneOf", "enum", "type", "required"):
                out[word] = _in_order(out[word])
    return out


def _in_order(value: Any) -> Any:
    return sorted(value, key=exact_bytes) if isinstance(value, list) else value


def _on_cycles(edges: Mapping[str, list[str]]) -> set[str]:
    """Every node that can reach itself. Sizes are bounded by the schema's, so a search from each node is enough."""
    out: set[str] = set()
    for start in edges:
        seen: set[str] = set()
        stack = list(edges[start])
        while stack:
            here = stack.pop()
            if here == start:
                out.add(start)
                break
            if here not in seen:
                seen.add(here)
                stack += edges[here]
    return out
