"""`relayed: WORD`: what a relay channel answered in this step: it declared the tools anew, or it refused."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import ITEM, Scene
from harness.expect.view import View
from harness.model.evidence import ControlRecord
from harness.model.finding import Finding
from harness.model.location import Frozen


class Params(Frozen):
    """`redeclared`: a new channel of the same session, with the tools that the run may see now, all of them and no others. `refused`:
    nothing came through. `without`: a tool, as the agent knows it, that was declared before and must not be any more."""

    is_: Literal["redeclared", "refused"]
    without: str | None = None

    model_config = Frozen.model_config | {"populate_by_name": True}

    @model_validator(mode="before")
    @classmethod
    def _spellings(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {"is_" if name in ("value", "is") else name: given for name, given in value.items()}
        return value


class Relayed(Kind[Params]):
    id = "relayed"
    summary = "the channel of a sandboxed agent was renewed with its tools declared anew, or refused"
    params = Params
    scopes = frozenset({"step"})
    leg = "schema"

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        told = [c.data for c in view.controls("relay") if c.step == place.step and isinstance(c.data, dict)]
        if not told:
            return [self.finding(place, "the step did nothing to a relay", severity="error", fix="use the verb relay")]
        if params.is_ == "redeclared" and not isinstance(told[-1].get("visible"), list):
            return [self.finding(place, "nothing is known of what the run may see", severity="error", fix="use it at relay: resume")]
        wrong = _not_refused(told[-1]) if params.is_ == "refused" else _not_redeclared(told[-1], params.without)
        if not wrong:
            return []
        fix = "a channel serves one run, and declares its tools when it opens"
        return [self.finding(place, wrong, expected=params.is_, actual=told[-1], fix=fix)]

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        for scene, data in (
            (good, {"what": "borrow", "refused": "channel_of_other_run", "tools": []}),
            (bad, {"what": "borrow", "refused": None, "welcome": {"session": "s2"}, "tools": ["mem0__add_memory"]}),
        ):
            scene.records.append(ControlRecord(item=ITEM, phase="steps", step="act", action="relay", seq=1, data=data))
        return Specimen("relayed: refused", good.view()), Specimen("relayed: refused", bad.view())


def _not_refused(told: dict[str, Any]) -> str:
    if told.get("welcome") or told.get("answered"):
        return f"the relay served the channel of another run ({told.get('what')})"
    return "" if told.get("refused") == "channel_of_other_run" else f"the channel did not refuse: {told.get('refused')!r}"


def _not_redeclared(told: dict[str, Any], without: str | None) -> str:
    welcome = told.get("welcome") or {}
    if not welcome:
        return f"the relay did not take the session back: {told.get('refused')!r}"
    if not welcome.get("replaces") or welcome.get("replaces") == welcome.get("session"):
        return "the new channel does not say which declaration it replaces"
    declared, visible, before = (set(told.get(name) or ()) for name in ("tools", "visible", "before"))
    if not declared:
        return "the new channel declared no tools"
    if extra := sorted(declared - visible):
        return f"the new channel declared what the run may not see now: {', '.join(extra[:5])}"
    unreadable = welcome.get("unreadable") or 0  # names that no model could spell are left out, and counted
    if len(lacking := sorted(visible - declared)) != unreadable:
        return f"the new channel did not declare all that the run may see now: {', '.join(lacking[:5])}"
    if without is not None and without not in before:
        return f"{without} was not declared before, so nothing shows that the declaration changed"
    return f"{without} is declared still" if without in declared else ""


KIND = Relayed()
