"""What speaks for our own side, and for credentials that were never there. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from harness.model.cause import CauseClass, Sign
from harness.model.finding import Finding
from harness.nightly.case import Case

CREDENTIALS = frozenset({"credentials-missing", "consent-missing"})
OWN = frozenset({"usage", "port-in-use", "foreign-data", "prerequisite-missing", "budget-spent", "could-not-tell"})
UNEVALUABLE = "could not be evaluated: "


def own_signs(case: Case) -> Iterator[Sign]:
    for finding in case.findings:
        where = f"finding {finding.id}"
        if finding.id in CREDENTIALS:
            yield sign("credentials", finding.message, where)
        elif finding.id in OWN or "internal error: " in finding.message:
            yield sign("harness_defect", finding.message.splitlines()[0][:200], where)
        elif ours(finding):
            yield sign("harness_defect", finding.message, where)
    yield from of_set_up(case)


def ours(finding: Finding) -> bool:
    """An expectation that made no sense, or a live rule that our own scenario ran into."""
    senseless = UNEVALUABLE in finding.message and "was never captured" not in finding.message
    return senseless or (finding.id == "live-guard" and not finding.message.endswith("(retry-after)"))


def of_set_up(case: Case) -> Iterator[Sign]:
    """What the gateway was told wrong, and what the scenario asks of tools that nobody ever agreed to."""
    what = case.trouble.what if case.trouble else ""
    if case.trouble is not None and case.trouble.type in ("UsageError", "LoadError", "PortInUse"):
        yield sign("harness_defect", what.splitlines()[0][:200], "set-up")
    if "memory_api_key_rejected" in what:
        yield sign("credentials", "the gateway says that the provider rejected the key", "operator API")


def sign(speaks_for: CauseClass, what: str, where: str) -> Sign:
    return Sign(speaks_for=speaks_for, what=what, where=where)
