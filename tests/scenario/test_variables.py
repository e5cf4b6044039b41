"""Templates: types kept, text inserted once, escapes, order of `let`, and what has no value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import Exit, UsageError
from harness.model.location import Location
from harness.model.scenario import ConnectionSpec, ConsentSpec
from harness.scenario.variables import Bindings, Unresolved, escape, let_order, references, template_faults

PLAIN = Bindings.start({}, run_id="r1", nonce="n1")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def escaped(value: Any) -> Any:
    match value:
        case str():
            return escape(value)
        case list():
            return [escaped(item) for item in value]
        case dict():
            return {key: escaped(item) for key, item in value.items()}
        case _:
            return value


def test_let_is_resolved_in_the_order_of_need() -> None:
    bound = Bindings.start({"c": "${b}!", "b": "${a}-${nonce}", "a": "x-${run.id}", "n": 7, "l": ["${n}"]}, run_id="r1", nonce="n1")
    assert bound.values["c"] == "x-r1-n1!"
    assert bound.values["l"] == [7]


def test_a_ring_is_named() -> None:
    with pytest.raises(UsageError, match="circular let: a -> b -> c -> a"):
        let_order({"a": "${b}", "b": "${c}", "c": "${a} ${nonce}"})


@given(names=st.permutations(range(6)), needs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=10))
def test_order_is_found_whenever_there_is_one(names: list[int], needs: list[tuple[int, int]]) -> None:
    """Needs always point to a lower number, so there is no ring, however the entries are shuffled."""
    let = {f"v{n}": " ".join(f"${{v{low}}}" for high, low in needs if high == n and low < n) for n in names}
    order = let_order(let)
    assert sorted(order) == sorted(let)
    for name in order:
        assert all(order.index(need) < order.index(name) for need in references(let[name]))


@given(value=JSON)
def test_a_value_that_is_one_template_keeps_its_type(value: Any) -> None:
    bound = PLAIN.with_captures("step", {"it": value})
    assert bound.render({"a": ["${step.it}"]}) == {"a": [value]}


@given(value=JSON)
def test_escaped_text_comes_back_whatever_it_holds(value: Any) -> None:
    assert PLAIN.render(escaped(value)) == value
    assert references(escaped(value)) == set()


@given(before=st.text(max_size=8), inserted=st.text(max_size=8), after=st.text(max_size=8))
def test_text_is_inserted_as_it_is_and_never_read_again(before: str, inserted: str, after: str) -> None:
    bound = PLAIN.with_captures("s", {"t": inserted})
    template = f"{escape(before)}|${{s.t}}|{escape(after)}"
    assert bound.render(template) == f"{before}|{inserted}|{after}"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("n: ${s.n}", "n: 7"),
        ("${s.b} ${s.none}", "true null"),
        ("${s.list}.", '[1,"ü"].'),
        ("$${s.n}", "${s.n}"),
        ("$$${s.n}", "$${s.n}"),
        ("$${ ${s.n}", "${ 7"),
        ("$ {x} $x {x}", "$ {x} $x {x}"),
    ],
)
def test_within_text_other_values_are_compact_json(template: str, expected: str) -> None:
    bound = PLAIN.with_captures("s", {"n": 7, "b": True, "none": None, "list": [1, "ü"]})
    assert bound.render(template) == expected


def test_keys_are_left_alone() -> None:
    assert PLAIN.render({"${nonce}": "${nonce}"}) == {"${nonce}": "n1"}


def test_every_missing_name_is_told_with_the_place() -> None:
    with pytest.raises(Unresolved) as caught:
        PLAIN.render({"a": "${write.id}", "b": ["x ${gone}", "${nonce}"]}, where=Location(file="f.yaml", line=3, column=5))
    assert caught.value.names == ("gone", "write.id")
    assert caught.value.where == "f.yaml:3:5"
    assert caught.value.exit_code is Exit.INCOMPLETE
    assert PLAIN.missing("${write.id}") == ("write.id",)


def test_captures_make_new_bindings() -> None:
    more = PLAIN.with_captures("s", {"a": 1})
    assert PLAIN.missing("${s.a}") == ("s.a",)
    assert more.render("${s.a}") == 1
    with pytest.raises(TypeError):
        more.values["s.a"] = 2  # type: ignore[index]


def test_a_connection_is_rendered_whole() -> None:
    spec = ConnectionSpec(provider="mem0", consent=ConsentSpec(tags=("t-${nonce}",)), fake={"delay_s": "${d}"})
    bound = Bindings.start({"d": 3}, run_id="r1", nonce="n1")
    assert bound.render_model(spec) == ConnectionSpec(provider="mem0", consent=ConsentSpec(tags=("t-n1",)), fake={"delay_s": 3})


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("${a} ${a.b} $${", ()),
        ("${}", ("${}",)),
        ("${ a }", ("${ a }",)),
        ("${a.b.c}", ("${a.b.c}",)),
        ("${a", ("${a",)),
        ("${${a}", ("${${a}",)),
    ],
)
def test_malformed_templates_are_found(text: str, faults: tuple[str, ...]) -> None:
    assert template_faults(text) == faults


def test_a_let_that_would_fill_the_memory_is_refused_before_it_is_written_out() -> None:
    let = {"v0": "laugh"} | {f"v{n}": ["${v%d}" % (n - 1)] * 4 for n in range(1, 40)}  # noqa: UP031
    with pytest.raises(UsageError, match="grows beyond 1,000,000 characters"):
        let_order(let)
    bound = PLAIN.with_captures("s", {"big": "x" * 200_000})
    with pytest.raises(UsageError, match="a text grows beyond"):
        bound.render("${s.big} " * 10)
