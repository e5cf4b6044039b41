"""What a run may cost is refused before it is spent, and a provider that asks for time is given it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.clock import TestClock
from harness.errors import UsageError
from harness.live.budget import Budget, Spending
from harness.live.pace import LONGEST_S, UNSAID_S, Pace, retry_after

NOW = datetime(2026, 12, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize("wrong", [{"calls": 0}, {"calls": -1}, {"seconds": 0.0}, {"seconds": float("inf")}, {"cost": 0.0}, {"cost": float("nan")}])
def test_a_budget_is_a_number_above_nothing(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        Budget(**wrong)  # type: ignore[arg-type]


@given(calls=st.integers(1, 30), cost=st.floats(0.5, 40), units=st.lists(st.floats(0, 5), max_size=60), reserve=st.integers(0, 5))
def test_calls_and_cost_are_never_exceeded(calls: int, cost: float, units: list[float], reserve: int) -> None:
    spending = Spending(Budget(calls, 60.0, cost), TestClock())
    spending.reserve = reserve
    for each in units:
        if not spending.refusal(each, cleanup=False):
            spending.charge(each)
    assert spending.calls <= max(calls - reserve, 0)
    assert spending.cost <= cost


def test_what_is_kept_for_cleanup_is_cleanups() -> None:
    spending = Spending(Budget(3, 60.0), TestClock())
    spending.reserve = 2
    assert not spending.refusal(1, cleanup=False)
    spending.charge(1)
    assert "2 kept for cleanup" in spending.refusal(1, cleanup=False)
    assert not spending.refusal(1, cleanup=True)


def test_seconds_end_for_steps_before_they_end_for_cleanup() -> None:
    clock = TestClock()
    spending = Spending(Budget(100, 50.0), clock)
    asyncio.run(clock.advance(41.0))
    assert "the budget of 50 s" in spending.refusal(1, cleanup=False)
    assert not spending.refusal(1, cleanup=True)
    asyncio.run(clock.advance(10.0))
    assert spending.refusal(1, cleanup=True)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 0 ", 0.0),
        ("Tue, 01 Dec 2026 12:00:30 GMT", 30.0),
        ("Tue, 01 Dec 2026 11:00:00 GMT", 0.0),
        ("999999999", LONGEST_S),
        ("-3", None),
        ("soon", None),
        ("1e3", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_as_seconds_and_as_a_date(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, NOW) == seconds


def test_a_limited_provider_is_left_alone_and_no_other() -> None:
    clock = TestClock()
    pace = Pace(clock)
    pace.answered("mem0", 429, [(b"Retry-After", b"8")])
    assert pace.wait("mem0") == 8.0
    assert pace.wait("zep") == 0.0
    asyncio.run(clock.advance(8.0))
    assert pace.wait("mem0") == 0.0


def test_without_a_word_of_how_long_each_429_in_a_row_doubles_it() -> None:
    clock = TestClock()
    pace = Pace(clock)
    for number in range(3):
        pace.answered("mem0", 429, [])
        assert pace.wait("mem0") == UNSAID_S * 2**number
        asyncio.run(clock.advance(pace.wait("mem0")))
    pace.answered("mem0", 200, [])
    pace.answered("mem0", 429, [])
    assert pace.wait("mem0") == UNSAID_S


def test_a_503_counts_only_when_it_says_when_to_come_back() -> None:
    pace = Pace(TestClock())
    pace.answered("mem0", 503, [])
    assert pace.wait("mem0") == 0.0
    pace.answered("mem0", 503, [(b"retry-after", b"3")])
    assert pace.wait("mem0") == 3.0
