"""How the parts of a scenario fit together: ids, steps, claims, connections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.errors import UsageError
from harness.model.location import Location
from harness.registry import suggest
from harness.scenario.draft import Draft, scalars
from harness.scenario.names import tool_of
from harness.scenario.parse import STEP_KEYS, ReadStep
from harness.scenario.problems import Problems
from harness.scenario.variables import has_template
from harness.yaml_nodes import MapNode, Node, ScalarNode, SeqNode

STEP_VERBS = ("approve", "deny")
"""Verbs whose value is the id of an earlier step."""
CONNECTION_VERBS = ("crash", "discover", "look_inside", "refresh", "revoke", "fault", "heal", "mutate", "review", "set_agents", "settle")
"""Verbs whose value is a connection's name."""
TOOL_VERBS = ("call", "set_permission")
"""Verbs whose value is `<connection>.<tool>`, or a bare tool with one connection."""
STEP_WORDS = ("step", "after", "before")
"""Parameters of expectations that name steps."""


def check_ids(draft: Draft, problems: Problems) -> None:
    """Steps, cleanup steps and expectations share one space of ids, so that claims and reports can name any of them."""
    seen: dict[str, Location] = {}
    named = [(r.step.id, r.step.location, "step") for r in (*draft.steps, *draft.cleanup)]
    named += [(e.id, e.location, "expectation") for _, e in draft.expectations()]
    for name, at, kind in sorted(named, key=lambda n: (n[1].line, n[1].column)):
        if name in seen:
            problems.add(at, f"the id {name!r} of this {kind} is taken (line {seen[name].line})", "ids are unique in a scenario: rename one")
        else:
            seen[name] = at


def check_claims(draft: Draft, problems: Problems) -> None:
    known = [e.id for _, e in draft.expectations()]
    if not known:
        at = draft.root.keys.get("expect", draft.root.location)
        problems.add(at, "a scenario without expectations proves nothing", "add expect: to a step or to the scenario")
    said: dict[str, Location] = {}
    for claim, marks in draft.claims:
        for name, mark in zip(claim.by, marks, strict=True):
            if name not in known:
                problems.add(mark, f"the claim is tied to {name!r}, which is no expectation's id", suggest(name, known) if known else "add it")
        if claim.claim in said:
            problems.add(claim.location, f"this claim stands twice (line {said[claim.claim].line})", "merge their `by`")
        said.setdefault(claim.claim, claim.location)


def check_step_names(draft: Draft, problems: Problems) -> None:
    """What approve and deny act on, and which steps expectations speak of."""
    order = [read.step.id for read in draft.steps]
    for index, read in enumerate(draft.steps):
        node = read.node.entries.get(read.step.verb)
        if read.step.verb in STEP_VERBS and isinstance(node, ScalarNode) and isinstance(node.value, str) and not has_template(node.value):
            if node.value not in order:
                problems.add(node.location, f"{read.step.verb}: there is no step {node.value!r}", suggest(node.value, order))
            elif node.value not in order[:index]:
                problems.add(node.location, f"step {node.value!r} has not run by then", f"move {read.step.verb} after it")
    for args in _expectation_args(draft):
        for key in STEP_WORDS:
            node = args.entries.get(key)
            if isinstance(node, ScalarNode) and isinstance(node.value, str) and not has_template(node.value) and node.value not in order:
                problems.add(node.location, f"there is no step {node.value!r}", suggest(node.value, order) if order else "add the step")


def _expectation_items(draft: Draft) -> Iterator[MapNode]:
    for node in (*(read.node.entries.get("expect") for read in draft.steps), draft.part("expect")):
        if isinstance(node, SeqNode):
            yield from (item for item in node.items if isinstance(item, MapNode))


def _expectation_args(draft: Draft) -> Iterator[MapNode]:
    for item in _expectation_items(draft):
        yield from (value for value in item.entries.values() if isinstance(value, MapNode))


def check_connections(draft: Draft, problems: Problems) -> None:
    """Each named connection is declared, and, once tools are called at all, each declared connection is named."""
    used: set[str] = set()
    for read in (*draft.steps, *draft.cleanup):
        used |= _used_by_step(read, draft, problems)
    for item in _expectation_items(draft):
        used |= _mentioned(item, draft.connections)
    for args in _expectation_args(draft):
        _declared(args.entries.get("connection"), draft, problems)
    calls = any(read.step.verb == "call" for read in draft.steps)
    node = draft.part("connections")
    for name in draft.connections if calls else ():
        if name not in used:
            at = node.keys[name] if isinstance(node, MapNode) else _entry(node, name) or draft.root.location
            problems.add(at, f"the connection {name!r} is declared and never used", "use it in a step or an expectation, or remove it")


def _entry(node: Node | None, name: str) -> Location | None:
    return next((s.location for s in scalars(node) if s.value == name), None)


def _used_by_step(read: ReadStep, draft: Draft, problems: Problems) -> set[str]:
    node = read.node.entries.get(read.step.verb)
    if read.step.verb in TOOL_VERBS:
        return _tool(node, draft, problems)
    if read.step.verb in CONNECTION_VERBS:
        _declared(node, draft, problems)
    found: set[str] = set()
    for key, value in read.node.entries.items():
        if key == "about":  # the tool that a statement speaks of
            found |= _tool(value, draft, problems)
        elif key == "connection":
            _declared(value, draft, problems)
        if key not in STEP_KEYS and key != "with":
            found |= _mentioned(value, draft.connections)
    return found


def _tool(node: Node | None, draft: Draft, problems: Problems) -> set[str]:
    """The connections that a `<connection>.<tool>` may use, after saying what is wrong with it."""
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
        return set()
    if has_template(node.value.partition(".")[0]):
        return set(draft.connections)  # which one is known only when it runs
    try:
        return {tool_of(node.value, draft.connections)[0]}
    except UsageError as error:
        problems.add(node.location, error.what, error.fix)
        return set()


def _declared(node: Node | None, draft: Draft, problems: Problems) -> None:
    name = node.value if isinstance(node, ScalarNode) else None
    if node is None or not isinstance(name, str) or has_template(name) or name in draft.connections:
        return
    remedy = suggest(name, list(draft.connections)) if draft.connections else "add connections:"
    problems.add(node.location, f"the connection {name!r} is not declared", f"{remedy} (or declare it under connections:)")


def _mentioned(node: Node, connections: Mapping[str, object]) -> set[str]:
    """Connections that a text or a key below `node` names, alone or as `<connection>.<tool>`."""
    words = {str(scalar.value) for scalar in scalars(node)} | set(_keys(node))
    return {name for name in connections for word in words if word == name or word.startswith(f"{name}.")}


def _keys(node: Node) -> Iterator[str]:
    if isinstance(node, MapNode):
        yield from node.keys
        for value in node.entries.values():
            yield from _keys(value)
    elif isinstance(node, SeqNode):
        for item in node.items:
            yield from _keys(item)
