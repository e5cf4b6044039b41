"""`recalled: {text, id, scope}`: a written fact came back as a result item, whole, with its id, and nothing from elsewhere with it.

Only result items count. An answer that repeats the query proves nothing, however right it looks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene, answer
from harness.expect.text import difference
from harness.expect.view import View
from harness.model.answer import json_of, pointer, text_of
from harness.model.finding import Finding
from harness.model.location import Frozen
from harness.model.manifest import RecallShape


class Params(Frozen):
    """`text`: exactly the item's text. `id`: the item's id. `scope`: argument name → the value each item must carry."""

    text: str
    id: str | None = None
    scope: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Item:
    text: str | None
    id: Any
    scope: Mapping[str, Any]


class Recalled(Kind[Params]):
    id = "recalled"
    summary = "the exact text is among the result items, with its id, and every item belongs to the scope"
    params = Params
    scopes = frozenset({"step"})

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        call = view.last_call(place.step)
        if call is None:
            return self.no_call(place)
        manifest = view.manifest_of(call.connection)
        shape = manifest.recall.get(call.tool) if manifest else None
        if shape is None:
            return [
                self.finding(
                    place,
                    f"where {call.tool} keeps its result items is not known",
                    severity="error",
                    fix=f"add recall.{call.tool} to providers/{view.providers.get(call.connection, '<id>')}.yaml",
                )
            ]
        if call.result is None or call.result.get("isError") is True:
            reason = text_of(call.result) or call.transport_error or (call.error.message if call.error else "")
            return [self.finding(place, f"not recalled: {call.tool} failed: {reason[:300]}", expected=params.text, actual="an error")]
        items = read_items(call.result, shape)
        if items is None:
            return [self.finding(place, "not recalled: the answer has no result items", expected=params.text, actual=text_of(call.result)[:300])]
        return self._items(params, place, items) + self._scope(params, place, items)

    def _items(self, params: Params, place: Place, items: list[Item]) -> list[Finding]:
        if not items:
            return [self.finding(place, "not recalled: no hit", expected=params.text, actual=[])]
        texts = [item.text for item in items if item.text]
        if not texts:
            return [self.finding(place, f"not recalled: {len(items)} hits, 0 with content", expected=params.text, actual="hits whose text is empty")]
        exact = [item for item in items if item.text == params.text]
        if not exact:
            nearest = max(texts, key=lambda text: common_prefix(text, params.text))
            return [
                self.finding(
                    place,
                    f"not recalled: {len(items)} hits, none is the text; the nearest is {difference(params.text, nearest)}",
                    expected=params.text,
                )
            ]
        if params.id is not None and all(item.id != params.id for item in exact):
            return [self.finding(place, "the text came back under another id", expected=params.id, actual=[item.id for item in exact])]
        return []

    def _scope(self, params: Params, place: Place, items: list[Item]) -> list[Finding]:
        found = []
        for name, wanted in params.scope.items():
            for item in items:
                actual = item.scope.get(name)
                if actual == wanted:
                    continue
                state = "unknown (the item does not carry it)" if actual is None else repr(actual)
                found.append(
                    self.finding(
                        place,
                        f"a result item's {name} is {state}; its text has SHA-256 {fingerprint(item.text)}",
                        expected=wanted,
                        actual=actual,
                        fix="a provider must return only what belongs to the scope it was asked for",
                    )
                )
        return found

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        query = {"query": "What does the navigator keep?", "filters": {"user_id": "u1"}}
        fact = "The k3 navigator keeps a silver compass."
        good.call("search_memories", query, result=answer({"results": [{"id": "m1", "memory": fact, "user_id": "u1"}]}))
        bad.call("search_memories", query, result=answer({"query": fact, "results": []}))
        yaml = f'recalled: {{text: "{fact}", id: m1, scope: {{user_id: u1}}}}'
        return Specimen(yaml, good.view()), Specimen(yaml, bad.view())


def read_items(result: Mapping[str, Any], shape: RecallShape) -> list[Item] | None:
    """The result items by the manifest's pointers; by its heading pattern when the answer is prose; None when it has neither."""
    data = json_of(result)
    present, items = pointer(data, shape.items) if data is not None else (False, None)
    if present and isinstance(items, list):
        return [read_item(item, shape) for item in items]
    if shape.heading:
        parts = re.split(shape.heading, text_of(result), flags=re.MULTILINE)
        if len(parts) > 1:
            return [Item(part.strip() or None, None, {}) for part in parts[1:]]
    return None


def read_item(item: Any, shape: RecallShape) -> Item:
    if isinstance(item, str):
        return Item(item, None, {})
    _, text = pointer(item, shape.text)
    ident = pointer(item, shape.id)[1] if shape.id else None
    scope = {name: pointer(item, path)[1] for name, path in shape.scope.items()}
    return Item(text if isinstance(text, str) else None, ident, scope)


def common_prefix(left: str, right: str) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def fingerprint(text: str | None) -> str:
    return hashlib.sha256((text or "").encode("utf-8", "surrogatepass")).hexdigest()[:16]


KIND = Recalled()
