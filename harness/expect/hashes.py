"""`hashes: {exact: [TOOL, …]}`: the schema hashes of these tools are the reviewed ones, to the last hexadecimal digit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from harness.expect.base import Kind, Place, Specimen
from harness.expect.no_drift import entry, inventory_of
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.inventory.canonical import NotCanonical, schema_hash
from harness.model.finding import Finding
from harness.model.location import Frozen


class Params(Frozen):
    """`exact`: tools whose hash must be reproduced; nothing is said about others. A stand-in's schemas are its own: use it at level local or live."""

    exact: tuple[str, ...] = Field(min_length=1)
    connection: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _not_bare(cls, value: Any) -> Any:
        if isinstance(value, dict) and "value" in value:
            raise ValueError("name the tools, such as {exact: [get_memory]}")
        return value


class Hashes(Kind[Params]):
    id = "hashes"
    summary = "gateway and agent show these tools with the very input schema that was reviewed, by its hash"
    params = Params
    needs = frozenset({"catalog"})
    scopes = frozenset({"run"})
    leg = "schema"

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        connection = params.connection or view.only_connection()
        inventory, catalog = view.inventory_of(connection), view.catalog(connection)
        if inventory is None or catalog is None:
            return [self.finding(place, f"{connection!r} has no inventory or no catalog to compare", severity="error", fix="see inventories/")]
        agreed = {record.name: record.schema_hash for record in inventory.tools}
        entries = {str(e["name"]): e for e in catalog.data.get("tools", []) if e.get("status") != "removed"}
        listed = seen_by_agent(view, connection)
        found: list[Finding] = []
        for tool in params.exact:
            if tool not in agreed:
                found.append(self.finding(place, f"the inventory has no tool {tool!r}", severity="error", fix="name reviewed tools only"))
                continue
            shown = {"the gateway's catalog": hash_in(entries.get(tool), "input_schema")}
            if tool in entries and "schema_hash" in entries[tool]:
                shown["the gateway's own word"] = str(entries[tool]["schema_hash"])
            if listed is not None:
                shown["the agent's list"] = hash_in(listed.get(tool), "inputSchema")
            found += self._compare(place, tool, agreed[tool], shown)
        return found

    def _compare(self, place: Place, tool: str, agreed: str, shown: Mapping[str, str]) -> list[Finding]:
        other = {where: actual for where, actual in shown.items() if actual != agreed}
        if not other:
            return []
        return [
            self.finding(
                place,
                f"the schema of {tool} is not the reviewed one in {', '.join(other)}",
                expected=agreed,
                actual=other,
                fix="review what the provider lists now; a gateway must pass schemas on as they came",
            )
        ]

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        shown = entry("get_memory")
        record = inventory_of("get_memory").tools[0].model_copy(update={"schema_hash": schema_hash(shown["input_schema"])})
        retitled = {**shown, "input_schema": {**shown["input_schema"], "title": "another text, so another hash"}}
        for scene, tool in ((good, shown), (bad, retitled)):
            scene.inventories["mem0"] = inventory_of("get_memory").model_copy(update={"tools": (record,)})
            scene.control("catalog", {"tools": [tool], "complete": True})
        yaml = "hashes: {exact: [get_memory]}"
        return Specimen(yaml, good.view(), step=""), Specimen(yaml, bad.view(), step="")


def hash_in(shown: Mapping[str, Any] | None, key: str) -> str:
    """Computed here from the schema as it is shown, never taken on anyone's word; else why there is none."""
    if shown is None:
        return "(no such tool)"
    try:
        return schema_hash(shown.get(key))
    except NotCanonical as problem:
        return f"(no canonical text: {problem.reason})"


def seen_by_agent(view: View, connection: str) -> Mapping[str, Mapping[str, Any]] | None:
    """Name → tool of the agent's newest listing; None when it never listed."""
    lists = [c for c in view.clients if c.method == "tools/list" and c.connection == connection and c.result is not None]
    return {str(t.get("name")): t for t in (lists[-1].result or {}).get("tools", [])} if lists else None


KIND = Hashes()
