"""Of the whole project: pytest's own tester, for the tests of our plug-in."""

from __future__ import annotations

pytest_plugins = ["pytester"]
