"""From a selection to plan items: scenario × level × target × protocol, with what is missing named before anything starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import harness.target
from harness.clock import SystemClock
from harness.engine.tapes import Tapes, unusable
from harness.engine.vocabulary import load_vocabulary, manifests, manifests_for
from harness.errors import Incomplete, UsageError
from harness.fake.kit import providers as stand_ins
from harness.inventory.store import load_inventories
from harness.live.options import LiveOptions
from harness.live.prerequisites import lacking as live_lacking
from harness.local.by_manifest import server_of
from harness.model.manifest import Manifest
from harness.model.plan import Plan, PlanItem
from harness.model.scenario import LEVELS, PROTOCOLS, Level, Scenario
from harness.registry import Registry, discover_plugins, suggest
from harness.risk.oracle import Oracle
from harness.scenario.files import data_root, inventories_folder
from harness.scenario.load import load_scenarios
from harness.scenario.select import Selection, select, sources
from harness.target.base import ABILITIES, Target


def targets() -> Registry[Target]:
    return discover_plugins(harness.target, "TARGET", "target", "harness.target")


def target_for(word: str) -> Target:
    """The target of `--target ID` or `--target ID=VALUE`. Raises UsageError for an unknown id or a value that it does not take."""
    name, given, value = word.partition("=")
    found = targets().need(name, where="--target")
    return found.given(value) if given else found


def every_scenario(root: Path | None = None, paths: Sequence[Path] = ()) -> tuple[Scenario, ...]:
    """All scenario files, the shipped ones unless `paths` are given. One invalid file among them and nothing is run (exit 2)."""
    home = root or data_root()
    return load_scenarios(list(paths) or [home / "scenarios"], load_vocabulary(home, paths))


def make_plan(
    wanted: Sequence[str],
    *,
    level: str = "fake",
    target: str = "reference",
    protocol: str | None = None,
    providers: Sequence[str] = (),
    paths: Sequence[Path] = (),
    live: LiveOptions | None = None,
    tapes: Tapes | None = None,
) -> Plan:
    """`live`: what a plan of level live was allowed. `tapes`: the recordings of a plan of level replayed, the shipped ones by default.

    Raises UsageError or LoadErrors (2), Incomplete when nothing is selected (5)."""
    if level not in LEVELS:
        raise UsageError(f"unknown level {level!r}", where="--level", fix=suggest(level, list(LEVELS)))
    if protocol not in (None, "all", *PROTOCOLS):
        raise UsageError(f"unknown protocol {protocol!r}", where="--protocol", fix=suggest(str(protocol), ["all", *PROTOCOLS]))
    subject = target_for(target)  # once: asking what is installed costs as much as reading a scenario
    among = paths or sources(wanted, data_root() / "scenarios")
    known = manifests_for(among)
    for name in providers:
        if name not in known:
            raise UsageError(f"unknown provider {name!r}", where="--provider", fix=suggest(name, list(known)))
    found = select(every_scenario(paths=among), wanted or [str(p.absolute()) for p in paths])
    chosen = tuple(s for s in found.scenarios if not providers or set(providers) & set(providers_of(s)))
    if not chosen or found.idle:
        raise nothing_selected(found, wanted)
    the_level: Level = next(lv for lv in LEVELS if lv == level)
    if the_level == "live":
        live = live or LiveOptions()
        oracle = Oracle(load_inventories(inventories_folder()))
        return Plan(items=tuple(item for s in chosen for item in live_items_of(s, live, oracle, target, protocol)))
    items = tuple(item for s in chosen for item in items_of(s, the_level, target, protocol, subject))
    return Plan(items=replayable(items, tapes or Tapes()) if the_level == "replayed" else items)


def replayable(items: tuple[PlanItem, ...], tapes: Tapes) -> tuple[PlanItem, ...]:
    """What is wrong with the recording of each, or that there is none, stands in the item."""
    inventories, now = load_inventories(inventories_folder()), SystemClock().now()
    return tuple(
        item
        if item.not_applicable
        else item.model_copy(update={"missing": item.missing + unusable(item.scenario, item.protocol, tapes, inventories, now)})
        for item in items
    )


def nothing_selected(found: Selection, wanted: Sequence[str]) -> Incomplete:
    idle = ", ".join(found.idle) or " ".join(wanted) or "SELECT"
    return Incomplete(f"nothing is selected by {idle}", where="SELECT", fix="`harness list` shows what there is; nothing selected is never a pass")


def providers_of(scenario: Scenario) -> tuple[str, ...]:
    return tuple(spec.provider or name for name, spec in scenario.connections.items())


def items_of(scenario: Scenario, level: Level, target: str, protocol: str | None, subject: Target | None = None) -> list[PlanItem]:
    """`subject`: the target of that name, where it is known already."""
    protocols = PROTOCOLS if protocol == "all" else (protocol,) if protocol else scenario.protocols
    known = manifests_for([scenario.file])
    missing = tuple(filter(None, (unavailable(p, level, known) for p in providers_of(scenario))))
    reason = not_applicable(scenario, level, target)
    subject = subject or target_for(target)
    return [
        PlanItem(
            scenario=scenario,
            level=level,
            target=target,
            protocol=p,
            missing=() if reason else missing,
            lacking=tuple(sorted(ABILITIES - subject.abilities)),
            untestable=() if reason else tuple(out_of_reach(scenario, subject, p)),
            not_applicable=reason,
        )
        for p in protocols
    ]


def live_items_of(scenario: Scenario, live: LiveOptions, oracle: Oracle, target: str, protocol: str | None) -> list[PlanItem]:
    """What is missing for a live run stands in the items; a rehearsed one is planned as live and says fake."""
    reasons = live_lacking(scenario, manifests_for([scenario.file]), oracle, live)
    found = items_of(scenario, "live", target, protocol)
    lacks = "" if "mapped" in target_for(target).abilities else "mapped: the provider must be reached under its real name"
    return [
        item.model_copy(
            update={
                "missing": () if item.not_applicable else reasons,
                "untestable": item.untestable or ((lacks,) if lacks and not item.not_applicable else ()),
                "level": "fake" if live.rehearsed else "live",
                "rehearsed": live.rehearsed,
            }
        )
        for item in found
    ]


def out_of_reach(scenario: Scenario, target: Target, protocol: str) -> Iterator[str]:
    """What the scenario's connections need and the target has not: "ability: what for"."""
    if protocol not in target.protocols:
        yield f"protocol: {target.id} does not speak {protocol}, only {', '.join(target.protocols)}"
    needed: dict[str, str] = {}
    if len(scenario.connections) > 1:
        needed["several"] = f"the agent needs {', '.join(scenario.connections)} in one session"
    for name, spec in scenario.connections.items():
        manifest = manifests_for([scenario.file]).get(spec.provider or name)
        if spec.permissions:
            needed.setdefault("permissions", ", ".join(f"{name}.{tool} is to be {word}" for tool, word in spec.permissions.items()))
        if spec.quarantine:
            needed.setdefault("quarantine", f"{name} is to be quarantined")
        if spec.setup == "draft" or spec.transport == "local":
            needed.setdefault("setup", f"{name} is to be set up step by step" if spec.setup == "draft" else f"{name} is to be a local server")
        if manifest is not None and manifest.transport != "mcp_http":
            needed.setdefault("bridges", f"{name} has no MCP endpoint")
        if manifest is not None and manifest.mount == "mapped":
            needed.setdefault("mapped", f"{name} must be reached under its real name")
    yield from (f"{ability}: {why}" for ability, why in needed.items() if ability not in target.abilities)


def unavailable(provider: str, level: Level, known: Mapping[str, Manifest] | None = None) -> str:
    """Why `provider` cannot be had at `level` here, or "". `known`: the manifests at hand, else those that are shipped."""
    if level == "fake":
        return "" if provider in stand_ins() else f"there is no stand-in for {provider}"
    if level == "local":
        manifest = (manifests(data_root()) if known is None else known).get(provider)
        server = server_of(manifest) if manifest is not None else None
        if server is None:
            return f"{provider} has no server of its own that runs on this machine"
        reason = server.missing()
        return reason if reason.startswith("credentials: ") else f"{provider}: {reason}" if reason else ""
    if level in ("live", "replayed"):
        return ""  # said by the plan of a live run, which knows what it was allowed, or of a replay, which knows its recordings
    return f"{provider} is not available at level {level} in this version"


def not_applicable(scenario: Scenario, level: Level, target: str) -> str:
    when = scenario.when
    if when.level is not None and level not in when.level:
        return f"the scenario applies at level {', '.join(when.level)} only"
    if when.target is not None and target.partition("=")[0] not in when.target:
        return f"the scenario applies to target {', '.join(when.target)} only"
    return ""
