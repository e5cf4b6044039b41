"""`access: {allowed, ask_first, off}`: what the agent may do, before the scenario's first change and after its cleanup."""

from __future__ import annotations

from collections.abc import Mapping

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.model.finding import Finding
from harness.model.location import Frozen
from harness.model.scenario import Level


class Params(Frozen):
    """Counts over the connection's active tools. `connection` may be left out when there is only one.

    `allowed` may be given by level where a vendor's own software lists other tools than its hosted endpoint; a replay counts as recorded.
    """

    allowed: int | Mapping[Level, int]
    ask_first: int = 0
    off: int = 0
    connection: str | None = None


class Access(Kind[Params]):
    id = "access"
    summary = "so many tools are allowed, ask first and off, both before the first change and after cleanup"
    params = Params
    needs = frozenset({"access"})
    scopes = frozenset({"run"})
    leg = "schema"

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        connection = params.connection or view.only_connection()
        level = view.recorded_at(connection)
        allowed = params.allowed if isinstance(params.allowed, int) else params.allowed.get(level)
        if allowed is None:
            return [self.finding(place, f"how many tools of {connection!r} are to be allowed at level {level} is not said", severity="error")]
        wanted = {"allowed": allowed, "ask_first": params.ask_first, "off": params.off}
        found = []
        for phase in ("before", "after"):
            reads = [c for c in view.controls("access", connection) if c.phase == phase]
            if not reads:
                found.append(self.finding(place, f"access of {connection!r} was not read {phase} the scenario", severity="error"))
                continue
            actual = {key: reads[-1].data.get(key) for key in wanted}
            if actual != wanted:
                found.append(
                    self.finding(
                        place,
                        f"access of {connection} {phase} the scenario is {actual}",
                        expected=wanted,
                        actual=actual,
                        fix="a scenario restores every permission it changes; a gateway shows what it enforces",
                    )
                )
        return found

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        counts = {"allowed": 11, "ask_first": 0, "off": 0}
        for scene in (good, bad):
            scene.control("access", counts, phase="before")
        good.control("access", counts, phase="after")
        bad.control("access", {"allowed": 10, "ask_first": 1, "off": 0}, phase="after")
        yaml = "access: {allowed: 11, ask_first: 0, off: 0}"
        return Specimen(yaml, good.view(), step=""), Specimen(yaml, bad.view(), step="")


KIND = Access()
