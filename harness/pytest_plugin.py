"""`pytest scenarios/`: the scenario files as test items over the same plan, run and judge. Inert until it meets one."""

from __future__ import annotations
