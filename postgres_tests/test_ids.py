"""Ids and names that are none, on the store that keeps fewer texts: the very tests that SQLite passes."""

from __future__ import annotations

import pytest

from tests.reference_gateway import test_ids as shared
from tests.reference_gateway.conftest import provider
from tests.reference_gateway.test_ids import neighbours

__all__ = ["neighbours", "place", "provider"]

SAME = {name: function for name, function in vars(shared).items() if name.startswith("test_")}
globals().update(SAME)


@pytest.fixture
def place(url: str) -> str:
    return url


def test_the_suite_is_the_same() -> None:
    assert len(SAME) >= 6
