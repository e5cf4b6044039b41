"""The canonical text: RFC 8785 as an independent library writes it, and exact beyond it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import rfc8785
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.model.digest import NotCanonical, arguments_digest, canonical_text, json_digest, loads_exact

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy

ordinary = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=5),
    max_leaves=20,
)


@RELAXED
@given(ordinary)
def test_ordinary_values_are_written_as_rfc_8785(value: Any) -> None:
    assert canonical_text(value).encode() == rfc8785.dumps(value)
    assert json_digest(value) == hashlib.sha256(rfc8785.dumps(value)).hexdigest()


@RELAXED
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_double(value: float) -> None:
    assert canonical_text(value).encode() == rfc8785.dumps(value)


@RELAXED
@given(st.integers())
def test_integers_digit_for_digit(value: int) -> None:
    assert canonical_text(loads_exact(str(value))) == str(value)


@RELAXED
@given(st.integers(4290, 5000), st.booleans())
def test_integers_beyond_what_python_reads(digits: int, negative: bool) -> None:
    text = ("-" if negative else "") + "7" * digits
    assert canonical_text(loads_exact(f'{{"n":[{text}]}}')) == f'{{"n":[{text}]}}'
    assert json_digest(loads_exact(text)) != json_digest(loads_exact(text[:-1] + "8"))


@RELAXED
@given(ordinary)
def test_the_text_is_a_fixed_point(value: Any) -> None:
    text = canonical_text(value)
    assert canonical_text(json.loads(text)) == text


@RELAXED
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(), min_size=2))
def test_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    assert arguments_digest(value) == arguments_digest(dict(reversed(value.items())))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"n": 2**64 + 1}, '{"n":18446744073709551617}'),
        ({"a": 1.0, "b": 1e21, "c": 1e-7, "d": -0.0, "e": 123456789012345680000.0}, '{"a":1,"b":1e+21,"c":1e-7,"d":0,"e":123456789012345680000}'),
        ({"\U0001f600": 1, "￿": 2}, '{"\U0001f600":1,"￿":2}'),  # by UTF-16 unit: the surrogate sorts first
        ({"a": True, "b": 1, "c": "1", "d": None}, '{"a":true,"b":1,"c":"1","d":null}'),
        ("\u2028\x7f/\b\f\n\r\t\x1f\"\\", '"\u2028\x7f/\\b\\f\\n\\r\\t\\u001f\\"\\\\"'),
        ([[], {}, [{}]], "[[],{},[{}]]"),
    ],
)  # fmt: skip
def test_known_texts(value: Any, text: str) -> None:
    assert canonical_text(value) == text


def test_absent_arguments_are_the_empty_object() -> None:
    assert arguments_digest(None) == arguments_digest({}) == hashlib.sha256(b"{}").hexdigest()


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "\ud800", {"\udfff": 1}, {1: 2}, object(), b"x", {"deep": [float("-inf")]}])
def test_what_has_no_canonical_text(value: Any) -> None:
    with pytest.raises(NotCanonical):
        canonical_text(value)


def test_depth_is_an_error_not_a_crash() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(NotCanonical):
        canonical_text(deep)
    while deep:
        deep = deep.pop()  # taking it apart from the outside, or freeing it would recurse as well


@pytest.mark.parametrize("text", ["", "{", "NaN", "[Infinity]", "[" * 100_000, b"\xff", "{'a':1}", "01"])
def test_what_is_no_json(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        loads_exact(text)


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', '[{"b":{"a":1,"\\u0061":2}}]', '{"a":' + "1" * 5000 + ',"a":2}'])
def test_what_is_said_twice_has_no_one_reading(text: str) -> None:
    with pytest.raises(ValueError, match="twice"):
        loads_exact(text, unique=True)
    assert loads_exact(text)
    assert loads_exact('{"a":{"a":[{"a":1},{"a":1}]}}', unique=True) == {"a": {"a": [{"a": 1}, {"a": 1}]}}


def test_an_overflowing_exponent_is_read_but_has_no_text() -> None:
    with pytest.raises(NotCanonical):
        arguments_digest(loads_exact('{"n":1e400}'))
