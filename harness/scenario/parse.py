"""From YAML nodes to the parts of a Scenario. Each part is read on its own; how they fit together is checks.py's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from harness.model.location import Location
from harness.model.scenario import (
    LEVELS,
    NEWEST_PROTOCOL,
    PLACES,
    PROTOCOLS,
    Capture,
    Claim,
    ConnectionSpec,
    Eventually,
    Expectation,
    Level,
    Place,
    Step,
    Vocabulary,
    When,
    Word,
)
from harness.registry import suggest
from harness.scenario.durations import parse_duration
from harness.scenario.names import CONNECTION_PATTERN, ID_PATTERN, LET_PATTERN, RESERVED, fits
from harness.scenario.params import Given, check_model, check_params, expectation_input, field_names
from harness.scenario.problems import Problems
from harness.yaml_nodes import MapNode, Node, ScalarNode, SeqNode

STEP_KEYS = ("id", "expect", "capture", "eventually")
EXPECTATION_KEYS = ("id",)


def read_connections(node: Node | None, vocabulary: Vocabulary, problems: Problems) -> dict[str, ConnectionSpec]:
    """A mapping of name to specification, or a list of names that need none."""
    if node is None:
        return {}
    if isinstance(node, SeqNode):
        named: list[tuple[str, Location, Node | None]] = []
        for item in node.items:
            name = problems.text(item, "a connection")
            if name and any(name == seen for seen, _, _ in named):
                problems.add(item.location, f"the connection {name!r} stands twice", "remove one of them")
            elif name:
                named.append((name, item.location, None))
    elif (mapping := problems.mapping(node, "connections")) is not None:
        named = [(name, mapping.keys[name], value) for name, value in mapping.entries.items()]
    else:
        return {}
    found = {}
    for name, mark, value in named:
        if not fits(CONNECTION_PATTERN, name):
            problems.add(mark, f"{name!r} cannot name a connection", "use lower-case letters, digits and -, a letter first, at most 40")
        found[name] = _connection(name, mark, value, vocabulary, problems)
    return found


def _connection(name: str, mark: Location, node: Node | None, vocabulary: Vocabulary, problems: Problems) -> ConnectionSpec:
    spec = ConnectionSpec()
    at = mark
    if node is not None and not (isinstance(node, ScalarNode) and node.value is None):
        mapping = problems.mapping(node, f"connection {name}")
        checked = check_model(ConnectionSpec, mapping, f"connection {name}", problems) if mapping else None
        spec = checked if isinstance(checked, ConnectionSpec) else spec
        at = mapping.entries["provider"].location if mapping and "provider" in mapping.entries else mark
    provider = spec.provider or name
    if provider not in vocabulary.providers:
        remedy = suggest(provider, list(vocabulary.providers)) if vocabulary.providers else f"add providers/{provider}.yaml"
        problems.add(at, f"unknown provider {provider!r}", remedy if spec.provider else f"{remedy} (a name that is no provider needs provider: …)")
    return spec.model_copy(update={"provider": provider})


def read_protocols(node: Node | None, problems: Problems) -> tuple[str, ...]:
    if node is None:
        return (NEWEST_PROTOCOL,)
    if isinstance(node, ScalarNode) and node.value == "all":
        return PROTOCOLS
    items = node.items if isinstance(node, SeqNode) else (node,)
    found = [problems.one_of(item, "protocol version", ("all", *PROTOCOLS) if item is node else PROTOCOLS) for item in items]
    chosen = tuple(dict.fromkeys(p for p in found if p is not None))
    if isinstance(node, SeqNode) and not node.items:
        problems.add(node.location, "protocols lists nothing", "write `all`, or remove the key for the newest")
    return chosen or (NEWEST_PROTOCOL,)


def read_place(node: Node | None, problems: Problems) -> Place:
    return (problems.one_of(node, "place", PLACES) or "host") if node is not None else "host"


def read_when(node: Node | None, problems: Problems) -> When:
    if node is None or (mapping := problems.mapping(node, "when")) is None:
        return When()
    problems.unknown_keys(mapping, ("level", "target"), "when")
    levels: tuple[Level, ...] | None = None
    if "level" in mapping.entries:
        level = mapping.entries["level"]
        items = level.items if isinstance(level, SeqNode) else (level,)
        levels = tuple(found for item in items if (found := problems.one_of(item, "level", LEVELS)) is not None)
    targets = problems.texts(mapping.entries["target"], "target") if "target" in mapping.entries else None
    return When(level=levels, target=targets)


def read_let(node: Node | None, problems: Problems) -> tuple[dict[str, Any], dict[str, Node]]:
    """Values as written, and their nodes."""
    if node is None or (mapping := problems.mapping(node, "let")) is None:
        return {}, {}
    for name, mark in mapping.keys.items():
        if name in RESERVED:
            problems.add(mark, f"{name!r} is built in", "choose another name")
        elif not fits(LET_PATTERN, name):
            problems.add(mark, f"{name!r} cannot name a variable", "use letters, digits, _ and -, a letter first")
    return mapping.plain(), dict(mapping.entries)


class ReadStep(NamedTuple):
    step: Step
    node: MapNode


def read_steps(node: Node | None, vocabulary: Vocabulary, problems: Problems, *, section: str) -> list[ReadStep]:
    """`section` is "steps" or "cleanup"; what cleanup does is judged apart, so it takes no expectations."""
    if node is None or (sequence := problems.sequence(node, section)) is None:
        return []
    prefix = "step" if section == "steps" else "cleanup"
    found = []
    for number, item in enumerate(sequence.items, 1):
        if (mapping := problems.mapping(item, f"an entry of {section}")) is not None:
            step = _step(mapping, f"{prefix}-{number}", vocabulary, problems, cleanup=section == "cleanup")
            found.append(ReadStep(step, mapping))
    return found


def read_id(mapping: MapNode, problems: Problems, fallback: str, pattern: str = ID_PATTERN) -> str:
    if "id" not in mapping.entries:
        return fallback
    node = mapping.entries["id"]
    name = problems.text(node, "id")
    if name is None:
        return fallback
    if name in RESERVED:
        problems.add(node.location, f"{name!r} is built in", "choose another id")
    elif not fits(pattern, name):
        problems.add(node.location, f"{name!r} cannot be an id", "use letters, digits, _ and -, a letter first")
    return name


def _verb(mapping: MapNode, vocabulary: Vocabulary, problems: Problems, what: str) -> Word | None:
    """The one key that is a verb. A verb's own parameter may share its name with another verb."""
    verbs = [vocabulary.verbs[key] for key in mapping.keys if key in vocabulary.verbs]
    verbs = [v for v in verbs if not any(v.id in field_names(o.params) for o in verbs if o is not v)] or verbs
    if len(verbs) == 1:
        return verbs[0]
    if verbs:
        names = " and ".join(repr(v.id) for v in verbs)
        problems.add(mapping.keys[verbs[1].id], f"{what} does {len(verbs)} things: {names}", "make it one step for each")
        return None
    parameters = {name for word in vocabulary.verbs.values() for name in field_names(word.params)}
    strange = [key for key in mapping.keys if key not in STEP_KEYS and key not in parameters]
    if strange:
        problems.add(mapping.keys[strange[0]], f"unknown verb {strange[0]!r}", suggest(strange[0], list(vocabulary.verbs)))
    else:
        problems.add(mapping.location, f"{what} does nothing: it has no verb", f"add one of: {', '.join(sorted(vocabulary.verbs))}")
    return None


