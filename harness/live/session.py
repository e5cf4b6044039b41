"""The rules of a live run while it runs, enforced twice: before a step acts, and once more at the tap, whatever the gateway does.

At the tap a request that the rules forbid is answered there and never reaches the provider.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.clock import Clock
from harness.live.budget import BESIDE, Spending
from harness.live.endpoint import Hosted, hosted
from harness.live.marks import all_identities, flags, identities, texts
from harness.live.options import LiveOptions
from harness.live.pace import Pace
from harness.live.things import fits, served
from harness.live.trouble import BudgetSpent, ConsentMissing, ForeignData
from harness.model.answer import json_of
from harness.model.evidence import ApprovalRecord, ClientExchange, EvidenceRecord, Phase
from harness.model.manifest import Manifest
from harness.model.risk import Risk
from harness.risk.oracle import Oracle
from harness.tap.guard import Refused
from harness.tap.witness import MCP_CALL, OpenExchange

GUARD = "live-guard"
FIX_BUDGET = "raise --max-calls, --max-seconds or --max-cost, or select fewer scenarios"


@dataclass(frozen=True, slots=True)
class Ask:
    """A tool call that is about to be made, or has arrived at the tap."""

    provider: str
    tool: str
    arguments: Mapping[str, Any]


class LiveSession:
    """One per run: its budget and its patience are shared by all items."""

    def __init__(self, options: LiveOptions, manifests: Mapping[str, Manifest], oracle: Oracle, clock: Clock) -> None:
        self.options = options
        self.manifests = manifests
        self.oracle = oracle
        self.clock = clock
        self.spending = Spending(options.budget, clock)
        self.pace = Pace(clock)

    def hosted(self, provider: str) -> Hosted:
        return hosted(self.manifests[provider], self.options)

    def item(self, mark: str, providers: Mapping[str, str], cleanup: Sequence[tuple[str, str]]) -> LiveItem:
        """`mark`: the item's nonce. `cleanup`: (provider, tool) of each cleanup step, for which budget is kept back."""
        self.spending.reserve = len(cleanup)
        self.spending.reserve_cost = sum(self.units(provider, tool) for provider, tool in cleanup)
        return LiveItem(self, mark, providers=providers)

    def risk(self, ask: Ask) -> Risk:
        return self.oracle.judge_name(ask.provider, ask.tool).risk

    def units(self, provider: str, tool: str) -> float:
        manifest = self.manifests.get(provider)
        return float(manifest.live.cost.get(tool, 1.0)) if manifest else 1.0

    async def patience(self, provider: str, *, cleanup: bool = False) -> None:
        """Wait as long as the provider asked for, unless the budget ends before that. Raises BudgetSpent."""
        wait = self.pace.wait(provider)
        if wait <= 0:
            return
        if self.spending.seconds_left(cleanup=cleanup) <= wait:
            raise BudgetSpent(
                f"{provider} asked to be left alone for {wait:.0f} s more, which the budget of seconds does not allow", where=provider, fix=FIX_BUDGET
            )
        await self.clock.sleep(wait)


