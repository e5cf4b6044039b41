"""What ends a step of a live run before anything is sent."""

from __future__ import annotations

from harness.errors import CredentialsMissing, Incomplete, UsageError


class BudgetSpent(Incomplete):
    """Going on would exceed what the run may cost (5)."""


class ConsentMissing(CredentialsMissing):
    """The run was not allowed to do this (3)."""


class ForeignData(UsageError):
    """The scenario would touch what this run did not make (2)."""