def _step(mapping: MapNode, fallback: str, vocabulary: Vocabulary, problems: Problems, *, cleanup: bool) -> Step:
    step_id = read_id(mapping, problems, fallback)
    what = f"step {step_id!r}"
    word = _verb(mapping, vocabulary, problems, what)
    capture = _captures(mapping.entries.get("capture"), problems)
    expect = read_expectations(mapping.entries.get("expect"), vocabulary, problems, scope="step", owner=step_id)
    eventually = None if cleanup else _eventually(mapping, word, problems)
    if cleanup:
        for key in ("expect", "eventually", "capture"):
            if key in mapping.keys:
                problems.add(mapping.keys[key], f"{key} has no meaning in cleanup", "remove it: cleanup is judged apart, by whether it worked")
    if word is None:
        return Step(id=step_id, verb="", target=None, expect=expect, capture=capture, location=mapping.location)
    keys = [key for key in mapping.keys if key not in STEP_KEYS and key != word.id]
    args = {key: mapping.entries[key].plain() for key in keys}
    target = mapping.entries[word.id].plain()
    _check_verb(word, mapping, {"target": target, **args}, what, problems)
    return Step(id=step_id, verb=word.id, target=target, args=args, expect=expect, capture=capture, eventually=eventually, location=mapping.location)


