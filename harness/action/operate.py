"""`operate: OPERATION`: an operator sets a connection up, or does something to it. A refusal is an answer, for an expectation to judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, field_validator

from harness.action.base import Done, Leg, Stage, Verb
from harness.errors import UsageError
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.registry import suggest
from harness.target.setting import OPERATIONS, Told, setting

ACTIVE_AFTER = ("enter_credentials", "rotate", "reconnect", "set_state")
"""Operations after which the gateway may have another catalog."""
Key = Literal["good", "wrong", "new", "none"]


class Params(Frozen):
    """`connection`: whose, or `name` for one that the scenario does not declare. `with`: the request's body.

    `key` fills in the credentials: `good` (the provider's own), `wrong`, `new` (the provider gives out another and takes the old no more) or
    `none`. `kept`: the gallery is asked for with the tag of the copy that an earlier step got.
    """

    target: str
    connection: str | None = None
    name: str = ""
    with_: Mapping[str, Any] = Field(default_factory=dict, alias="with")
    key: Key | None = None
    url: str | None = None
    kept: bool = False

    @field_validator("target")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in OPERATIONS:
            raise ValueError(f"there is no operation {value!r}; {suggest(value, list(OPERATIONS))}")
        return value


class Operate(Verb[Params]):
    id = "operate"
    summary = "an operator sets a connection up, or does something to it"
    params = Params
    needs = frozenset({"setup"})
    example = "operate: enter_credentials\nconnection: mem0\nkey: wrong"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        leg = stage.leg(params.connection) if params.connection is not None else None
        body = dict(params.with_)
        if params.key is not None:
            body["values"] = values_for(leg, params.key, params.url)
        kept = _tag(stage) if params.kept else ""
        told = await setting(stage.target).operate(stage.tenant, params.target, params.name or (leg.name if leg else ""), body, kept=kept)
        if told.tag and told.status == 200:
            stage.kept[params.target] = told.tag
        stage.control("operate", {"operation": params.target, **told.record()}, phase=phase, step=step.id, connection=leg.name if leg else "")
        if leg is not None and not told.refused and params.target in ACTIVE_AFTER:
            catalog = await stage.target.catalog(stage.tenant, leg.name)
            stage.control("catalog", dict(catalog), phase=phase, step=step.id, connection=leg.name)
        return Done(answer=_captured(told))


def values_for(leg: Leg | None, key: Key, url: str | None) -> dict[str, str]:
    """Credential path to value, as an operator would enter them; `url` stands where the provider's address is one of them."""
    if leg is None or leg.request is None:
        raise UsageError("there is no connection whose credentials these could be", where="operate", fix="name it with connection:")
    if key == "none":
        return {}
    values = dict(leg.request.credentials)
    last = list(values)[-1]
    if url is not None:
        values[next(iter(values))] = url
    if key == "wrong":
        values[last] = f"wrong-{values[last]}"
    elif key == "new":
        if leg.reissue is None:
            raise UsageError("this provider gives out no other credential", where=leg.name, fix="use a scenario at level fake")
        values[last] = leg.reissue()
        leg.request = replace(leg.request, credentials=values)
        return {last: values[last]}
    return values


def _tag(stage: Stage) -> str:
    if "gallery" not in stage.kept:
        raise UsageError("nobody has a copy of the gallery yet", where="kept", fix="read the gallery in an earlier step")
    return stage.kept["gallery"]


def _captured(told: Told) -> Any:
    return told.body if isinstance(told.body, dict) else {"answer": told.body}


ACTION = Operate()
