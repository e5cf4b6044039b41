"""`statement: supported | contradicted`: an agent's own word, held against client, audit and witness. The word itself proves nothing."""

from __future__ import annotations

from typing import Literal

from harness.expect.audit_table import name_of
from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.model.finding import Finding
from harness.model.location import Frozen

SUCCESSES = frozenset({"success", "approved_success"})


class Params(Frozen):
    """Stands at a `say:` step, which names the tool it speaks of."""

    value: Literal["supported", "contradicted"]


class Statement(Kind[Params]):
    id = "statement"
    summary = "what the agent says of its call is supported, or contradicted, by audit and witness together"
    params = Params
    scopes = frozenset({"step"})

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        record = view.steps.get(place.step)
        if record is None or not isinstance(record.args, dict):
            return self.no_call(place)
        tool, said = str(record.args.get("about", "")), record.said
        audited, witnessed = truth(view, tool, record.started_seq)
        if audited != witnessed:
            return [
                self.finding(
                    place,
                    f"audit and witness disagree about {tool}: audited {audited}, witnessed {witnessed}",
                    severity="error",
                    expected="agreement",
                    actual={"audited": audited, "witnessed": witnessed},
                )
            ]
        actual = "supported" if (said == "success") == audited else "contradicted"
        if actual == params.value:
            return []
        happened = "succeeded" if audited else "did not happen"
        return [
            self.finding(
                place,
                f"the agent says {said} of {tool}, which {happened}: {actual}",
                expected=params.value,
                actual=actual,
                fix="judge by audit and provider, never by what an agent reports",
            )
        ]

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        for scene, dispatched in ((good, 0), (bad, 1)):
            if dispatched:
                scene.call("add_memory", step="write", trail="success")
            step = scene.step("act", verb="say", said="success")
            scene.records[-1] = step.model_copy(update={"args": {"about": "mem0.add_memory"}})
        return Specimen("statement: contradicted", good.view()), Specimen("statement: contradicted", bad.view())


def truth(view: View, tool: str, before_seq: int) -> tuple[bool, bool]:
    """(the audit has a successful call of the tool, the witness saw one answered well) before the statement."""
    connection, _, name = tool.rpartition(".")
    calls = [c for c in view.clients if c.tool == name and c.started_seq < before_seq and connection in ("", c.connection)]
    audited = any(name_of(view.trail_of(c)) in SUCCESSES for c in calls)
    witnessed = any(
        d.exchange.tool == name and not d.exchange.is_error and d.exchange.outcome == "answered" and (d.exchange.status or 0) < 300
        for d in view.dispatches
        if d.exchange.started_seq < before_seq and connection in ("", d.connection)
    )
    return audited, witnessed


KIND = Statement()
