"""Cassettes in a run: what a replay is bound to and answers with, and what a recording leaves behind."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import harness
from harness.cassette.format import Header, RecordMode
from harness.cassette.seal import Draft, seal
from harness.cassette.shelf import Shelf
from harness.cassette.store import cassette_path, write_whole
from harness.engine.legs import LegSource
from harness.errors import HarnessError, Incomplete, UsageError
from harness.model.digest import json_digest
from harness.model.evidence import ControlRecord, NoteRecord, Recorded, Trouble
from harness.model.inventory import Inventory
from harness.model.manifest import Manifest
from harness.model.scenario import Scenario
from harness.scenario.files import cassettes_folder, shown
from harness.scenario.variables import Bindings
from harness.tap.mount import Mount
from harness.tap.record import Recorder
from harness.tap.replay import Player

if TYPE_CHECKING:
    from harness.engine.item import ItemRun

LAST_WORD_S = 1.0
"""Real seconds that a gateway gets to end its session with the provider after its tenant was closed; a watchdog, not a judgement."""


@dataclass(frozen=True, slots=True)
class Tapes:
    """One per run (per worker under pytest). `record`: none, new (what has no cassette yet) or all."""

    folder: Path = field(default_factory=cassettes_folder)
    record: RecordMode = "none"
    hash_prose: bool = False
    shelf: Shelf = field(default_factory=Shelf)

    def path(self, scenario: Scenario, name: str) -> Path:
        """Raises UsageError for a name that would lead out of the folder."""
        return cassette_path(self.folder, scenario.connections[name].provider or name, scenario.id, name)

    def headers(self, scenario: Scenario) -> dict[str, Header]:
        """By connection. Raises BadCassette or UsageError."""
        return {name: self.shelf.header(self.path(scenario, name)) for name in scenario.connections}

    def records(self, scenario: Scenario, name: str) -> bool:
        return self.record == "all" or (self.record == "new" and not self.path(scenario, name).exists())


# ---- before a run


def unusable(scenario: Scenario, protocol: str, tapes: Tapes, inventories: Mapping[str, Inventory], now: datetime) -> tuple[str, ...]:
    """Why the scenario's recordings cannot be replayed here and now; empty when they can."""
    found = []
    for name in scenario.connections:
        try:
            path = tapes.path(scenario, name)
            header = tapes.shelf.header(path)
        except HarnessError as error:
            # a path that leads out of the folder is told as it is: what it leads to is not what is wrong
            at = error.where if isinstance(error, UsageError) else error.where and shown(Path(error.where.partition(":")[0]))
            found.append(f"no recording of {name}: {at}: {error.what}; {error.fix}")
            continue
        found += [f"{shown(path)}: {why}" for why in _unfit(header, scenario, name, protocol, inventories, now)]
    return tuple(found)


def _unfit(header: Header, scenario: Scenario, name: str, protocol: str, inventories: Mapping[str, Inventory], now: datetime) -> Iterable[str]:
    again = "record it again with --record all"
    provider = scenario.connections[name].provider or name
    if (header.provider, header.scenario, header.connection) != (provider, scenario.id, name):
        yield f"it is the recording of {header.provider}/{header.scenario}; {again}"
    if header.expired(now):
        yield f"the recording expired on {header.expires} (recorded at: {header.recorded_at}, on {header.day}); {again}"
    present = inventory_hash(inventories.get(provider))
    if header.inventory != present:
        then, by = header.inventory[:12] or "none", present[:12] or "none"
        yield f"it was recorded against another inventory of {provider} ({then}, now {by}); {again}"
    if header.pin == "auto" and (header.agent_protocol == "2026-07-28") != (protocol == "2026-07-28"):
        yield f"it was recorded for an agent that speaks {header.agent_protocol}, and the gateway converted; {again} and --protocol {protocol}"


def inventory_hash(inventory: Inventory | None) -> str:
    """Over what was agreed of each tool: a comment or another order of the file does not change it. "" when nothing was agreed."""
    if inventory is None:
        return ""
    return json_digest({tool.name: [tool.schema_hash, str(tool.risk), tool.status, sorted(tool.parameters)] for tool in inventory.tools})


# ---- while an item runs


def bound(run: ItemRun, nonce: str) -> tuple[Bindings, Trouble | None]:
    """The scenario's values, and the trouble of a recording that does not fit."""
    try:
        return _values(run, nonce), None
    except HarnessError as error:
        return Bindings({"run.id": "", "nonce": ""}), _trouble(error)


def _values(run: ItemRun, nonce: str) -> Bindings:
    """Fresh ones, or in a replay those that were recorded. They are never put into recorded answers."""
    scenario = run.item.scenario
    if run.item.level != "replayed" or not run.item.runnable:
        return Bindings.start(scenario.let, run_id=f"{run.run_id}-{nonce}", nonce=nonce)
    headers = run.tapes.headers(scenario)
    values = [header.values for header in headers.values()]
    first = values[0] if values else {}
    found = Bindings.start(scenario.let, run_id=str(first.get("run.id", "")), nonce=str(first.get("nonce", "")))
    for name, header in headers.items():
        if dict(header.values) != dict(found.values):
            raise Incomplete(
                f"the recording of {name} was made with other values than this scenario has now, or not in the same run as the others",
                where=shown(run.tapes.path(scenario, name)),
                fix="record it again with --record all",
            )
    return found


