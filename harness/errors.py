"""The error tree. An exception means "we could not tell"; a judged fact is a Finding, never raised.

HarnessError                     where, what, how to fix; carries its exit code (DESIGN: exit codes)
├── UsageError            2      bad command line, scenario, inventory, manifest or configuration
│   ├── LoadError         2      a file could not be read as what it claims to be; has a position
│   └── PortInUse         2
├── CredentialsMissing    3      credentials or consent are missing
├── Unreachable           4      target or provider does not answer, dies, or never gets ready
├── Incomplete            5      evidence that cannot carry a verdict
│   ├── WitnessBlind      5
│   └── Untestable        5
└── ContractBroken        1      the other side broke the protocol in a way that ends the step
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum


class Exit(IntEnum):
    """Process exit codes. Several at once: the first of PRECEDENCE wins."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CREDENTIALS = 3
    UNREACHABLE = 4
    INCOMPLETE = 5
    DRIFT = 6


PRECEDENCE = (Exit.USAGE, Exit.CREDENTIALS, Exit.UNREACHABLE, Exit.FAILED, Exit.INCOMPLETE, Exit.DRIFT)


def fold_exit(codes: set[Exit]) -> Exit:
    """The one code that a process ends with: 2, then 3, 4, 1, 5, 6, else 0."""
    return next((code for code in PRECEDENCE if code in codes), Exit.OK)


class HarnessError(Exception):
    """Answers where, what and how to fix. `where` is "file:line:column", a URL, or a command."""

    exit_code: Exit = Exit.FAILED

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        remedy = f"\n  fix: {self.fix}" if self.fix else ""
        return f"{place}{self.what}{remedy}"


class UsageError(HarnessError):
    exit_code = Exit.USAGE


class LoadError(UsageError):
    """A file is not what it claims to be. `excerpt` is the offending source line, if there is one."""

    def __init__(self, what: str, *, where: str = "", fix: str = "", excerpt: str = "") -> None:
        super().__init__(what, where=where, fix=fix)
        self.excerpt = excerpt

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        shown = f"\n  | {self.excerpt}" if self.excerpt else ""
        remedy = f"\n  fix: {self.fix}" if self.fix else ""
        return f"{place}{self.what}{shown}{remedy}"


class LoadErrors(UsageError):
    """Every problem of one or more files, together, so that a user mends them in one go."""

    def __init__(self, errors: list[LoadError]) -> None:
        super().__init__("\n".join(str(e) for e in errors))
        self.errors = tuple(errors)


class PortInUse(UsageError):
    pass


class CredentialsMissing(HarnessError):
    exit_code = Exit.CREDENTIALS


class Unreachable(HarnessError):
    exit_code = Exit.UNREACHABLE


class Incomplete(HarnessError):
    exit_code = Exit.INCOMPLETE


class WitnessBlind(Incomplete):
    pass


class Untestable(Incomplete):
    pass


class ContractBroken(HarnessError):
    exit_code = Exit.FAILED


@contextmanager
def ungrouped() -> Iterator[None]:
    """Around work that is done side by side: what breaks off together is raised as the one error whose code wins.

    A group that holds anything but HarnessErrors goes on up as it is.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        ours, others = group.split(HarnessError)
        if ours is None or others is not None:
            raise
        raise min(_leaves(ours), key=lambda error: PRECEDENCE.index(error.exit_code)) from group


def _leaves(group: BaseExceptionGroup[HarnessError]) -> Iterator[HarnessError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
