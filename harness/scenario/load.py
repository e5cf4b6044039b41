"""The door of the language: text in, a frozen Scenario out, or everything that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from harness.errors import LoadError, LoadErrors
from harness.model.scenario import Scenario, Vocabulary
from harness.scenario.check_echo import check_echoes
from harness.scenario.check_variables import check_variables
from harness.scenario.checks import check_claims, check_connections, check_ids, check_step_names
from harness.scenario.draft import Draft
from harness.scenario.files import shown
from harness.scenario.names import SCENARIO_PATTERN, fits
from harness.scenario.parse import (
    read_claims,
    read_connections,
    read_expectations,
    read_let,
    read_place,
    read_protocols,
    read_steps,
    read_when,
)
from harness.scenario.problems import Problems, in_order
from harness.yaml_nodes import MapNode, parse_yaml

TOP_KEYS = (
    "scenario",
    "title",
    "connections",
    "tags",
    "formerly",
    "protocols",
    "when",
    "exclusive",
    "place",
    "let",
    "steps",
    "expect",
    "proves",
    "does_not_prove",
    "cleanup",
)


def load_scenario(text: str, file: str, vocabulary: Vocabulary) -> Scenario:
    """`file` is the name shown to users; its folder is the scenario's area. Raises LoadErrors with everything that is wrong."""
    try:
        node = parse_yaml(text, file)
    except LoadError as error:
        raise LoadErrors([error]) from None
    problems = Problems(text)
    root = problems.mapping(node, "a scenario")
    if root is None:
        raise LoadErrors(problems.errors)
    draft = _read(root, vocabulary, problems)
    structure_is_sound = not problems.errors
    for check in (check_ids, check_claims, check_step_names, check_connections, check_variables):
        check(draft, problems)
    if structure_is_sound:
        check_echoes(draft, problems)
    scenario = _build(draft, text, file, vocabulary, problems)
    problems.raise_any()
    return scenario


def _read(root: MapNode, vocabulary: Vocabulary, problems: Problems) -> Draft:
    problems.unknown_keys(root, TOP_KEYS, "a scenario")
    let, _ = read_let(root.entries.get("let"), problems)
    return Draft(
        root=root,
        connections=read_connections(root.entries.get("connections"), vocabulary, problems),
        let=let,
        steps=tuple(read_steps(root.entries.get("steps"), vocabulary, problems, section="steps")),
        cleanup=tuple(read_steps(root.entries.get("cleanup"), vocabulary, problems, section="cleanup")),
        expect=read_expectations(root.entries.get("expect"), vocabulary, problems, scope="run", owner="run"),
        claims=tuple(read_claims(root.entries.get("proves"), problems)),
    )


def _build(draft: Draft, text: str, file: str, vocabulary: Vocabulary, problems: Problems) -> Scenario:
    entries = draft.root.entries
    steps = (*draft.steps, *draft.cleanup)
    exclusive = problems.flag(entries["exclusive"], "exclusive") if "exclusive" in entries else False
    mutating = {verb.id for verb in vocabulary.verbs.values() if verb.mutates}
    return Scenario(
        id=_required(draft, "scenario", problems, "its id, such as MEM-1"),
        title=_required(draft, "title", problems, "one sentence on what it shows"),
        area=PurePath(file).parent.name,
        file=file,
        source=text,
        connections=draft.connections,
        tags=problems.texts(entries["tags"], "tags") if "tags" in entries else (),
        formerly=problems.texts(entries["formerly"], "formerly") if "formerly" in entries else (),
        protocols=read_protocols(entries.get("protocols"), problems),
        when=read_when(entries.get("when"), problems),
        let=draft.let,
        steps=tuple(read.step for read in draft.steps),
        expect=draft.expect,
        proves=tuple(claim for claim, _ in draft.claims),
        does_not_prove=problems.texts(entries["does_not_prove"], "does_not_prove") if "does_not_prove" in entries else (),
        cleanup=tuple(read.step for read in draft.cleanup),
        private_bench=exclusive or any(r.step.verb in mutating or "during" in r.node.entries for r in steps),
        place=read_place(entries.get("place"), problems),
        location=draft.root.location,
    )


def _required(draft: Draft, key: str, problems: Problems, meaning: str) -> str:
    node = draft.root.entries.get(key)
    if node is None:
        problems.add(draft.root.location, f"a scenario needs {key!r}", f"add {key}: {meaning}")
        return ""
    text = problems.text(node, key) or ""
    if key == "scenario" and text and not fits(SCENARIO_PATTERN, text):
        problems.add(node.location, f"{text!r} cannot be a scenario's id", "use letters, digits, - _ and .")
    return text


def load_scenarios(paths: Iterable[str | Path], vocabulary: Vocabulary) -> tuple[Scenario, ...]:
    """Scenarios of these files, and of all .yaml and .yml files below these folders, in order.

    Raises LoadErrors with every problem of every file; an id that two files use is one of them.
    """
    errors: list[LoadError] = []
    found: list[Scenario] = []
    for path in scenario_files(paths):
        try:
            found.append(load_scenario(read_text(path), shown(path), vocabulary))
        except LoadError as error:
            errors.append(error)
        except LoadErrors as several:
            errors.extend(several.errors)
    errors += _duplicates(found)
    if errors:
        raise LoadErrors(in_order(errors))
    return tuple(found)


def scenario_files(paths: Iterable[str | Path]) -> list[Path]:
    """Files as named; folders as the sorted YAML files below them. Each file once."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        inside = sorted(p for p in path.rglob("*") if p.suffix in (".yaml", ".yml") and p.is_file()) if path.is_dir() else [path]
        for file in inside:
            found.setdefault(file.absolute(), file)
    return list(found.values())


def read_text(path: Path) -> str:
    """UTF-8 text, or LoadError."""
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoadError(f"the file is not UTF-8 (byte {error.start})", where=f"{path}:1:1", fix="save it as UTF-8") from None
    except OSError as error:
        raise LoadError(f"the file cannot be read: {error.strerror}", where=str(path), fix="check the path and its permissions") from None


def _duplicates(scenarios: Sequence[Scenario]) -> list[LoadError]:
    first: dict[str, Scenario] = {}
    errors = []
    for scenario in scenarios:
        earlier = first.setdefault(scenario.id, scenario)
        if earlier is not scenario:
            errors.append(
                LoadError(f"the scenario id {scenario.id!r} is taken by {earlier.file}", where=str(scenario.location), fix="rename one of them")
            )
    return errors
