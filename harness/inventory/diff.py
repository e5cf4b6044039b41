"""Neutral facts about two tool lists, per tool and JSON pointer into the tool's wire object. No judgement here: see harness.drift.

Either side may be an inventory (hashes, prose-free shapes) or tools as captured (everything). What one side does not know is
not compared, and is not counted as compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.inventory.canonical import json_equal
from harness.inventory.facts import ASPECTS, Aspect, Fact
from harness.inventory.rename import likely_renames
from harness.inventory.schema_diff import schema_facts
from harness.inventory.server_diff import server_facts
from harness.inventory.shape import prose_parts, shape
from harness.inventory.side import Side, ToolView
from harness.inventory.text_signs import signs

__all__ = ["ASPECTS", "Aspect", "Diff", "Fact", "diff", "signs_of"]

_PARAMETER_KINDS = frozenset({"property-added", "property-removed"})


@dataclass(frozen=True, slots=True)
class Diff:
    """`compared` and `agreed` count expected tools per aspect; a tool counts as agreed when the aspect yielded no fact."""

    facts: tuple[Fact, ...]
    compared: Mapping[Aspect, int]
    agreed: Mapping[Aspect, int]


def diff(old: Side, new: Side) -> Diff:
    """All facts, in the order of the expected list, then what is new. An incomplete list never shows as removed or added tools."""
    facts: list[Fact] = [*_list_facts(old, new), *server_facts(old.server, new.server)]
    headers = _headers(old, new)
    compared: dict[Aspect, int] = dict.fromkeys(ASPECTS, 0)
    agreed: dict[Aspect, int] = dict.fromkeys(ASPECTS, 0)
    found = {view.name: view for view in new.views}
    expected = {view.name: view for view in old.views}
    for name, before in expected.items():
        after = found.get(name)
        if after is None and not new.complete:
            continue  # it may stand on a page that we did not get
        here = [Fact("tool-removed", "names", name, old=name)] if after is None else list(_tool_facts(before, after))
        if headers and any(fact.aspect in ("shape", "parameters", "hash", "output") for fact in here):
            here.append(Fact("header-dependent", "hash", name, "/inputSchema", *headers))
        facts += here
        touched = {fact.aspect for fact in here}
        for aspect in ("names",) if after is None else _comparable(before, after):
            compared[aspect] += 1
            agreed[aspect] += aspect not in touched
    if old.complete:
        come = [view for name, view in found.items() if name not in expected]
        for view in come:
            facts.append(Fact("tool-added", "names", view.name, new=view.risk))
            facts += signs_of(view.name, None, view)
        gone = [view for name, view in expected.items() if name not in found] if new.complete else []
        facts += [
            Fact("tool-renamed", "names", pair.old, old=pair.old, new=pair.new, detail={"why": pair.why, "score": pair.score})
            for pair in likely_renames(gone, come)
        ]
    return Diff(tuple(facts), compared, agreed)


def _headers(old: Side, new: Side) -> tuple[list[str], list[str]] | None:
    """The connection headers of both lists, where they were taken with different ones."""
    if old.server is None or new.server is None or set(old.server.headers) == set(new.server.headers):
        return None
    return sorted(old.server.headers), sorted(new.server.headers)


def _texts_of(view: ToolView) -> Iterator[tuple[str, str]]:
    """(pointer, text) of everything a model reads of a tool, where it is known in clear."""
    if view.tool is None:
        return
    parts = [("/title", view.tool.title), ("/description", view.tool.description), ("/annotations/title", view.tool.annotations.get("title"))]
    for word, schema in (("inputSchema", view.tool.input_schema), ("outputSchema", view.tool.output_schema)):
        parts += [(f"/{word}{pointer}", value) for pointer, value in prose_parts(schema)]
    yield from ((pointer, value) for pointer, value in parts if isinstance(value, str))
    yield "/name", view.name


def signs_of(tool: str, old: ToolView | None, new: ToolView) -> Iterator[Fact]:
    """Signs in texts that the old side (None: there is none) did not have as they are. What was reviewed with its signs is not told again."""
    before = dict(_texts_of(old)) if old is not None else {}
    for pointer, text in _texts_of(new):
        if before.get(pointer) == text or (old is not None and old.tool is None and _reviewed(old, new, pointer)):
            continue
        known = {sign.what for sign in signs(before.get(pointer, ""))}
        for sign in signs(text):
            if sign.what not in known:
                yield Fact(f"text-{sign.kind}", "text", tool, pointer, new=sign.what, detail={"at": sign.where})


def _reviewed(old: ToolView, new: ToolView, pointer: str) -> bool:
    """Whether an inventory without text holds the hash of this one."""
    if pointer == "/name":
        return True
    head, _, rest = pointer[1:].partition("/")
    if head == "inputSchema":
        mine, theirs = old.prose, new.prose
        return mine is None or theirs is None or mine.get(f"/{rest}") == theirs.get(f"/{rest}")
    if old.components is None or new.components is None:
        return True
    word = "output_schema" if head == "outputSchema" else head
    return bool(getattr(old.components, word) == getattr(new.components, word))


def _list_facts(old: Side, new: Side) -> Iterator[Fact]:
    for side, which in ((old, "old"), (new, "new")):
        if not side.complete:
            yield Fact("list-incomplete", "names", "", new=side.reason, detail={"side": which})
    if new.nameless:
        yield Fact("tool-nameless", "names", "", new=new.nameless)
    seen: set[str] = set()
    for view in new.views:
        if view.name in seen:
            yield Fact("tool-duplicated", "names", view.name, new=view.name)
        seen.add(view.name)


def _comparable(old: ToolView, new: ToolView) -> tuple[Aspect, ...]:
    """The aspects that both sides know of this tool."""
    known: dict[Aspect, bool] = {
        "names": True,
        "parameters": old.parameters is not None and new.parameters is not None,
        "shape": _shapes_known(old, new) or (old.shape_hash is not None and new.shape_hash is not None),
        "risk": old.risk is not None and new.risk is not None,
        "status": old.status is not None and new.status is not None,
        "hash": old.schema_hash is not None and new.schema_hash is not None,
        "text": old.components is not None and new.components is not None,
        "annotations": old.components is not None and new.components is not None,
        "output": old.components is not None and new.components is not None,
        "server": False,
    }
    return tuple(aspect for aspect in ASPECTS if known[aspect])


def _shapes_known(old: ToolView, new: ToolView) -> bool:
    return old.shape is not None and new.shape is not None


def _tool_facts(old: ToolView, new: ToolView) -> Iterator[Fact]:
    name = new.name
    for side, view in (("old", old), ("new", new)):
        for pointer, reason in view.problems:
            yield Fact("not-canonical", "hash", name, pointer, new=reason, detail={"side": side})
    if new.claimed_hash is not None and new.schema_hash is not None and new.claimed_hash != new.schema_hash:
        yield Fact("claimed-hash-wrong", "hash", name, "/schema_hash", new.schema_hash, new.claimed_hash)
    yield from _schema(old, new)
    yield from _components(old, new)
    yield from signs_of(name, old, new)
    if old.risk is not None and new.risk is not None and old.risk != new.risk:
        yield Fact("risk-changed", "risk", name, "", old.risk, new.risk)
        if new.status is not None:  # a catalog: a gateway's own claim, beside what was reviewed
            yield Fact("risk-disputed", "risk", name, "/risk", old.risk, new.risk)
    if old.status is not None and new.status is not None and old.status != new.status:
        yield Fact("status-changed", "status", name, "", old.status, new.status)


def _schema(old: ToolView, new: ToolView) -> Iterator[Fact]:
    """Where the input schemas differ, as precisely as what both sides know allows."""
    moved: tuple[str, ...] = ()
    located = False
    if _shapes_known(old, new):
        changes = schema_facts(old.shape, new.shape)
        moved = tuple(f"{change.pointer}/" for change in changes if change.kind in _PARAMETER_KINDS)
        located = bool(changes)
        for change in changes:
            top = change.pointer.count("/") == 2 and change.kind in _PARAMETER_KINDS
            aspect: Aspect = "parameters" if top else "shape"
            yield Fact(change.kind, aspect, new.name, f"/inputSchema{change.pointer}", change.old, change.new, change.detail)
    elif old.parameters is not None and new.parameters is not None:
        yield from _parameters(old, new)
    texts = list(_texts(new.name, old.prose, new.prose, moved)) if old.prose is not None and new.prose is not None else []
    yield from texts
    if old.schema_hash is None or new.schema_hash is None or old.schema_hash == new.schema_hash:
        return
    same_shape = _shapes_known(old, new) or (old.shape_hash is not None and old.shape_hash == new.shape_hash)
    if not same_shape:
        yield Fact("schema-unlocated", "hash", new.name, "/inputSchema", old.schema_hash, new.schema_hash)
    elif not located and not texts:
        yield Fact("text-unlocated", "text", new.name, "/inputSchema", old.schema_hash, new.schema_hash)


def _parameters(old: ToolView, new: ToolView) -> Iterator[Fact]:
    """Names only: one side has no shape. Whether an added one is required is known where the new side's schema is."""
    before, after = old.parameters or (), new.parameters or ()
    for name in before:
        if name not in after:
            yield Fact("parameter-removed", "parameters", new.name, _parameter(name), old=name, detail={"closed": None})
    required = (new.shape or {}).get("required")
    for name in after:
        if name not in before:
            needed = name in required if isinstance(required, list) else None if new.shape is None else False
            yield Fact("parameter-added", "parameters", new.name, _parameter(name), new=name, detail={"required": needed})


