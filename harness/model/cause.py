"""Whose trouble a failure is: the classes of triage, and what spoke for the one that was chosen."""

from __future__ import annotations

from typing import Literal, get_args

from harness.model.location import Frozen

CauseClass = Literal["provider_outage", "provider_change", "gateway_defect", "harness_defect", "credentials", "unknown"]
CLASSES: tuple[CauseClass, ...] = get_args(CauseClass)
MEANING: dict[CauseClass, str] = {
    "provider_outage": "the provider did not answer, or answered that it cannot now",
    "provider_change": "the provider answers, and differs from what was agreed or from what it used to say",
    "gateway_defect": "the witnesses contradict the gateway, or it did what it must not do",
    "harness_defect": "our own side: a scenario, a rule, or the harness itself",
    "credentials": "a credential or consent is missing, wrong or expired",
    "unknown": "the evidence does not tell",
}


class Sign(Frozen):
    """One observation that speaks for a class. `where` names the evidence: a tap exchange, an invocation, a finding, a probe."""

    speaks_for: CauseClass
    what: str
    where: str = ""


class Cause(Frozen):
    """`signs`: those for the class first, then what spoke for others and was outweighed."""

    cause: CauseClass
    signs: tuple[Sign, ...]

    @property
    def because(self) -> tuple[Sign, ...]:
        return tuple(sign for sign in self.signs if sign.speaks_for == self.cause)