@dataclass
class LiveItem:
    """The rules for one plan item. `own`: ids that the provider gave to what this item made."""

    session: LiveSession
    mark: str
    own: set[str] = field(default_factory=set)
    cleaning: bool = False
    providers: Mapping[str, str] = field(default_factory=dict)
    """Connection → provider."""

    async def admit(self, provider: str, tool: str, arguments: Mapping[str, Any], phase: Phase) -> float:
        """Before a step calls a tool: how many seconds the call may take at most. Raises what the rules say."""
        self.cleaning = phase == "cleanup"
        ask = Ask(provider, tool, arguments)
        if why := self.forbidden(ask):
            kind = ConsentMissing if why[0] == "consent" else ForeignData
            fix = "add --allow-write" if why[0] == "consent" else "use values made of ${nonce} or ${run.id}, or captured from what the run made"
            raise kind(why[1], where=f"{provider}.{tool}", fix=fix)
        await self.session.patience(provider, cleanup=self.cleaning)
        if over := self.session.spending.refusal(self.session.units(provider, tool), cleanup=self.cleaning):
            raise BudgetSpent(f"not called, to stay within {over}", where=f"{provider}.{tool}", fix=FIX_BUDGET)
        return self.session.spending.seconds_left(cleanup=self.cleaning)

    def forbidden(self, ask: Ask) -> tuple[str, str] | None:
        """(kind, why) of the rule that this call breaks."""
        risk = self.session.risk(ask)
        if risk == "read":
            return None
        if not self.session.options.allow_write:
            return "consent", f"{ask.tool} may change data ({risk}), and this run was not allowed to write"
        mine = [text for text in texts(ask.arguments) if self.is_mine(text)]
        if not mine:
            return "foreign", f"{ask.tool} ({risk}) carries nothing that tells it is about this run's own data"
        return self._beyond(ask) if risk == "destructive" else self._elsewhere(ask)

    def _elsewhere(self, ask: Ask) -> tuple[str, str] | None:
        """A write goes into places of the run's own making: an argument that names where must be ours."""
        manifest = self.session.manifests.get(ask.provider)
        for thing in manifest.live.things if manifest else ():
            for name in thing.name if thing.made_by == ask.tool and fits(thing.when, ask.arguments) else ():
                if any(not self.is_mine(text) for text in texts(ask.arguments.get(name)) if text):
                    return "foreign", f"{ask.tool} would write where {name} says, which this run did not make"
        return None

    def _beyond(self, ask: Ask) -> tuple[str, str] | None:
        """A destructive call may name nothing but what the run made, and words of the tool's own schema."""
        words = self.session.oracle.words(ask.provider, ask.tool)
        for key, value in ask.arguments.items():
            strangers = [t for t in texts(value) if t and not self.is_mine(t) and t not in words.get(key, ())]
            if strangers:
                return "foreign", f"{ask.tool} is destructive, and {key} names something that this run did not make"
        if widened := next(flags(ask.arguments), ""):
            return "foreign", f"{ask.tool} is destructive, and {widened} widens what it hits"
        return None

    def is_mine(self, text: str) -> bool:
        return self.mark in text or text in self.own

    def observe(self, record: EvidenceRecord) -> None:
        """Learn which ids are this item's: those in answers to its own writes, and those of found objects that carry its mark."""
        if isinstance(record, ApprovalRecord) and served(record.result):
            self.own.update(all_identities(json_of(record.result)))
        if not isinstance(record, ClientExchange) or record.method != "tools/call" or not served(record.result):
            return
        answer = json_of(record.result)
        self.own.update(identities(answer, self.mark))
        if self.session.oracle.judge_name(self.provider_of(record), record.tool).risk != "read":
            self.own.update(all_identities(answer))

    def provider_of(self, record: ClientExchange) -> str:
        return self.providers.get(record.connection, record.connection)

    def guard(self, provider: str) -> WireGuard:
        return WireGuard(self, provider)


class WireGuard:
    """The rules once more, at the tap: a gateway that repeats, invents or hurries calls does not get them through."""

    def __init__(self, item: LiveItem, provider: str) -> None:
        self._item = item
        self._provider = provider

    def admit(self, exchange: OpenExchange) -> Refused | None:
        session = self._item.session
        wait = session.pace.wait(self._provider)
        if wait > 0:
            return Refused(f"{GUARD}:retry-after", 429, f"the provider asked to be left alone for {wait:.0f} s more")
        dispatch = exchange.rpc_method == MCP_CALL or (exchange.rpc_method is None and exchange.tool is not None)
        if not dispatch:
            return self._beside()
        ask = Ask(self._provider, exchange.tool or "", exchange.arguments or {})
        bridged = exchange.rpc_method is None and exchange.arguments is None  # a form, whose fields the tap does not read
        if not bridged and (why := self._item.forbidden(ask)):
            return Refused(f"{GUARD}:{why[0]}", 403, why[1])
        if bridged and session.risk(ask) != "read" and not session.options.allow_write:
            return Refused(f"{GUARD}:consent", 403, f"{ask.tool} may change data, and this run was not allowed to write")
        units = session.units(self._provider, ask.tool)
        if over := session.spending.refusal(units, cleanup=self._item.cleaning):
            return Refused(f"{GUARD}:budget", 429, f"not passed on, to stay within {over}")
        session.spending.charge(units)
        return None

    def _beside(self) -> Refused | None:
        """Handshakes, lists and streams: no tool calls, but not without end either."""
        spending = self._item.session.spending
        if spending.requests >= BESIDE * (1 + spending.budget.calls):
            return Refused(f"{GUARD}:budget", 429, "not passed on: far more requests than calls")
        if spending.seconds_left(cleanup=True) <= 0:
            return Refused(f"{GUARD}:budget", 429, f"not passed on: the budget of {spending.budget.seconds:g} s has passed")
        spending.requests += 1
        return None

    def answered(self, exchange: OpenExchange, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        if not any(fault.startswith(GUARD) for fault in exchange.faults):
            self._item.session.pace.answered(self._provider, status, headers)
