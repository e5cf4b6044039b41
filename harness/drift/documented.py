"""Callers that keep to what is documented: objects closed to their declared properties; and arguments that nobody reads any more.

Most tools leave objects open, so that by the letter every new parameter "breaks" calls that sent a property of that name by
accident. Nobody documents such calls. `closed` takes them away, and nothing else: what it accepts, the schema accepts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.drift.conjunction import types
from harness.drift.document import Document, Schema
from harness.inventory.walk import escape

_LOOKING = ("$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas")
_FREE: tuple[Any, ...] = (True, {}, None)


def closed(document: Document) -> Document:
    """The document for documented callers only."""
    closer = _Closer(document)
    root = closer.close(document.root)
    return Document(root, {**document.defs, **closer.defs})


class _Closer:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.defs: dict[str, Schema] = {}

    def close(self, node: Schema) -> Schema:
        """`node` as the whole description of a value."""
        if isinstance(node, bool):
            return node
        looking = [word for word in _LOOKING if word in node]
        own = "properties" in node
        if not looking:
            out = self.inside(node)
            if own and node.get("additionalProperties") in _FREE and "unevaluatedProperties" not in node:
                out["additionalProperties"] = False
            return out
        if not own and len(looking) == 1 and "additionalProperties" not in node and "unevaluatedProperties" not in node:
            pushed = self.push(node, looking[0])
            if pushed is not None:
                return pushed
        out = self.inside(node)
        if node.get("additionalProperties") in _FREE and "unevaluatedProperties" not in node and self.declares(node):
            out.pop("additionalProperties", None)
            # the plain word where it means the same: more is known of it
            out["additionalProperties" if own and self.adds_nothing(node) else "unevaluatedProperties"] = False
        return out

    def adds_nothing(self, node: dict[str, Any]) -> bool:
        """Whether no branch evaluates a property that the node does not declare itself."""
        stack: list[Schema] = [node]
        for _ in range(64):
            if not stack:
                return True
            here = stack.pop()
            if isinstance(here, bool):
                continue
            others = here is not node and any(word in here for word in ("patternProperties", "additionalProperties", "unevaluatedProperties"))
            if others or not here.get("properties", {}).keys() <= node["properties"].keys():
                return False
            target = self.document.target(here)
            stack += [branch for word in ("allOf", "anyOf", "oneOf") for branch in here.get(word, [])]
            stack += [here[word] for word in ("if", "then", "else") if word in here] + list(here.get("dependentSchemas", {}).values())
            stack += [target] if target is not None else []
        return False

    def push(self, node: dict[str, Any], word: str) -> Schema | None:
        """The same closing, done in the one place that describes the value; None when there is more than one."""
        if word == "$ref":
            return {**node, "$ref": self.closed_reference(node["$ref"])}
        branches = node.get(word)
        if word == "allOf" and isinstance(branches, list) and len(branches) == 1:
            return {**self.inside(node), "allOf": [self.close(branches[0])]}
        if word == "anyOf" or (word == "oneOf" and sum(self.may_be_object(branch) for branch in node["oneOf"]) <= 1):
            return {**self.inside(node), word: [self.close(branch) for branch in node[word]]}
        if word == "oneOf":  # closing a branch could make a value of two branches one of one: the choice stays with the open ones
            return {**self.inside(node), "anyOf": [self.close(branch) for branch in node["oneOf"]]}
        return None

    def closed_reference(self, found: str) -> str:
        name = found.rpartition("/")[2]
        ours = f"closed-{name}"
        if ours not in self.defs:
            self.defs[ours] = True  # met again inside itself: the reference alone is wanted
            self.defs[ours] = self.close(self.document.defs[name])
        return f"#/$defs/{ours}"

    def inside(self, node: dict[str, Any]) -> dict[str, Any]:
        """The node with the values inside it closed, itself left open."""
        out = dict(node)
        for word in ("properties", "patternProperties"):
            if word in node:
                out[word] = {name: self.close(child) for name, child in node[word].items()}
        for word in ("items", "additionalProperties"):
            if word in node:
                out[word] = self.close(node[word])
        if "prefixItems" in node:
            out["prefixItems"] = [self.close(child) for child in node["prefixItems"]]
        for word in ("allOf", "anyOf"):  # not `oneOf`: closing one branch of it can let more through
            if word in node:
                out[word] = [self.inside(child) if isinstance(child, dict) else child for child in node[word]]
        return out

    def may_be_object(self, node: Schema) -> bool:
        if isinstance(node, dict) and (target := self.document.target(node)) is not None:
            return "object" in types([target]) if isinstance(target, bool) or "$ref" not in target else True
        return "object" in types([node])

    def declares(self, node: Schema) -> bool:
        return any(True for _ in declared(self.document, node))


def declared(document: Document, node: Schema) -> Iterator[tuple[str, Schema]]:
    """(name, schema) of each property that a value's description declares, in whatever branch."""
    stack: list[tuple[Schema, int]] = [(node, 0)]
    while stack:
        here, depth = stack.pop()
        if isinstance(here, bool) or depth > 8:
            continue
        yield from here.get("properties", {}).items()
        target = document.target(here)
        branches = [branch for word in ("allOf", "anyOf", "oneOf") for branch in here.get(word, [])]
        more = [here[word] for word in ("then", "else") if word in here] + list(here.get("dependentSchemas", {}).values())
        stack += [(branch, depth + 1) for branch in [*branches, *more, *([target] if target is not None else [])]]


