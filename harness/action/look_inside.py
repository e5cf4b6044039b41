"""`look_inside: CONNECTION`: what the process of a local server was given, by the system's own word and not the gateway's."""

from __future__ import annotations

from pathlib import Path

from harness.action.base import Done, Stage, Verb
from harness.action.crash import process_of
from harness.errors import HarnessError
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.setting import setting
from harness.target.stand_in import KEY_PATH, URL_PATH

ALLOWED = frozenset({"PATH", "LANG", "HOME"})


class Params(Frozen):
    target: str


class LookInside(Verb[Params]):
    id = "look_inside"
    summary = "the environment of a local server's process is read from the system"
    params = Params
    needs = frozenset({"setup"})
    example = "look_inside: mem0"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        leg = stage.leg(params.target)
        pid = await process_of(setting(stage.target), stage.tenant, leg.name)
        try:
            raw = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError as error:
            raise HarnessError(f"the environment of process {pid} cannot be read: {error.strerror}", where=leg.name, fix="run as its user") from None
        given = dict(entry.decode("utf-8", "replace").partition("=")[::2] for entry in raw.split(b"\0") if entry)
        own = {URL_PATH.partition(".")[2], KEY_PATH.partition(".")[2]}
        # Names only: the values are what must not be told.
        found = {"own": sorted(own & set(given)), "foreign": sorted(set(given) - own - ALLOWED)}
        stage.control("look_inside", found, phase=phase, step=step.id, connection=leg.name)
        return Done(answer=found)


ACTION = LookInside()
