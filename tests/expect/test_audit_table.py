"""The table of audit words: each word matches its own rows and no other word's; anything missing, extra or out of order matches nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.expect.audit_table import TABLE, matches, name_of

WORDS = sorted(TABLE)


def records(word: str) -> list[dict[str, Any]]:
    return [{"event": r.event, "outcome": r.outcome, "decision": r.decision, "reason": sorted(r.reasons)[0]} for r in TABLE[word]]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_recognised_and_is_unlike_every_other(word: str) -> None:
    assert matches(word, records(word))
    assert [w for w in WORDS if matches(w, records(word))] == [word]


@given(st.sampled_from([w for w in WORDS if len(TABLE[w]) > 1]), st.data())
def test_a_missing_record_is_never_the_same_outcome(word: str, data: st.DataObject) -> None:
    trail = records(word)
    del trail[data.draw(st.integers(0, len(trail) - 1))]
    assert not matches(word, trail)


@given(st.sampled_from(WORDS), st.sampled_from(WORDS))
def test_a_second_trail_appended_is_never_the_same_outcome(word: str, other: str) -> None:
    assert not matches(word, records(word) + records(other))


@given(st.sampled_from(WORDS), st.data())
def test_one_altered_field_is_never_the_same_outcome(word: str, data: st.DataObject) -> None:
    trail = records(word)
    index = data.draw(st.integers(0, len(trail) - 1))
    field = data.draw(st.sampled_from(["event", "decision", "reason"]))
    if word == "replayed" and field == "decision":
        return  # a replay carries the original outcome; its decision is not what tells it
    trail[index] = trail[index] | {field: "something_else"}
    assert not matches(word, trail)


def test_an_empty_trail_has_no_name() -> None:
    assert name_of([]) == ""
