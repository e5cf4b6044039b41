"""Times are compared as instants (public case c07)."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from harness.expect.base import Place
from harness.expect.instant import KIND, Params, read
from harness.expect.scene import Scene, answer


def messages(actual: object, **params: str) -> list[str]:
    scene = Scene()
    scene.call(result=answer({"created_at": actual}))
    return [f.message for f in KIND.judge(Params(at="/created_at", **params), Place("e", "act", "x"), scene.view())]  # type: ignore[arg-type]


@pytest.mark.parametrize("other", ["2026-07-24T19:00:00-07:00", "2026-07-25T02:00:00.000000+00:00"])
def test_the_same_instant_written_otherwise_is_equal(other: str) -> None:
    assert messages(other, equals="2026-07-25T02:00:00Z") == []


def test_a_naive_time_is_a_finding_and_no_zone_is_guessed() -> None:
    assert messages("2026-07-25T02:00:00", equals="2026-07-25T02:00:00Z") == ["/created_at: naive, unknown offset"]


def test_a_placeholder_is_a_finding() -> None:
    assert messages("1970-01-01T00:00:00Z", equals="2026-07-25T02:00:00Z") == ["/created_at is a placeholder timestamp"]


def test_a_created_at_outside_its_window_is_a_finding() -> None:
    assert "earlier" in messages("2026-07-25T01:00:00Z", not_before="2026-07-25T02:00:00Z")[0]
    assert "later" in messages("2026-07-25T03:00:00Z", not_after="2026-07-25T02:00:00Z")[0]
    assert messages("2026-07-25T02:00:00Z", not_before="2026-07-25T02:00:00Z", not_after="2026-07-25T02:00:00Z") == []


def test_an_expected_time_needs_an_offset() -> None:
    with pytest.raises(ValidationError):
        Params(at="/x", equals="2026-07-25T02:00:00")


def test_what_is_no_time_is_said_to_be_none() -> None:
    assert read(7) == "no text"
    assert read("yesterday") == "not a time"
