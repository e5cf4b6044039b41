"""Of the whole project: pytest's own tester, for the tests of our plug-in; and a collector that leaves alone what collecting made."""

from __future__ import annotations

import gc

pytest_plugins = ["pytester"]


def pytest_collection_finish() -> None:
    """Six thousand tests and all they import stay until the end: looking through them again and again is a tenth of every test's time."""
    gc.collect()
    gc.freeze()
