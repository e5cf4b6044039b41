"""`quarantined: {tools: […]}`: exactly these tools are held back, and the agent's list shows none of them."""

from __future__ import annotations

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.model.evidence import ControlRecord
from harness.model.finding import Finding
from harness.model.location import Frozen


class Params(Frozen):
    """At a step that reads the catalog (`refresh`, `review`): as it was then. On the run: the last reading before cleanup.

    `connection` may be left out when there is only one.
    """

    tools: tuple[str, ...]
    connection: str | None = None


class Quarantined(Kind[Params]):
    id = "quarantined"
    summary = "exactly these tools are held back for review, and no agent was shown one of them afterwards"
    params = Params
    needs = frozenset({"catalog", "quarantine"})
    leg = "schema"

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        connection = params.connection or view.only_connection()
        reads = [c for c in view.controls("catalog", connection) if c.phase != "after" and c.seq < view.cleanup_seq]
        if place.step:
            reads = [c for c in reads if c.step == place.step]
        if not reads:
            what = f"the catalog of {connection!r} was not read here"
            return [self.finding(place, what, severity="error", fix="put it at a `refresh` or `review`")]
        status = {str(e.get("name")): e.get("status") for e in reads[-1].data.get("tools", [])}
        held = {name for name, word in status.items() if word == "quarantined"}
        found = []
        if held != set(params.tools):
            found.append(
                self.finding(
                    place,
                    f"the tools of {connection} that are held back are not those expected",
                    expected=sorted(params.tools),
                    actual={"held back": sorted(held), "missing": {name: status.get(name) for name in sorted(set(params.tools) - held)}},
                    fix="whatever differs from the reviewed form in anything at all waits for review, and nothing else does",
                )
            )
        shown = sorted(shown_after(view, connection, reads[-1]) & set(params.tools))
        if shown:
            found.append(self.finding(place, f"the agent was shown tools that are held back: {', '.join(shown)}", expected=[], actual=shown))
        return found

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        for scene, word in ((good, "quarantined"), (bad, "active")):
            scene.control("catalog", {"tools": [{"name": "a", "status": "active"}, {"name": "b", "status": word}], "complete": True}, phase="steps")
        yaml = "quarantined: {tools: [b]}"
        return Specimen(yaml, good.view(), step=""), Specimen(yaml, bad.view(), step="")


def shown_after(view: View, connection: str, read: ControlRecord) -> set[str]:
    """Names in the agent's first listing after this reading, unless the catalog was read again before it."""
    later = [c.seq for c in view.controls("catalog", connection) if c.seq > read.seq]
    until = min(later, default=view.cleanup_seq)
    for client in view.clients:
        if client.method == "tools/list" and client.connection == connection and read.seq < client.started_seq < until:
            return {str(tool.get("name")) for tool in (client.result or {}).get("tools", [])}
    return set()


KIND = Quarantined()
