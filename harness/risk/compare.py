"""Who disagrees with the oracle about a tool's risk, why, and in which direction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from harness.model.location import Frozen
from harness.model.risk import RISKS, Risk, RiskDisagreement, RiskVerdict, rank
from harness.risk.oracle import Oracle


class RiskClaim(Frozen):
    """What a party says of a tool, and its reason if it gave one."""

    by: str
    risk: Risk
    why: str = ""


def disagreements(verdict: RiskVerdict, claims: Iterable[RiskClaim]) -> tuple[RiskDisagreement, ...]:
    """One finding per claim that differs. Under-claiming fails (a harmful tool passes as harmless), over-claiming warns."""
    return tuple(_disagreement(verdict, claim) for claim in claims if claim.risk != verdict.risk)


def catalog_disagreements(
    oracle: Oracle, provider: str, entries: Iterable[Mapping[str, Any]], *, by: str = "gateway"
) -> tuple[RiskDisagreement, ...]:
    """A gateway's catalog (`operator/v1` entries) against the oracle, in the catalog's order. A class that is no risk word raises ValueError."""
    found: list[RiskDisagreement] = []
    for entry in entries:
        risk = entry.get("risk")
        if risk not in RISKS:
            raise ValueError(f"{entry.get('name')}: {risk!r} is no risk class")
        verdict = oracle.judge_name(provider, str(entry["name"]), entry.get("annotations"))
        found += disagreements(verdict, [RiskClaim(by=by, risk=risk, why=str(entry.get("risk_reason") or ""))])
    return tuple(found)


def _disagreement(verdict: RiskVerdict, claim: RiskClaim) -> RiskDisagreement:
    under = rank(claim.risk) < rank(verdict.risk)
    why = f"oracle: {verdict.reason}" + (f"; {claim.by}: {claim.why}" if claim.why else "")
    return RiskDisagreement(
        id="risk-under-claimed" if under else "risk-over-claimed",
        severity="fail" if under else "warn",
        provider=verdict.provider,
        tool=verdict.tool,
        claimed_by=claim.by,
        claimed=claim.risk,
        expected=verdict.risk,
        direction="under" if under else "over",
        why=why,
        fix=f"classify it as {verdict.risk}, or review the tool and record its class in the inventory",
    )
