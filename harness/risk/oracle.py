"""The harness's own opinion of a tool's risk: the reviewed table first, then hints and a conservative floor.

Built apart from any gateway's classifier, so that the two can be compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from harness.model.inventory import Inventory
from harness.model.risk import Risk, RiskVerdict, rank
from harness.model.tool import Tool
from harness.risk.words import CHANGE, DESTROY, LOOK, words

_SEPARATOR = re.compile(r"[\W_]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Oracle:
    """Holds the reviewed classes of every inventory given. Stateless otherwise."""

    def __init__(self, inventories: Mapping[str, Inventory]) -> None:
        self._reviewed: dict[tuple[str, str], Risk] = {
            (inventory.provider, record.name): record.risk for inventory in inventories.values() for record in inventory.tools
        }
        self._words = {(i.provider, record.name): _enums(record.shape) for i in inventories.values() for record in i.tools}

    def words(self, provider: str, tool: str) -> Mapping[str, tuple[str, ...]]:
        """Parameter → the words that its reviewed schema allows, where it allows only some."""
        return self._words.get((provider, tool), {})

    def judge(self, provider: str, tool: Tool) -> RiskVerdict:
        """The class of a tool as discovered."""
        return self.judge_name(provider, tool.name, tool.annotations)

    def judge_name(self, provider: str, name: str, annotations: Mapping[str, Any] | None = None) -> RiskVerdict:
        """A reviewed class stands, unless the tool itself now says it is destructive. Nothing ever lowers a class."""
        hints = annotations or {}
        dangerous = next((key for key in ("destructiveHint", "destructive") if hints.get(key) is True), None)
        reviewed = self._reviewed.get((provider, name))
        if reviewed is not None:
            if dangerous and rank(reviewed) < rank("destructive"):
                reason = f"reviewed as {reviewed}, but {dangerous} is true now"
                return RiskVerdict(provider=provider, tool=name, risk="destructive", basis="hint", reason=reason)
            return RiskVerdict(provider=provider, tool=name, risk=reviewed, basis="reviewed", reason=f"reviewed as {reviewed}")
        if dangerous:
            return RiskVerdict(provider=provider, tool=name, risk="destructive", basis="hint", reason=f"{dangerous} is true")
        return self._by_name(provider, name, hints)

    def _by_name(self, provider: str, name: str, hints: Mapping[str, Any]) -> RiskVerdict:
        def verdict(risk: Risk, basis: str, reason: str) -> RiskVerdict:
            return RiskVerdict.model_validate({"provider": provider, "tool": name, "risk": risk, "basis": basis, "reason": reason})

        found = words(name)
        for risk, lexicon in (("destructive", DESTROY), ("write", CHANGE)):
            if hit := next((word for word in found if word in lexicon), None):
                return verdict("destructive" if risk == "destructive" else "write", "name", f"the name says {hit!r}")
        if hints.get("readOnlyHint") is False or hints.get("writeHint") is True:
            return verdict("write", "hint", "a hint says that it writes")
        if looks := _plain_look(name):
            return verdict("read", "name", f"the name says {looks!r} and nothing that changes")
        return verdict("write", "floor", "nothing says that it only reads")


def _plain_look(name: str) -> str | None:
    """A looking word that stands alone beyond doubt: no digit, no acronym (`HTTPGet`), no foreign letter may lower the floor."""
    parts = [part for part in _SEPARATOR.split(name) if part.isascii() and part.isalpha()]
    return next((word.lower() for part in parts for word in _CAMEL.split(part) if word.lower() in LOOK), None)


def _enums(shape: Mapping[str, Any] | None) -> Mapping[str, tuple[str, ...]]:
    properties = (shape or {}).get("properties")
    if not isinstance(properties, Mapping):
        return {}
    lists = {name: schema.get("enum") for name, schema in properties.items() if isinstance(schema, Mapping)}
    return {name: tuple(word for word in words if isinstance(word, str)) for name, words in lists.items() if isinstance(words, list)}