def _check_verb(word: Word, mapping: MapNode, data: Mapping[str, Any], what: str, problems: Problems) -> None:
    roots = {key: node for key, node in mapping.entries.items() if key in data} | {"target": mapping.entries[word.id]}
    marks = {key: mark for key, mark in mapping.keys.items() if key in data} | {"target": mapping.keys[word.id]}
    if "target" in mapping.keys:  # the model's own name for the verb's value is not a key of the language
        problems.add(mapping.keys["target"], f"unknown key 'target' in {what}", f"write it as the value of {word.id}:")
        return
    given = Given(data, mapping, roots, marks, siblings=STEP_KEYS, verb=word.id)
    check_params(word, given, what, problems)


def _eventually(mapping: MapNode, word: Word | None, problems: Problems) -> Eventually | None:
    node = mapping.entries.get("eventually")
    if node is None:
        return None
    mark = mapping.keys["eventually"]
    if word is not None and word.id != "call":
        problems.add(mark, f"eventually repeats reads, but this step's verb is {word.id!r}", "move it to the call that reads the result")
    elif "expect" not in mapping.entries:
        problems.add(mark, "eventually waits for expectations, and this step has none", "add expect:, or remove eventually")
    within, every = node, None
    if isinstance(node, MapNode):
        problems.unknown_keys(node, ("within", "every"), "eventually")
        if "within" not in node.entries:
            problems.add(node.location, "eventually needs 'within'", "add within: 30s")
            return None
        within, every = node.entries["within"], node.entries.get("every")
    within_s = _duration(within, "within", problems)
    every_s = 0.2 if every is None else _duration(every, "every", problems)
    return Eventually(within_s=within_s, every_s=every_s) if within_s and every_s else None


def _duration(node: Node, what: str, problems: Problems) -> float | None:
    try:
        seconds = parse_duration(node.plain())
    except ValueError as error:
        problems.add(node.location, f"{what} is no duration", str(error))
        return None
    if seconds <= 0:
        problems.add(node.location, f"{what} must be more than nothing", "write a duration such as 30s")
        return None
    return seconds


def _captures(node: Node | None, problems: Problems) -> dict[str, Capture]:
    if node is None or (mapping := problems.mapping(node, "capture")) is None:
        return {}
    found = {}
    for name, value in mapping.entries.items():
        mark = mapping.keys[name]
        if not fits(LET_PATTERN, name):
            problems.add(mark, f"{name!r} cannot name a capture", "use letters, digits, _ and -, a letter first")
        inner = problems.mapping(value, f"capture {name!r}")
        if inner is None:
            continue
        problems.unknown_keys(inner, ("from", "at"), f"capture {name!r}")
        if "from" in inner.entries:
            problems.one_of(inner.entries["from"], "source", ("result",))
        at = _pointer(inner, name, problems)
        found[name] = Capture(at=at, location=mark)
    return found


def _pointer(inner: MapNode, name: str, problems: Problems) -> str:
    node = inner.entries.get("at")
    if node is None:
        problems.add(inner.location, f"capture {name!r} needs 'at'", 'add at: "/results/0/id"')
        return ""
    written = node.value if isinstance(node, ScalarNode) else None
    if not isinstance(written, str) or (written and not written.startswith("/")):
        problems.add(node.location, "at must be a JSON pointer", 'begin it with /, as in "/results/0/id"; "" is the whole answer')
        return ""
    return written


