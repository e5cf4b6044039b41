"""`harness sweep`: remove what earlier runs left at a provider, and nothing else.

What is ours is known in two ways: the history noted it when it was left, or its name is one that only this harness makes up. The rules
that guard every live run hold here too, with these names and ids for what is allowed, at the step and once more at the tap.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.action.base import Stage
from harness.cassette.redact import Redactor
from harness.engine.bench import Bench
from harness.engine.errand import ask, errand, errand_item
from harness.engine.evidence_log import EvidenceLog
from harness.engine.run import bench_for, live_session
from harness.errors import HarnessError, Incomplete
from harness.history.rows import Leftover
from harness.live.marks import is_own, run_of
from harness.live.options import LiveOptions
from harness.live.session import LiveItem, LiveSession
from harness.model.answer import pointer
from harness.model.evidence import EvidenceRecord
from harness.model.manifest import Manifest, SweepSpec, Thing
from harness.model.plan import PlanItem

MOST_PAGES = 50


@dataclass
class SweepItem(LiveItem):
    """The rules while sweeping: a name of this harness's making is ours, an id only when the history or an own container names it."""

    run: str = ""

    def is_mine(self, text: str) -> bool:
        return text in self.own or self.named_here(text)

    def observe(self, record: EvidenceRecord) -> None:
        """Nothing is learnt from answers: what is ours was known before, or is read off an own list."""

    def named_here(self, text: str) -> bool:
        return is_own(text) and (not self.run or run_of(text) == self.run)


@dataclass
class Swept:
    """What one provider's sweep did. `foreign` counts listed things that are not ours, which were left alone."""

    provider: str
    removed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    foreign: int = 0
    settled: list[Leftover] = field(default_factory=list)
    trouble: HarnessError | None = None


async def sweep(
    manifest: Manifest, options: LiveOptions, leftovers: Sequence[Leftover], *, folder: Path, run_id: str, target: str, dry: bool, run: str = ""
) -> Swept:
    """Never raises for what the provider does: trouble is in the answer, beside what was done before it. `run`: only what that run left."""
    swept = Swept(manifest.id)
    live = live_session(options)
    item = errand_item("sweep", manifest.id, level="fake" if options.rehearsed else "live", target=target, rehearsed=options.rehearsed)
    log = EvidenceLog(folder / "evidence.jsonl", Redactor())
    try:
        async with bench_for([item], folder, still=False, live=live) as bench:
            await _sweep_on(bench, manifest, live, leftovers, swept, item, log, run_id, dry=dry, run=run)
    except HarnessError as error:
        swept.trouble = error
    finally:
        log.close()
    return swept


async def _sweep_on(
    bench: Bench,
    manifest: Manifest,
    live: LiveSession,
    leftovers: Sequence[Leftover],
    swept: Swept,
    item: PlanItem,
    log: EvidenceLog,
    run_id: str,
    *,
    dry: bool,
    run: str,
) -> None:
    noted = {text for left in leftovers for text in (left.identity, *left.names) if text}
    rules = SweepItem(live, mark="\0", own=noted, providers={manifest.id: manifest.id}, run=run)
    async with errand(bench, item, log, run_id, rules) as stage:
        broom = Broom(stage, manifest, rules, swept, dry)
        for spec in manifest.live.sweep:
            await broom.listed(spec, parent="")
        for left in leftovers:
            await broom.noted(left)


@dataclass
class Broom:
    """Goes through one provider."""

    stage: Stage
    manifest: Manifest
    rules: SweepItem
    swept: Swept
    dry: bool
    gone: set[str] = field(default_factory=set)

    async def listed(self, spec: SweepSpec, parent: str) -> None:
        """Everything that a list shows; inside an own parent all is ours, elsewhere only what bears a name of our making."""
        async for name in self.names(spec, parent):
            if not parent and not self.rules.named_here(name):
                self.swept.foreign += 1
                continue
            self.rules.own.add(name)
            if spec.then is not None:
                await self.listed(spec.then, name)
            if spec.remove is None:
                if spec.then is None or not parent:
                    self.swept.kept.append(f"{spec.kind} {name}: the provider has no tool that removes it")
                continue
            await self.remove(spec.remove, filled(spec.removal, name, parent), f"{spec.kind} {name}", {name})

    async def names(self, spec: SweepSpec, parent: str) -> AsyncIterator[str]:
        """Read all pages before anything is removed: what is removed shifts what follows."""
        found: dict[str, None] = {}
        for page in range(1, MOST_PAGES + 1):
            arguments = {**filled(spec.arguments, "", parent), **({spec.page: page} if spec.page else {})}
            answer = await ask(self.stage, self.manifest.id, spec.list, arguments)
            there, items = pointer(answer, spec.items)
            if not there or not isinstance(items, list):
                raise Incomplete(
                    f"{spec.list} has no list at {spec.items}, so what is left cannot be told", where=self.manifest.id, fix="compare its manifest"
                )
            names = [str(value) for entry in items for known, value in (pointer(entry, spec.name),) if known]
            fresh = [name for name in names if name not in found]
            found.update(dict.fromkeys(fresh))
            if not fresh or not spec.page:
                break
        for name in found:
            yield name

    async def noted(self, left: Leftover) -> None:
        """Something that the history noted; it may be gone by now, with what it was in."""
        what = f"{left.kind} {left.identity or ', '.join(left.names)}"
        if self.gone & {left.identity, *left.names} - {""}:
            self.swept.settled.append(left)
            return
        thing = next((t for t in self.manifest.live.things if t.kind == left.kind and t.made_by == left.tool), None)
        way = removal(thing, left) if thing else None
        if way is None:
            self.swept.kept.append(f"{what}: the provider has no tool that removes it by what is known of it")
            return
        if await self.remove(way[0], way[1], what, {left.identity, *left.names} - {""}):
            self.swept.settled.append(left)

    async def remove(self, tool: str, arguments: Mapping[str, Any], what: str, names: set[str]) -> bool:
        if self.dry:
            self.swept.kept.append(f"{what}: would be removed by {tool}")
            return False
        try:
            await ask(self.stage, self.manifest.id, tool, arguments)
        except HarnessError as error:
            self.swept.kept.append(f"{what}: {error.what}")
            return False
        self.swept.removed.append(f"{what} (by {tool})")
        self.gone |= names
        return True


def removal(thing: Thing, left: Leftover) -> tuple[str, dict[str, Any]] | None:
    """The tool and arguments that remove a noted thing: by its id where there is one, else by the first of its names."""
    for tool, argument in thing.removed_by.items():
        by_name = argument in thing.name and left.names
        value = left.names[thing.name.index(argument)] if by_name and thing.name.index(argument) < len(left.names) else left.identity
        value = value or (left.names[0] if left.names else "")
        if value:
            return tool, {argument: value, **thing.removed_when}
    return None


def filled(arguments: Mapping[str, Any], name: str, parent: str) -> dict[str, Any]:
    words = {"$name": name, "$parent": parent}
    return {key: words.get(value, value) if isinstance(value, str) else value for key, value in arguments.items()}
