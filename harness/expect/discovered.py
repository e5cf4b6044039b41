"""`discovered: N`: the gateway's catalog, what the agent sees and what the provider listed are the same N tools."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.model.finding import Finding
from harness.model.location import Frozen


class Params(Frozen):
    """`tools`: how many. Bridges list nothing at the provider, so there only catalog and agent are compared."""

    tools: int
    connection: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return {"tools": value["value"]} if isinstance(value, dict) and set(value) == {"value"} else value


class Discovered(Kind[Params]):
    id = "discovered"
    summary = "provider, gateway and agent agree on which tools there are, and the list is complete"
    params = Params
    needs = frozenset({"catalog"})
    scopes = frozenset({"run"})
    leg = "schema"

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        connection = params.connection or view.only_connection()
        catalog = view.catalog(connection)
        if catalog is None:
            return [self.finding(place, f"the catalog of {connection!r} was not read", severity="error")]
        if not catalog.data.get("complete", True):
            return [self.finding(place, "the gateway's list is incomplete", severity="error", rule="list-incomplete")]
        known = {str(e["name"]) for e in catalog.data.get("tools", []) if e.get("status") == "active"}
        found = []
        if len(known) != params.tools:
            found.append(self.finding(place, f"the catalog of {connection} has {len(known)} active tools", expected=params.tools, actual=len(known)))
        found += self._differ(place, "the agent", agent_tools(view, connection), known)
        if not view.operations(connection):
            found += self._differ(place, "the provider", provider_tools(view, connection), known)
            if stopped_early(view, connection):
                fix = "read every page; only an absent or null cursor ends the list"
                found.append(self.finding(place, "the gateway stopped listing while the provider had more pages", fix=fix))
        return found

    def _differ(self, place: Place, who: str, seen: set[str] | None, known: set[str]) -> list[Finding]:
        if seen is None:
            return [self.finding(place, f"{who}'s list was not seen whole", severity="error", fix="add a `discover:` step")]
        if seen == known:
            return []
        return [
            self.finding(
                place,
                f"{who} and the gateway's catalog disagree about the tools",
                expected=sorted(seen - known) or sorted(known - seen),
                actual={"missing in the catalog": sorted(seen - known), f"missing for {who}": sorted(known - seen)},
                fix="a dropped page, a stale catalog or a hidden tool",
            )
        ]

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        for scene, names in ((good, ("a", "b")), (bad, ("a",))):
            scene.listing(("a", "b"))
            scene.control("catalog", {"tools": [{"name": n, "status": "active"} for n in names], "complete": True})
        return Specimen("discovered: 2", good.view(), step=""), Specimen("discovered: 2", bad.view(), step="")


def agent_tools(view: View, connection: str) -> set[str] | None:
    """Names in the agent's last listing, or None without a complete one."""
    lists = [c for c in view.clients if c.method == "tools/list" and c.connection == connection]
    if not lists or lists[-1].result is None or not lists[-1].result.get("complete"):
        return None
    return {str(t.get("name")) for t in lists[-1].result.get("tools", [])}


def provider_pages(view: View, connection: str) -> list[Any]:
    """Bodies of the pages of the newest discovery that the witness saw; a page without nextCursor ends a discovery."""
    pages = [e.result for c, e in view.exchanges if c == connection and e.rpc_method == "tools/list"]
    ends = [n for n, page in enumerate(pages) if isinstance(page, dict) and page.get("nextCursor") is None]
    if not ends:
        return pages
    if ends[-1] != len(pages) - 1:
        return pages[ends[-1] + 1 :]
    return pages[ends[-2] + 1 if len(ends) > 1 else 0 :]


def provider_tools(view: View, connection: str) -> set[str] | None:
    """Names over those pages, or None if a page's body was not kept."""
    pages = provider_pages(view, connection)
    if not pages or any(not isinstance(page, dict) for page in pages):
        return None
    return {str(t.get("name")) for page in pages for t in page.get("tools", [])}


def stopped_early(view: View, connection: str) -> bool:
    """True when the last page the gateway asked for said that there is more."""
    pages = provider_pages(view, connection)
    return bool(pages) and isinstance(pages[-1], dict) and pages[-1].get("nextCursor") is not None


KIND = Discovered()