def _parameter(name: str) -> str:
    return "/inputSchema/properties/" + name.replace("~", "~0").replace("/", "~1")


def _texts(tool: str, old: Mapping[str, str], new: Mapping[str, str], moved: tuple[str, ...]) -> Iterator[Fact]:
    """Changed annotation text, except where a property came or went with its text."""
    for pointer in sorted(old.keys() | new.keys()):
        if old.get(pointer) == new.get(pointer) or pointer.startswith(moved):
            continue
        kind = "text-changed" if pointer in old and pointer in new else "text-added" if pointer in new else "text-removed"
        if pointer.endswith("/$schema"):
            kind = "draft-changed"
        yield Fact(kind, "text", tool, f"/inputSchema{pointer}", old.get(pointer), new.get(pointer))


def _components(old: ToolView, new: ToolView) -> Iterator[Fact]:
    if old.components is None or new.components is None:
        return
    for word in ("title", "description"):
        before, after = getattr(old.components, word), getattr(new.components, word)
        if before != after:
            kind = "text-changed" if before and after else "text-added" if after else "text-removed"
            yield Fact(kind, "text", new.name, f"/{word}", before, after)
    if old.components.annotations != new.components.annotations:
        yield from _annotations(old, new)
    if old.components.output_schema != new.components.output_schema:
        yield from _output(old, new)


