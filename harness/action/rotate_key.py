"""`rotate_key: vault`: the vault's wrapping key is changed while the gateway runs."""

from __future__ import annotations

from typing import Literal

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.outer import outer


class Params(Frozen):
    target: Literal["vault"]


class RotateKey(Verb[Params]):
    id = "rotate_key"
    summary = "the vault's wrapping key is changed while the gateway runs"
    params = Params
    mutates = True
    needs = frozenset({"credentials"})
    example = "rotate_key: vault"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        answer = await outer(stage.target).rotate_key()
        stage.control("rotate_key", dict(answer), phase=phase, step=step.id)
        return Done(answer=dict(answer))


ACTION = RotateKey()