def source_of(run: ItemRun, name: str, provider: str) -> LegSource | None:
    """The provider as this item reaches it; for a replay with what its recording says of path, version and level."""
    source = run.bench.sources.get(provider)
    if source is None or run.item.level != "replayed" or not run.item.runnable:
        return source
    header = run.tapes.headers(run.item.scenario)[name]
    return replace(source, path=header.path, pinned=header.pin, schema_level=header.leg("schema"), memory_level=header.leg("memory"))


def recorded_by(run: ItemRun) -> tuple[Recorded, ...]:
    if run.item.level != "replayed" or not run.item.runnable:
        return ()
    return tuple(
        Recorded(
            connection=name,
            file=shown(run.tapes.path(run.item.scenario, name)),
            level=header.recorded_at,
            on=header.recorded_on,
            expires=header.expires,
            server=" ".join(filter(None, (header.server.name, header.server.version))),
            simulated_backend=header.simulated_backend,
            prose=header.redaction.prose,
        )
        for name, header in run.tapes.headers(run.item.scenario).items()
    )


def thread(run: ItemRun, name: str, mount: Mount) -> None:
    """Put a player or a recorder at the mount, as the run asks."""
    tapes, scenario = run.tapes, run.item.scenario
    if run.item.level == "replayed":
        mount.player = Player(tapes.shelf.cassette(tapes.path(scenario, name)), run.log.redactor.clean, mount.url)
    elif tapes.records(scenario, name):
        mount.recorder = Recorder()


def played_out(mount: Mount, tool: str) -> bool:
    """Whether a replay has no further answer of this tool: asking again would only ask for what was never recorded."""
    return mount.player is not None and all(one.tool != tool for one in mount.player.unused(mount.operations))


async def unthread(run: ItemRun, trouble: Trouble | None) -> Trouble | None:
    """After the tenant is closed: say what a replay did not use, and write what was recorded. Answers the trouble of that, if any."""
    for name, leg in run.legs.items():
        if leg.mount.player is not None:
            await _ended(leg.mount)
            _read_back(run, name, leg.mount, leg.mount.player)
        elif leg.mount.recorder is not None:
            await _ended(leg.mount)
            if trouble is not None:
                run.emit(NoteRecord(item=run.item.id, text=f"{name}: not recorded, because the scenario broke off"))
                continue
            try:
                run.emit(_kept(run, name, leg.mount, leg.mount.recorder))
            except HarnessError as error:
                trouble = _trouble(error)
    return trouble


def _trouble(error: HarnessError) -> Trouble:
    return Trouble(type=type(error).__name__, what=error.what, where=error.where, fix=error.fix, exit_code=int(error.exit_code))


async def _ended(mount: Mount) -> None:
    """A gateway that opened a session ends it in its own time."""
    owed = mount.player.ends_a_session if mount.player is not None else mount.recorder is not None and mount.recorder.has_session
    if not owed:
        return
    try:
        await mount.wait_for(lambda seen: any(e.method == "DELETE" and e.outcome is not None for e in seen), LAST_WORD_S)
    except HarnessError:
        return  # it kept none, or leaves it to the provider


def _read_back(run: ItemRun, name: str, mount: Mount, player: Player) -> None:
    unmatched = [{"asked": u.asked, "nearest": u.nearest, "diff": u.diff} for u in player.unmatched]
    unused = [{"number": u.number, "what": u.what, "tool": u.tool} for u in player.unused(mount.operations)]
    data = {"unmatched": unmatched, "unused": unused, "file": shown(run.tapes.path(run.item.scenario, name))}
    run.emit(ControlRecord(item=run.item.id, phase="after", action="replay", connection=name, seq=run.bench.sequencer.next(), data=data))


def _kept(run: ItemRun, name: str, mount: Mount, recorder: Recorder) -> NoteRecord:
    """Raises UsageError: a secret was left, or the file cannot be written; Incomplete: the provider's answers cannot be kept."""
    scenario, item = run.item.scenario, run.item
    provider = scenario.connections[name].provider or name
    source, manifest = run.bench.sources[provider], run.bench.options.manifests[provider]
    draft = Draft(
        provider=provider,
        scenario=scenario.id,
        connection=name,
        recorder=harness.__version__,
        recorded_at=item.level,
        now=run.bench.clock.now(),
        endpoint=endpoint_of(manifest, item.level),
        path=source.path,
        agent_protocol=item.protocol,
        pin=source.pin(item.protocol),
        schema_level=source.schema_level,
        memory_level=source.memory_level,
        inventory=inventory_hash(run.documents.parsed_inventories.get(provider)),
        values={key: value for key, value in run.bindings.values.items() if key in ("run.id", "nonce", *scenario.let)},
        addresses=(mount.upstream.origin, mount.url()),
        hash_prose=run.tapes.hash_prose,
    )
    path = run.tapes.path(scenario, name)
    content = seal(draft, recorder.finished(), run.log.redactor)
    write_whole(path, content)
    digest = hashlib.sha256(content).hexdigest()
    return NoteRecord(item=item.id, text=f"recorded: {shown(path)}", data={"file": shown(path), "sha256": digest, "bytes": len(content)})


def endpoint_of(manifest: Manifest, level: str) -> str:
    """Whose words the recording holds, as an address that means something elsewhere."""
    where = "loopback" if manifest.local is None else "standard input and output"
    return {"fake": f"stand-in of {manifest.endpoint}", "local": f"the vendor's own server software, on {where}"}.get(level, manifest.endpoint)


def refusal(level: str, tapes: Tapes) -> str:
    """Why these options cannot go together, or ""."""
    return "a replay cannot be recorded" if level == "replayed" and tapes.record != "none" else ""

