"""`nothing_else: true`: no call, dispatch or record beyond those of the scenario's own steps."""

from __future__ import annotations

from harness.expect.audit_table import name_of, spell
from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.model.finding import Finding
from harness.model.location import Frozen, Yes


class Params(Frozen):
    value: Yes


class NothingElse(Kind[Params]):
    id = "nothing_else"
    summary = "every dispatch and every audited call belongs to a step of the scenario, and every call of a step is audited"
    params = Params
    scopes = frozenset({"run"})

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        found = []
        for dispatch in view.dispatches:
            if dispatch.caller is None:
                exchange = dispatch.exchange
                found.append(
                    self.finding(
                        place,
                        f"the provider received a call of {exchange.tool} on {dispatch.connection} that no step made",
                        expected="only the scenario's own calls",
                        actual={"tool": exchange.tool, "arguments_digest": exchange.arguments_digest, "seq": exchange.started_seq},
                    )
                )
        if view.item is not None and view.item.two_witness:
            return found  # no audit to compare with: client and witness are all there is, and the verdict says so
        calls = [c for c in view.clients if c.method == "tools/call"]
        known = {id(view.trail_of(call)) for call in calls}
        for key, trail in view.trails.items():
            if key in view.cleanup_invocations or id(trail) in known:
                continue
            word = name_of(trail) or ", ".join(spell(r) for r in trail)
            found.append(self.finding(place, f"the audit holds a call of {trail[0].get('tool')} that no step made ({word})", actual=word))
        unaudited = [call for call in calls if not view.trail_of(call)]
        for_each = "the call of {} in step {!r} is not in the audit"
        found += [self.finding(place, for_each.format(c.tool, c.step), expected="a trail", actual="nothing") for c in unaudited]
        return found

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        good.call(trail="success")
        bad.call(trail="success")
        bad.dispatch("delete_all_memories", {})
        return Specimen("nothing_else: true", good.view(), step=""), Specimen("nothing_else: true", bad.view(), step="")


KIND = NothingElse()
