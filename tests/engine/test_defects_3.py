"""Share 3 of the defects, each found where the table says."""

from __future__ import annotations

from typing import Any

import pytest

from .defects import find, share


@pytest.mark.parametrize("defect", share(2))
def test_a_defect_is_found_where_the_table_says(defect: str, run: Any) -> None:
    find(defect, run)
