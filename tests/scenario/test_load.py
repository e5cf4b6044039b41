"""What a sound scenario becomes, over several files, and that the loader refuses, never breaks, on whatever text it is given."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import LoadError, LoadErrors
from harness.model.scenario import PROTOCOLS, Eventually, Scenario, Vocabulary
from harness.scenario.load import load_scenario, load_scenarios
from harness.yaml_nodes import parse_yaml

SMALL = """\
scenario: S
title: t
connections: [mem0]
steps:
  - call: search_memories
    expect: [{dispatched: 1}, {dispatched: {count: 1}}, {audited: {is: success}}]
expect: [{no_secret: true}]
"""


def test_the_example_becomes_what_it_says(example: str, load: Callable[[str], Scenario]) -> None:
    scenario = load(example)
    assert (scenario.id, scenario.area, scenario.file) == ("MEM-1", "mem", "scenarios/mem/case.yaml")
    assert scenario.source == example
    assert scenario.tags == ("release", "nightly")
    assert scenario.connections["mem0"].provider == "mem0"
    assert scenario.connections["mem0"].permissions == {"add_memory": "ask_first"}
    assert [(s.id, s.verb, s.target) for s in scenario.steps] == [
        ("write", "call", "mem0.add_memory"),
        ("allow", "approve", "write"),
        ("recall", "call", "mem0.search_memories"),
    ]
    assert scenario.steps[0].args == {"with": {"text": "${fact}", "user_id": "${user}", "infer": False}}
    assert scenario.steps[1].args == {"as": "operator"}
    assert scenario.steps[1].capture["memory_id"].at == "/results/0/id"
    assert scenario.steps[2].eventually == Eventually(within_s=30.0)
    assert [e.id for e in scenario.every_expectation()] == [
        "held",
        "not-dispatched",
        "dispatched-once",
        "exact",
        "trail",
        "quiet",
        "clean",
    ]
    assert scenario.steps[0].expect[0].args == {"value": "approval"}
    assert scenario.proves[1].by == ("exact",)
    assert len(scenario.does_not_prove) == 2
    assert [(s.id, s.verb) for s in scenario.cleanup] == [("cleanup-1", "call")]
    assert str(scenario.steps[1].location) == "scenarios/mem/case.yaml:15:5"
    assert scenario.protocols == PROTOCOLS[-1:]
    assert not scenario.private_bench


def test_expectations_without_ids_get_distinct_ones(load: Callable[[str], Scenario]) -> None:
    ids = [e.id for e in load(SMALL).every_expectation()]
    assert ids == ["step-1.dispatched", "step-1.dispatched-2", "step-1.audited", "run.no_secret"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("all", PROTOCOLS),
        ('"2025-11-25"', ("2025-11-25",)),
        ('["2025-11-25", "2025-06-18", "2025-11-25"]', ("2025-11-25", "2025-06-18")),
    ],
)
def test_protocols(written: str, expected: tuple[str, ...], load: Callable[[str], Scenario]) -> None:
    assert load(f"protocols: {written}\n{SMALL}").protocols == expected


def test_when_takes_one_or_several(load: Callable[[str], Scenario]) -> None:
    when = load(f"when: {{level: [fake, local], target: reference}}\n{SMALL}").when
    assert (when.level, when.target) == (("fake", "local"), ("reference",))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tags", "tags"),
        ("steps:", "exclusive: true\nsteps:"),
        ("steps:", "steps:\n  - advance: 5m"),
        ("- call: search_memories", "- call: search_memories\n    during: {advance: 5m}"),
    ],
)
def test_what_moves_time_or_acts_during_a_call_gets_a_bench_of_its_own(old: str, new: str, load: Callable[[str], Scenario]) -> None:
    assert load(SMALL.replace(old, new, 1)).private_bench == (old != new)


@pytest.mark.parametrize(("written", "seconds"), [("200ms", 0.2), ("30s", 30.0), ("5m", 300.0), ("1.5h", 5400.0)])
def test_durations(written: str, seconds: float, load: Callable[[str], Scenario]) -> None:
    text = SMALL.replace("    expect:", f"    eventually: {{within: {written}, every: {written}}}\n    expect:")
    assert load(text).steps[0].eventually == Eventually(within_s=seconds, every_s=seconds)


def test_a_variable_may_stand_for_a_value_that_is_not_text(load: Callable[[str], Scenario]) -> None:
    text = SMALL.replace("{dispatched: 1}", '{dispatched: "${n}"}').replace("steps:", "let: {n: 1}\nsteps:")
    assert load(text).steps[0].expect[0].args == {"value": "${n}"}


def test_a_discovery_scenario_needs_no_call(load: Callable[[str], Scenario]) -> None:
    text = "scenario: D\ntitle: t\nconnections: [mem0, zep]\nexpect: [{no_secret: true}]\n"
    assert load(text).steps == ()


def test_connections_of_two_kinds_need_their_names(refusals: Callable[[str], list[tuple[str, str, str]]]) -> None:
    found = refusals(SMALL.replace("[mem0]", "[mem0, zep]").replace("{no_secret: true}", "{audited: {is: success, tool: zep.add_memory}}"))
    assert found == [
        ("3:15", "the connection 'mem0' is declared and never used", "use it in a step or an expectation, or remove it"),
        ("5:11", "'search_memories' could be a tool of any connection", "name it: mem0.search_memories"),
    ]


def test_all_errors_of_all_files_come_together(tmp_path: Path, vocabulary: Vocabulary) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.yaml").write_text(SMALL.replace("title", "titel"))
    (tmp_path / "a" / "two.yml").write_text(SMALL.replace("no_secret", "no_secrets"))
    (tmp_path / "b.yaml").write_text(SMALL)
    (tmp_path / "c.yaml").write_text(SMALL)
    (tmp_path / "d.yaml").write_bytes(b"scenario: \xff")
    with pytest.raises(LoadErrors) as caught:
        load_scenarios([tmp_path, tmp_path / "b.yaml", tmp_path / "none.yaml"], vocabulary)
    assert [(e.where.removeprefix(f"{tmp_path}/"), e.what) for e in caught.value.errors] == [
        ("a/one.yaml:1:1", "a scenario needs 'title'"),
        ("a/one.yaml:2:1", "unknown key 'titel' in a scenario"),
        ("a/two.yml:7:11", "unknown expectation 'no_secrets'"),
        ("d.yaml:1:1", "the file is not UTF-8 (byte 10)"),
        ("none.yaml", "the file cannot be read: No such file or directory"),
        ("c.yaml:1:1", f"the scenario id 'S' is taken by {tmp_path}/b.yaml"),
    ]


def test_sound_files_load_in_order_and_once(tmp_path: Path, vocabulary: Vocabulary) -> None:
    for name in ("z", "a"):
        (tmp_path / f"{name}.yaml").write_text(SMALL.replace("scenario: S", f"scenario: {name}"))
    assert [s.id for s in load_scenarios([tmp_path / "z.yaml", tmp_path], vocabulary)] == ["z", "a"]


def _loads_or_refuses(text: str, vocabulary: Vocabulary) -> None:
    found: tuple[LoadError, ...] = ()
    try:
        load_scenario(text, "f.yaml", vocabulary)
    except LoadErrors as refused:
        found = refused.errors or (LoadError("a refusal without a reason"),)
    for error in found:
        assert error.what
        assert error.fix
        file, line, column = error.where.rsplit(":", 2)
        assert file == "f.yaml"
        assert 1 <= int(line) <= text.count("\n") + text.count("\r") + 1
        assert int(column) >= 1


@given(text=st.text(max_size=200))
@settings(max_examples=150, deadline=None)
def test_no_text_at_all_breaks_the_loader(text: str, vocabulary: Vocabulary) -> None:
    _loads_or_refuses(text, vocabulary)


SIGNS = st.sampled_from([*"{}[]:,-#&*!|>'\"%@`?\t\n ${}", "${", "}", "- ", ": ", "\n  ", "&a ", "*a", "!!int ", "<<: ", "2026-07-24", "..."])


@given(data=st.data())
@settings(max_examples=250, deadline=None)
def test_no_damage_to_a_sound_text_breaks_the_loader(data: st.DataObject, example: str, vocabulary: Vocabulary) -> None:
    text = example
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = min(len(text), start + data.draw(st.sampled_from([0, 0, 1, 2, 10, 60])))
        text = text[:start] + data.draw(st.one_of(st.just(""), SIGNS, st.text(max_size=3))) + text[end:]
    _loads_or_refuses(text, vocabulary)


@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_no_reshuffled_lines_break_the_loader(data: st.DataObject, example: str, vocabulary: Vocabulary) -> None:
    lines = example.splitlines()
    index = st.integers(0, len(lines) - 1)
    for _ in range(data.draw(st.integers(1, 3))):
        a, b = data.draw(index), data.draw(index)
        match data.draw(st.sampled_from(["swap", "drop", "double", "indent"])):
            case "swap":
                lines[a], lines[b] = lines[b], lines[a]
            case "drop":
                lines[a] = ""
            case "double":
                lines[a] = f"{lines[a]}\n{lines[b]}"
            case _:
                lines[a] = f"  {lines[a]}"
    _loads_or_refuses("\n".join(lines), vocabulary)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.just("${x}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(data=st.data(), value=JSON_VALUES)
@settings(max_examples=250, deadline=None)
def test_no_value_in_any_place_breaks_the_loader(data: st.DataObject, value: object, example: str, vocabulary: Vocabulary) -> None:
    document = parse_yaml(example, "x").plain()
    here = document
    while True:
        places = list(here) if isinstance(here, dict) else list(range(len(here)))
        place = data.draw(st.sampled_from(places))
        inner = here[place]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            here[place] = value
            break
        here = inner
    _loads_or_refuses(json.dumps(document).replace("\\ud", "\\u00"), vocabulary)


def test_a_file_full_of_errors_is_refused_in_bounded_words(vocabulary: Vocabulary) -> None:
    for text in ("a: {" + "b, " * 100_000 + "}", SMALL + "".join(f"k{n}: 1\n" for n in range(5000)), f"x{SMALL}" + "a" * 500_000):
        with pytest.raises(LoadErrors) as caught:
            load_scenario(text, "f.yaml", vocabulary)
        assert len(caught.value.errors) <= 100
        assert len(str(caught.value)) < 100_000


def test_text_does_not_pass_for_a_number_or_yes_for_true(refusals: Callable[[str], list[tuple[str, str, str]]]) -> None:
    assert refusals(SMALL.replace("{dispatched: 1}", '{dispatched: "1"}')) == [
        ("6:27", "dispatched may not be '1': it should be a valid integer", "write a number without quotes")
    ]
    assert refusals(SMALL.replace("{dispatched: 1}", "{result: {is_error: no}}")) == [
        ("6:34", "is_error of result may not be 'no': it should be a valid boolean", "write true or false")
    ]


@pytest.mark.parametrize(
    ("step", "where", "what"),
    [
        ("refresh: mem", "5:14", "the connection 'mem' is not declared"),
        ("{set_permission: zep.x, to: off}", "5:22", "the connection 'zep' is not declared"),
        ("{say: success, about: zep.x}", "5:27", "the connection 'zep' is not declared"),
        ("{say: sucess, about: mem0.x}", "5:11", "say of step 'step-1' may not be 'sucess'"),
        ("{set_permission: mem0.x, to: of}", "5:34", "to of step 'step-1' may not be 'of'"),
    ],
)
def test_every_verb_needs_declared_connections(step: str, where: str, what: str, refusals: Callable[[str], list[tuple[str, str, str]]]) -> None:
    found = refusals(SMALL.replace("steps:\n", f"steps:\n  - {step}\n"))
    assert [(w, x) for w, x, _ in found] == [(where, what)]
