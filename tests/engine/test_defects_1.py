"""Share 1 of the defects, each found where the table says; without one, the scenarios of this share find nothing."""

from __future__ import annotations

from typing import Any

import pytest

from .defects import find, pass_without, share


@pytest.mark.parametrize("defect", share(0))
def test_a_defect_is_found_where_the_table_says(defect: str, run: Any) -> None:
    find(defect, run)


def test_the_gateway_without_defects_passes_what_finds_them(run: Any) -> None:
    pass_without(0, run)