def read_expectations(node: Node | None, vocabulary: Vocabulary, problems: Problems, *, scope: str, owner: str) -> tuple[Expectation, ...]:
    """`scope` is "step" or "run"; `owner` begins the ids of expectations that have none."""
    if node is None or (sequence := problems.sequence(node, "expect")) is None:
        return ()
    found: list[Expectation] = []
    for item in sequence.items:
        if (mapping := problems.mapping(item, "an expectation")) is None:
            continue
        expectation = _expectation(mapping, vocabulary, problems, scope, owner, {e.id for e in found})
        if expectation is not None:
            found.append(expectation)
    return tuple(found)


def _expectation(mapping: MapNode, vocabulary: Vocabulary, problems: Problems, scope: str, owner: str, taken: set[str]) -> Expectation | None:
    words = [key for key in mapping.keys if key not in EXPECTATION_KEYS]
    if len(words) != 1:
        what = "an expectation without a word" if not words else f"one expectation with {len(words)} words: {', '.join(words)}"
        fix = f"add one of: {', '.join(sorted(vocabulary.expectations))}" if not words else "write each as its own `- ` entry"
        problems.add(mapping.location if not words else mapping.keys[words[1]], what, fix)
        name = read_id(mapping, problems, "")  # kept, so that claims on it are not reported too
        return Expectation(id=name, word="", args={}, location=mapping.location) if name else None
    key = words[0]
    word = vocabulary.expectations.get(key)
    expectation_id = read_id(mapping, problems, _free(f"{owner}.{key}", taken))
    node = mapping.entries[key]
    args = expectation_input(node.plain())
    if word is None:
        problems.add(mapping.keys[key], f"unknown expectation {key!r}", suggest(key, list(vocabulary.expectations)))
    elif scope not in word.scopes:
        other = "the whole run (expect: at the left margin)" if scope == "step" else "a step (its own expect:)"
        problems.add(mapping.keys[key], f"{key!r} cannot judge {'a step' if scope == 'step' else 'the whole run'}", f"move it to {other}")
    else:
        roots = dict(node.entries) if isinstance(node, MapNode) else {"value": node}
        marks = dict(node.keys) if isinstance(node, MapNode) else {"value": mapping.keys[key]}
        check_params(word, Given(args, node, roots, marks), key, problems)
    return Expectation(id=expectation_id, word=key, args=args, location=mapping.location)


def _free(wanted: str, taken: set[str]) -> str:
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name


def read_claims(node: Node | None, problems: Problems) -> list[tuple[Claim, tuple[Location, ...]]]:
    """Each claim with the positions of its `by` entries."""
    if node is None or (sequence := problems.sequence(node, "proves")) is None:
        return []
    found = []
    for item in sequence.items:
        if (mapping := problems.mapping(item, "a claim")) is None:
            continue
        problems.unknown_keys(mapping, ("claim", "by"), "a claim")
        text = problems.text(mapping.entries["claim"], "claim") if "claim" in mapping.entries else None
        if "claim" not in mapping.entries:
            problems.add(mapping.location, "a claim needs 'claim'", "say what is proven: claim: …")
        by = mapping.entries.get("by")
        if by is None or (isinstance(by, SeqNode) and not by.items) or (isinstance(by, ScalarNode) and by.value is None):
            at = mapping.keys.get("by", mapping.location)
            problems.add(at, f"the claim {text or ''!r} is tied to no expectation", "add by: [id, …] with the ids of the expectations that prove it")
            continue
        ids = problems.texts(by, "by")
        marks = tuple(i.location for i in by.items) if isinstance(by, SeqNode) else (by.location,)
        if text is not None and len(ids) == len(marks):
            found.append((Claim(claim=text, by=ids, location=mapping.location), marks))
    return found