def ignored_arguments(old: Document, new: Document) -> tuple[str, ...]:
    """Pointers of properties that the old schema declares and the new one lets through without declaring: they are dropped silently."""
    return tuple(dict.fromkeys(_ignored(old, new, (old.root,), (new.root,), "", 0)))


def _ignored(old: Document, new: Document, before: tuple[Schema, ...], after: tuple[Schema, ...], at: str, depth: int) -> Iterator[str]:
    if depth > 8:
        return
    mine, theirs = _declared_of(old, before), _declared_of(new, after)
    open_now = not any(_keeps_out(new, node) for node in after)
    for name, parts in mine.items():
        place = f"{at}/properties/{escape(name)}"
        if name in theirs:
            yield from _ignored(old, new, parts, theirs[name], place, depth + 1)
        elif open_now and (theirs or depth == 0) and any("object" in types([node]) for node in after):
            yield place
    inner, outer = _items_of(old, before), _items_of(new, after)
    if inner and outer:
        yield from _ignored(old, new, inner, outer, f"{at}/items", depth + 1)


def _declared_of(document: Document, parts: tuple[Schema, ...]) -> dict[str, tuple[Schema, ...]]:
    out: dict[str, tuple[Schema, ...]] = {}
    for part in parts:
        for name, schema in declared(document, part):
            out[name] = (*out.get(name, ()), schema)
    return out


def _in_place(document: Document, node: Schema) -> Iterator[dict[str, Any]]:
    stack, seen = [node], 0
    while stack and seen < 64:
        here = stack.pop()
        seen += 1
        if isinstance(here, dict):
            yield here
            target = document.target(here)
            stack += [*here.get("allOf", []), *here.get("anyOf", []), *here.get("oneOf", []), *([target] if target is not None else [])]


def _items_of(document: Document, parts: tuple[Schema, ...]) -> tuple[Schema, ...]:
    return tuple(node["items"] for part in parts for node in _in_place(document, part) if "items" in node)


def _keeps_out(document: Document, node: Schema) -> bool:
    """Whether an undeclared property is refused, or at least judged."""
    words = ("additionalProperties", "unevaluatedProperties", "propertyNames", "patternProperties")
    return any(here.get(word) not in _FREE for here in _in_place(document, node) for word in words)
