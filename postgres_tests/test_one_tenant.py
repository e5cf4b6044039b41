"""One tenant, two gateways on one database: the very tests that two gateways on one SQLite file pass."""

from __future__ import annotations

import pytest

from tests.reference_gateway import test_two_gateways as shared
from tests.reference_gateway.conftest import provider
from tests.reference_gateway.test_two_gateways import pair

__all__ = ["pair", "place", "provider"]

SAME = {name: function for name, function in vars(shared).items() if name.startswith("test_")}
globals().update(SAME)


@pytest.fixture
def place(url: str) -> str:
    return url


def test_the_suite_is_the_same() -> None:
    assert len(SAME) >= 11
