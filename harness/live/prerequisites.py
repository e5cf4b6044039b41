"""What a scenario needs before it may run live: judged from the scenario alone, before anything is started.

Each reason begins with its kind: `credentials` and `consent` are exit code 3, `foreign` is 2, `live` and `rehearsal` are 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.live.endpoint import wants
from harness.live.options import LiveOptions
from harness.model.manifest import Manifest
from harness.model.scenario import ConnectionSpec, ConsentSpec, Scenario, Step
from harness.risk.oracle import Oracle
from harness.scenario.variables import references

RUN_MADE = frozenset({"run.id", "nonce"})


def lacking(scenario: Scenario, manifests: Mapping[str, Manifest], oracle: Oracle, options: LiveOptions) -> tuple[str, ...]:
    """Every reason why this scenario may not run live, in order of its connections and steps."""
    used: dict[str, str] = {}
    found: list[str] = []
    for name, spec in scenario.connections.items():
        provider = spec.provider or name
        manifest = manifests.get(provider)
        if manifest is None:
            continue
        if (lack := wants(manifest, options)) and lack not in found:
            found.append(lack)
        found += consents(name, spec)
        if provider in used:
            found.append(f"live: {used[provider]} and {name} would need two accounts at {provider}, and a live run has one")
        elif manifest.auth.scheme == "oauth" and name != provider:
            found.append(f"live: the signed-in connection is called {provider}, and the scenario calls it {name}")
        used.setdefault(provider, name)
    if scenario.private_bench:
        found.append("live: the scenario moves time or breaks its provider, which nobody can ask of a hosted one")
    return (*found, *touching(scenario, manifests, oracle, options))


def consents(name: str, spec: ConnectionSpec) -> list[str]:
    if spec.consent == ConsentSpec():
        return []
    wanted = ", ".join(f"{k} {v}" for k, v in spec.consent.model_dump().items() if v is not None)
    return [f"consent: {name} needs a credential that was granted exactly {wanted}, which cannot be arranged from here"]


def touching(scenario: Scenario, manifests: Mapping[str, Manifest], oracle: Oracle, options: LiveOptions) -> Iterator[str]:
    """Writes that nobody allowed, and destructive calls that could hit what the run did not make."""
    for step in (*scenario.steps, *scenario.cleanup):
        provider, tool = called(scenario, step)
        if not tool:
            continue
        risk = oracle.judge_name(provider, tool).risk
        if risk != "read" and not options.allow_write:
            yield f"consent: step {step.id!r} calls {provider}.{tool} ({risk}); add --allow-write ({step.location})"
        if risk == "destructive":
            yield from (f"foreign: step {step.id!r}: {why} ({step.location})" for why in strangers(scenario, step, provider, tool, oracle))
        elif risk == "write":
            yield from (f"foreign: step {step.id!r}: {why} ({step.location})" for why in elsewhere(scenario, step, tool, manifests.get(provider)))


def called(scenario: Scenario, step: Step) -> tuple[str, str]:
    """(provider, tool) of a step that calls one by name, else ("", "")."""
    if step.verb not in ("call", "say") or not isinstance(step.target, str):
        return "", ""
    connection, dot, tool = step.target.partition(".")
    if not dot or connection not in scenario.connections:
        if len(scenario.connections) != 1:
            return "", ""
        connection, tool = next(iter(scenario.connections)), step.target
    return scenario.connections[connection].provider or connection, tool


def strangers(scenario: Scenario, step: Step, provider: str, tool: str, oracle: Oracle) -> Iterator[str]:
    """Arguments of a destructive call that do not come from this run: literals, and variables made of nothing but literals."""
    arguments = step.args.get("with") or {}
    words = oracle.words(provider, tool)
    own = False
    for key, value in arguments.items():
        if value is True:
            yield f"{tool} is destructive, and {key}: true would widen what it hits"
        elif isinstance(value, str) and value in words.get(key, ()):
            continue
        elif isinstance(value, str | list | tuple | dict) and value:
            if made_here(value, scenario):
                own = True
            else:
                yield f"{tool} is destructive, and {key} names something that this run did not make"
    if not own:
        yield f"{tool} is destructive, and nothing in its arguments says that it is about this run's own data"


def elsewhere(scenario: Scenario, step: Step, tool: str, manifest: Manifest | None) -> Iterator[str]:
    """Arguments of a write that name a place, and name one that this run did not make."""
    arguments = step.args.get("with") or {}
    named = {name for thing in (manifest.live.things if manifest else ()) if thing.made_by == tool for name in thing.name}
    for key in sorted(named & set(arguments)):
        if not made_here(arguments[key], scenario):
            yield f"{tool} would write where {key} says, which this run did not make"


def made_here(value: Any, scenario: Scenario) -> bool:
    """True when every text in it rests on the run's own id or nonce, or on what a step of the scenario captured."""
    if isinstance(value, Mapping):
        return all(made_here(item, scenario) for item in value.values())
    if isinstance(value, list | tuple):
        return all(made_here(item, scenario) for item in value)
    if not isinstance(value, str):
        return True
    names = references(value)
    return any(name in RUN_MADE or "." in name or (name in scenario.let and made_here(scenario.let[name], scenario)) for name in names)
