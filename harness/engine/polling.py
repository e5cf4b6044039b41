"""`eventually:` ask again until the step's expectations hold or its budget is spent. Each attempt is evidence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from harness.clock import Clock
from harness.engine.documents import Documents
from harness.engine.evaluate import evaluate_step
from harness.model.evidence import EvidenceRecord
from harness.model.plan import PlanItem
from harness.model.scenario import Step
from harness.scenario.variables import Bindings

GROWTH = 1.5


@dataclass
class Poll:
    """Time waited so far, in the provider's own time: a stand-in is told that time passes, a real provider is waited for."""

    within_s: float
    every_s: float
    settle: Callable[[float], Awaitable[None]] | None
    clock: Clock
    attempts: int = 0
    elapsed: float = 0.0

    @property
    def over(self) -> bool:
        return self.elapsed >= self.within_s

    async def wait(self) -> None:
        pause = min(self.every_s * GROWTH ** (self.attempts - 1), max(self.within_s - self.elapsed, 0.0))
        if self.settle is not None:
            await self.settle(pause)
        else:
            await self.clock.sleep(pause)
        self.elapsed += pause


def holds(records: Sequence[EvidenceRecord], item: PlanItem, step: Step, bindings: Bindings, documents: Documents) -> bool:
    """True when every expectation of the step holds on the evidence so far; what this target cannot show at all is not waited for."""
    view = documents.view(records, item.scenario)
    return all(f.id == "untestable" for f in evaluate_step(step, bindings, view))
