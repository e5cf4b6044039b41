"""Every variable that is used has a value by then, and every variable that has a value is used."""

from __future__ import annotations

from collections.abc import Mapping

from harness.model.location import Location
from harness.registry import suggest
from harness.scenario.draft import Draft, keys, scalars
from harness.scenario.parse import STEP_KEYS
from harness.scenario.problems import Problems
from harness.scenario.variables import BUILT_INS, LetError, let_order, references, template_faults
from harness.yaml_nodes import MapNode, Node


class _Uses:
    """What has been seen used; says what cannot be."""

    def __init__(self, draft: Draft, problems: Problems) -> None:
        self.problems = problems
        self.fixed = {*BUILT_INS, *draft.let}
        self.captured_by = {f"{r.step.id}.{name}": r.step.id for r in draft.steps for name in r.step.capture}
        self.seen: set[str] = set()

    def scan(self, node: Node | None, ready: set[str], *, own: str = "") -> None:
        """`ready` are the captures that exist by then; `own` is the step whose expectations these are."""
        for scalar in scalars(node):
            text = str(scalar.value)
            for fault in template_faults(text):
                fix = 'write ${name} or ${step.capture}, without spaces; for a literal "${" write "$${"'
                self.problems.add(scalar.location, f"{fault!r} is not a variable", fix)
            for name in sorted(references(text)):
                self._use(name, scalar.location, ready, own)
        for key, mark in keys(node):
            if references(key):
                self.problems.add(mark, f"a variable cannot stand in a key: {key!r}", "write the key out; variables stand in values")

    def _use(self, name: str, at: Location, ready: set[str], own: str) -> None:
        self.seen.add(name)
        if name in self.fixed or name in ready or template_faults(f"${{{name}}}"):
            return
        step = self.captured_by.get(name)
        if step is None:
            self.problems.add(at, f"undefined variable ${{{name}}}", suggest(name, sorted(self.fixed | set(self.captured_by))))
        elif step == own:
            self.problems.add(at, f"${{{name}}} is read from the very answer that is judged here", "capture it in an earlier step")
        else:
            self.problems.add(at, f"${{{name}}} is captured by step {step!r}, which has not run by then", "use it in a later step")


def check_variables(draft: Draft, problems: Problems) -> None:
    """Undefined, malformed, too early, unused, circular."""
    uses = _Uses(draft, problems)
    uses.scan(draft.part("connections"), set())
    uses.scan(draft.part("let"), set())
    ready: set[str] = set()
    for read in draft.steps:
        uses.scan(_without(read.node, ("id", "expect", "capture")), ready)
        uses.scan(read.node.entries.get("expect"), ready, own=read.step.id)
        ready |= {f"{read.step.id}.{name}" for name in read.step.capture}
    uses.scan(draft.part("expect"), ready)
    for read in draft.cleanup:
        uses.scan(_without(read.node, STEP_KEYS), ready)
    _unused(draft, uses.seen, problems)
    try:
        let_order(draft.let)
    except LetError as error:
        node = draft.part("let")
        at = node.keys[error.name] if isinstance(node, MapNode) else draft.root.location
        problems.add(at, error.what, error.fix)


def _without(node: MapNode, left_out: tuple[str, ...]) -> MapNode:
    entries: Mapping[str, Node] = {key: value for key, value in node.entries.items() if key not in left_out}
    return MapNode(entries, {key: mark for key, mark in node.keys.items() if key in entries}, node.location)


def _unused(draft: Draft, seen: set[str], problems: Problems) -> None:
    let = draft.part("let")
    for name in draft.let:
        if name not in seen and isinstance(let, MapNode):
            problems.add(let.keys[name], f"the variable {name!r} is never used", f'use it as "${{{name}}}", or remove it')
    for read in draft.steps:
        for name, capture in read.step.capture.items():
            if f"{read.step.id}.{name}" not in seen:
                fix = f'use it as "${{{read.step.id}.{name}}}", or remove it'
                problems.add(capture.location, f"the capture {name!r} of step {read.step.id!r} is never used", fix)
