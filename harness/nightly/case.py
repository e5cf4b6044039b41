"""One failed item as triage sees it: its verdict, the evidence, and a second look at its providers. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from harness.expect.view import Dispatch, View
from harness.model.evidence import ClientExchange, EvidenceRecord, PlanItemRecord, StepRecord, Trouble
from harness.model.exchange import ProviderExchange
from harness.model.finding import Finding
from harness.model.manifest import Manifest
from harness.model.scenario import Scenario
from harness.model.verdict import Verdict
from harness.nightly.probe import Probe

BAD = ("fail", "drift", "error")


@dataclass(frozen=True)
class Case:
    """`probes`: provider → what the harness itself saw there this night; empty where nobody looked."""

    verdict: Verdict
    scenario: Scenario
    records: Sequence[EvidenceRecord]
    manifests: Mapping[str, Manifest]
    probes: Mapping[str, Probe] = field(default_factory=dict)
    broken_off: str = ""
    """What ended the run as a whole, if anything did."""

    @cached_property
    def view(self) -> View:
        return View(self.records, {name: spec.provider or name for name, spec in self.scenario.connections.items()}, self.manifests)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.verdict.findings if f.severity in BAD)

    @cached_property
    def words(self) -> Mapping[str, str]:
        """Expectation's id → its kind."""
        return {e.id: e.word for e in self.scenario.every_expectation()}

    @cached_property
    def failing_steps(self) -> frozenset[str]:
        return frozenset(f.step for f in self.findings if f.step)

    @cached_property
    def trouble(self) -> Trouble | None:
        ends = [r for r in self.records if isinstance(r, PlanItemRecord) and r.phase == "end"]
        return ends[-1].trouble if ends else None

    @cached_property
    def step_troubles(self) -> tuple[Trouble, ...]:
        return tuple(r.trouble for r in self.records if isinstance(r, StepRecord) and r.trouble is not None and r.phase == "steps")

    def probe_of(self, connection: str) -> Probe | None:
        return self.probes.get(self.view.providers.get(connection, ""))

    @cached_property
    def view_lacking(self) -> frozenset[str]:
        """Abilities that the target has not."""
        return frozenset(self.view.item.lacking) if self.view.item else frozenset()

    @cached_property
    def dispatched(self) -> Mapping[int, Dispatch]:
        """Tool calls at the tap, by the identity of their exchange."""
        return {id(d.exchange): d for d in self.view.every_dispatch}

    def relevant(self) -> tuple[tuple[str, ProviderExchange], ...]:
        """What passed the tap for the steps that failed, and beside all steps."""
        spans = [(r.started_seq, r.ended_seq) for r in self.records if isinstance(r, StepRecord) and r.step in self.failing_steps]
        return tuple((c, e) for c, e in self.view.exchanges if id(e) not in self.dispatched or self._of_failing(e, spans))

    def _of_failing(self, exchange: ProviderExchange, spans: Sequence[tuple[int, int]]) -> bool:
        caller = self.dispatched[id(exchange)].caller
        return (caller is not None and caller.step in self.failing_steps) or any(a < exchange.started_seq < b for a, b in spans)

    def calls(self) -> Iterator[tuple[ClientExchange, tuple[ProviderExchange, ...]]]:
        """Each call of an agent with what reached the provider for it."""
        for record in self.records:
            if isinstance(record, ClientExchange) and record.method == "tools/call":
                yield record, tuple(d.exchange for d in self.view.every_dispatch if d.caller is record)


def at_tap(connection: str, exchange: ProviderExchange) -> str:
    """How an exchange is named in evidence."""
    what = exchange.tool or exchange.rpc_method or f"{exchange.method} {exchange.path}"
    return f"tap {connection} #{exchange.n} {what}"


def essence(result: Any) -> Any:
    """Of a tool result what must arrive unchanged; bookkeeping of protocol versions is left out."""
    if not isinstance(result, Mapping):
        return result
    return {key: result.get(key) for key in ("content", "structuredContent") if result.get(key) is not None} | {
        "isError": result.get("isError") is True
    }
