"""Patterns as automata, with a library's automata and a regular-expression engine as second and third opinion."""

from __future__ import annotations

import re

import pytest
from greenery import parse as greenery_parse
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.drift.language import Window, automaton, finite_texts, outside, pattern_included, texts
from harness.drift.linear import matcher
from harness.drift.regex import NotRegular, parse

ATOMS = st.sampled_from(["a", "b", "[ab]", "[a-c]", "[^a]", "(a|bc)", "(ab)", "c"])
PIECES = st.builds(lambda atom, times: atom + times, ATOMS, st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}", "{0,1}"]))
BODIES = st.lists(PIECES, min_size=1, max_size=3).map("".join)


@settings(max_examples=30, deadline=None)
@given(BODIES, BODIES)
def test_inclusion_agrees_with_greenery(one: str, other: str) -> None:
    mine = outside([automaton(f"^({one})$")], automaton(f"^({other})$"))
    left, right = greenery_parse(one).to_fsm(), greenery_parse(other).to_fsm()
    assert (mine is False) == (left <= right)
    if isinstance(mine, str):
        assert re.fullmatch(one, mine)
        assert not re.fullmatch(other, mine)


@settings(max_examples=80, deadline=None)
@given(BODIES, st.sampled_from(["^{}$", "^{}", "{}$", "{}", "^({}|b)$", "(^{}|c$)"]), st.text("abcd", max_size=6))
def test_matching_agrees_with_two_engines(body: str, frame: str, text: str) -> None:
    pattern = frame.format(body)
    found = re.search(pattern, text) is not None
    assert matcher(pattern)(text) is found
    walk = automaton(pattern)
    state = walk.start()
    for char in text:
        state = walk.step(state, ord(char))
    assert walk.accepts(state) is found


@settings(max_examples=60, deadline=None)
@given(BODIES)
def test_samples_match(body: str) -> None:
    pattern = f"^({body})$"
    found = list(texts([automaton(pattern)], 8))
    assert found
    assert all(re.search(pattern, text) for text in found)


@pytest.mark.parametrize(
    ("one", "other", "included"),
    [
        ("^(recent|oldest|score)$", r"^\w+$", True),
        ("^[a-z]{1,64}$", "^[a-z0-9]{1,100}$", True),
        ("^[a-z0-9]{1,100}$", "^[a-z]{1,64}$", False),
        ("^.{1,500}$", "^.{1,501}$", True),
        (r"^[\w.-]+$", r"^[\w.\-]*$", True),
        (r"^\d+$", r"^[0-9]+$", True),
        (r"^\p{Lu}+$", r"^\p{L}+$", True),
        (r"^é$", "^\\u00e9$", True),
        ("^(?:a|b)$", "^(?<name>a|b)$", True),
        ("^a", "a", True),
        ("a", "^a", False),
        ("^[^\\s\\S]$", "^x$", True),
        (r"^\u{1F600}$", "^.$", True),
        ("^a.b$", "^a[^\\n\\r\\u2028\\u2029]b$", True),
    ],
)
def test_what_tools_really_say(one: str, other: str, included: bool) -> None:
    assert pattern_included([automaton(one)], other) is included


@pytest.mark.parametrize(
    "pattern", ["(?=a)b", "(?!a)", "(?<=a)b", r"(a)\1", r"\bword\b", "(a", "a)", "[b-a]", "a**", "{", "*", "a{2,1}", r"\q", "a" * 3000, "(" * 70]
)
def test_what_is_not_regular_is_refused(pattern: str) -> None:
    with pytest.raises(NotRegular):
        parse(pattern)


def test_a_newline_at_the_end_is_no_end() -> None:
    assert not matcher("^recent$")("recent\n")
    assert finite_texts([automaton("^(recent|oldest)$")], 10) is not None
    assert sorted(finite_texts([automaton("^(recent|oldest)$")], 10) or ()) == ["oldest", "recent"]


def test_lists_of_texts_end() -> None:
    assert finite_texts([automaton("^a*$")], 100) is None
    assert finite_texts([automaton("^[a-z]$"), Window(2, None)], 100) == ()
    assert finite_texts([automaton("^.$")], 100) is None
    assert len(finite_texts([automaton("^[a-j][0-9]$")], 100) or ()) == 100


def test_the_bound_is_an_answer_of_its_own() -> None:
    assert outside([automaton("^(a|b)*a(a|b){14}$")], automaton("^(a|b)*b(a|b){14}$")) is not False
    assert outside([automaton("^[ab]*a[ab]{18}$"), automaton("^[ab]*b[ab]{17}$")], automaton("^[ab]*$")) is None
