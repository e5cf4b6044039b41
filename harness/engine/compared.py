"""How many agreed tools each scenario compared, by what. Pure; one run's scenarios mostly see the same lists, and each is compared once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from harness.drift.compare import compare
from harness.expect.view import View
from harness.inventory.side import catalog_side, inventory_side
from harness.model.evidence import ControlRecord
from harness.model.inventory import Inventory

COMPARED = ("names", "parameters", "risk", "shape", "hash")
OWN = "own_"
"""Before an aspect: a bridge of ours was compared with what we ourselves wrote down of it."""


class Comparisons:
    """Those of one judgement. Two connections with the same inventory and the same catalog have the same counts."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], Mapping[str, int]] = {}

    def of(self, view: View) -> dict[str, int]:
        """By aspect; a provider that stands behind two connections counts once."""
        total: Counter[str] = Counter()
        once = {provider: connection for connection, provider in reversed(list(view.providers.items()))}
        for connection in once.values():
            inventory, catalog = view.inventory_of(connection), view.catalog(connection)
            if inventory is not None and catalog is not None:
                total.update(self._counts(view, inventory, catalog, connection))
        return dict(total)

    def _counts(self, view: View, inventory: Inventory, catalog: ControlRecord, connection: str) -> Mapping[str, int]:
        assumed = view.assumed_of(connection)
        # The inventory by its identity: a judgement parses each document once and keeps it.
        key = (str(id(inventory)), view.level, json.dumps(catalog.data, sort_keys=True, default=str), *sorted(assumed))
        if key not in self._known:
            complete = bool(catalog.data.get("complete", True))
            side = catalog_side("catalog", catalog.data.get("tools", []), complete=complete, assumed=assumed)
            report = compare(inventory_side(inventory), side, against="fake" if view.level == "fake" else "local")
            before = OWN if inventory.own else ""
            self._known[key] = {before + aspect: getattr(report, aspect).compared for aspect in COMPARED}
        return self._known[key]
