"""`search_secrets: gateway`: everything that the gateway wrote down, and what its processes were told, is searched for the run's credentials."""

from __future__ import annotations

from typing import Literal

from harness.action.base import Done, Stage, Verb
from harness.cassette.hunt import ENCODINGS, hunt, planted
from harness.errors import Untestable
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.outer import outer


class Params(Frozen):
    target: Literal["gateway"]


class SearchSecrets(Verb[Params]):
    id = "search_secrets"
    summary = "the gateway's store, write-ahead log, log, command lines and environments are searched for the run's credentials, in every encoding"
    params = Params
    mutates = True
    needs = frozenset({"credentials"})
    example = "search_secrets: gateway"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        secrets, traces = dict(stage.secrets()), outer(stage.target).traces()
        if not secrets or not any(traces.values()):
            fix = "use a connection with a credential"
            raise Untestable("there is nothing to search, or nothing to search for", where=str(step.location), fix=fix)
        # The search must find what is there, in each encoding, beneath the very streams that it looks at.
        canary = "canary-5f0c/19+7d&=" + stage.tenant
        leaks = planted(canary)
        under = hunt({"": b"\n".join([*traces.values(), *leaks.values()])}, {"": canary})
        noticed = {hit.encoding for hit in under} | {name for name in ("gzip", "reversed") if hunt({"": leaks[name]}, {"": canary})}
        hits = [{"secret": f"{hit.secret} ({hit.encoding})", "place": hit.stream} for hit in hunt(traces, secrets)]
        data = {
            "places": {name: len(content) for name, content in sorted(traces.items())},
            "secrets": len(secrets),
            "found": hits,
            "missed": sorted(set(ENCODINGS) - noticed),
        }
        stage.control("search_secrets", data, phase=phase, step=step.id)
        return Done(answer=data)


ACTION = SearchSecrets()
