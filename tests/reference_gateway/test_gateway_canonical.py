"""Canonical JSON: the published hashes, the edges of numbers and text, and what is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from reference_gateway.canonical import MAX_DEPTH, NotCarried, arguments_digest, canonical_bytes, schema_hash

VECTORS: dict[str, list[dict[str, str]]] = json.loads((Path(__file__).parent / "data" / "schema_hashes.json").read_text())
EMPTY = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"

SCALARS = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=20)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("vector", VECTORS["published"], ids=lambda vector: str(vector["tool"]))
def test_a_published_schema_has_its_published_hash(vector: dict[str, str]) -> None:
    assert schema_hash(json.loads(vector["json"])) == vector["sha256"]


@pytest.mark.parametrize("vector", VECTORS["edges"], ids=lambda vector: str(vector["canonical"]))
def test_number_and_text_edges(vector: dict[str, str]) -> None:
    schema = json.loads(vector["json"])
    assert schema_hash(schema) == vector["sha256"] == sha(vector["canonical"])


@pytest.mark.parametrize("absent", [None, [], "{}", 7, True, [{"type": "object"}]])
def test_a_schema_that_is_no_object_hashes_as_the_empty_one(absent: object) -> None:
    assert schema_hash(absent) == schema_hash({}) == EMPTY


@pytest.mark.parametrize(
    ("number", "printed"),
    [
        (2**53, "9007199254740992"),
        (2**53 + 1, "9007199254740992"),
        (-(2**53) - 1, "-9007199254740992"),
        (12345678901234567890, "12345678901234567000"),
        (10**21, "1e+21"),
        (10**400, "null"),
        (float("inf"), "null"),
    ],
)
def test_a_schema_prints_numbers_as_javascript_would(number: float, printed: str) -> None:
    assert schema_hash({"maximum": number}) == sha(f'{{"maximum":{printed}}}')


def test_a_schema_with_half_a_surrogate_pair_hashes_as_its_escape() -> None:
    assert schema_hash({"pattern": "\udc00a"}) == sha('{"pattern":"\\udc00a"}')


def test_keys_are_ordered_by_utf_16_units_in_records_too() -> None:
    assert canonical_bytes({"\U0001f600": 1, "\ufe4f": 2, "z": [{"\U0001f600": 1, "\ufe4f": 2}]}).decode() == (
        '{"z":[{"\U0001f600":1,"\ufe4f":2}],"\U0001f600":1,"\ufe4f":2}'
    )


@given(VALUES)
def test_agrees_with_an_independent_writer(value: Any) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)


@given(st.dictionaries(st.text(), SCALARS, min_size=2), st.randoms(use_true_random=False))
def test_key_order_never_matters_and_array_order_does(members: dict[str, Any], random: Any) -> None:
    keys = list(members)
    random.shuffle(keys)
    assert schema_hash({key: members[key] for key in keys}) == schema_hash(members)
    assert schema_hash({"required": ["b", "a"]}) != schema_hash({"required": ["a", "b"]})


@given(st.integers(), st.integers())
def test_the_digest_tells_every_two_integers_apart(one: int, other: int) -> None:
    assert (arguments_digest({"id": one}) == arguments_digest({"id": other})) == (one == other)


def test_large_ids_are_digested_digit_for_digit() -> None:
    assert arguments_digest({"memory_id": 725653563933458433}) == sha('{"memory_id":725653563933458433}')
    assert arguments_digest({"n": 10**400}) == sha(f'{{"n":1{"0" * 400}}}')


@pytest.mark.parametrize("pair", [(7, "7"), (True, 1), (None, "null"), ([], {}), ("", None), ("é", "e\u0301")])
def test_look_alikes_have_different_digests(pair: tuple[Any, Any]) -> None:
    assert arguments_digest({"x": pair[0]}) != arguments_digest({"x": pair[1]})


def test_one_number_spelled_in_several_ways_has_one_digest() -> None:
    assert len({arguments_digest(json.loads(text)) for text in ('{"x":100}', '{"x":1e2}', '{"x":100.0}', '{"x":1.0E+2}')}) == 1
    assert arguments_digest({"x": -0.0}) == arguments_digest({"x": 0})


@pytest.mark.parametrize(
    "value",
    [
        json.loads("1e400"), -json.loads("1e400"), float("nan"), "\ud83e", {"\udfff": 1}, object(), b"bytes", {1: 2}, {"deep": [{1, 2}]},
        int("9" * 4300) * 10,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_json_cannot_carry_exactly_is_refused(value: Any) -> None:
    with pytest.raises(NotCarried) as caught:
        arguments_digest({"x": value})
    assert caught.value.code == "invalid_arguments"


def test_an_audit_record_may_not_hold_an_inexact_integer() -> None:
    with pytest.raises(NotCarried):
        canonical_bytes({"code": 2**53})


@pytest.mark.parametrize("hashing", [schema_hash, arguments_digest, canonical_bytes])
def test_nesting_is_bounded_without_a_recursion_error(hashing: Any) -> None:
    def nested(depth: int) -> Any:
        value: Any = {}
        for _ in range(depth):
            value = {"a": value}
        return value

    assert hashing(nested(MAX_DEPTH))
    with pytest.raises(NotCarried, match="nested"):
        hashing(nested(MAX_DEPTH + 1))
    with pytest.raises(NotCarried, match="nested"):
        hashing(nested(100_000))
