"""`authorization_server: CONNECTION`: what stands behind the provider's consent behaves otherwise from now on, and tells how it was asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from harness.action.base import Done, Stage, Verb
from harness.action.consent import server_of
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step


class Params(Frozen):
    """`with`: settings to change (docs/language.md). `withdraw`: the person takes back every consent. The answer counts what it was asked so far."""

    target: str
    with_: Mapping[str, Any] = Field(default_factory=dict, alias="with")
    withdraw: bool = False


class AuthorizationServerVerb(Verb[Params]):
    id = "authorization_server"
    summary = "the stand-in of an authorization server behaves otherwise, and tells how it was asked"
    params = Params
    needs = frozenset({"setup"})
    example = "authorization_server: zep\nwith: {person: refuses}"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        leg = stage.leg(params.target)
        server = server_of(leg)
        server.behaviour = server.behaviour.changed(params.with_)
        if params.withdraw:
            server.withdraw()
        grants = [each.get("grant") for each in server.seen if each["at"] == "token"]
        answer = {
            "exchanges": grants.count("authorization_code"),
            "renewals": grants.count("refresh_token"),
            "registrations": sum(each["at"] == "registration" for each in server.seen),
            "last": next((each for each in reversed(server.seen) if each["at"] == "token"), None),
        }
        data = {"operation": "authorization_server", "http": 0, "refused": "", "answer": answer}
        stage.control("operate", data, phase=phase, step=step.id, connection=leg.name)
        return Done(answer=answer)


ACTION = AuthorizationServerVerb()