def _annotations(old: ToolView, new: ToolView) -> Iterator[Fact]:
    if old.tool is None or new.tool is None:
        yield Fact("annotations-changed", "annotations", new.name, "/annotations", _hash_of(old, "annotations"), _hash_of(new, "annotations"))
        return
    before, after = old.tool.annotations, new.tool.annotations
    if json_equal(dict(before), dict(after)):  # an empty object against none, or something that is no object
        raw = old.tool.wire.get("annotations"), new.tool.wire.get("annotations")
        yield Fact("annotation-changed", "annotations", new.name, "/annotations", *raw, {"key": ""})
        return
    for key in sorted(before.keys() | after.keys()):
        if not json_equal(before.get(key), after.get(key)):
            pointer = "/annotations/" + key.replace("~", "~0").replace("/", "~1")
            yield Fact("annotation-changed", "annotations", new.name, pointer, before.get(key), after.get(key), {"key": key})


def _output(old: ToolView, new: ToolView) -> Iterator[Fact]:
    before = old.tool.output_schema if old.tool else None
    after = new.tool.output_schema if new.tool else None
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        yield Fact(
            "output-changed",
            "output",
            new.name,
            "/outputSchema",
            _hash_of(old, "output_schema"),
            _hash_of(new, "output_schema"),
            direction="output",
        )
        return
    found = schema_facts(shape(before), shape(after))
    for change in found:
        yield Fact(change.kind, "output", new.name, f"/outputSchema{change.pointer}", change.old, change.new, change.detail, "output")
    if not found:
        yield Fact("text-unlocated", "text", new.name, "/outputSchema", _hash_of(old, "output_schema"), _hash_of(new, "output_schema"))


def _hash_of(view: ToolView, component: str) -> str | None:
    found: str | None = getattr(view.components, component, None)
    return found
