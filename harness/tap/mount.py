"""One place where a provider seems to be: its log, its faults, its catalog mutations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from harness.clock import Clock
from harness.model.exchange import ProviderExchange, Sequencer
from harness.tap.fault import Fault, FaultDesk
from harness.tap.guard import Guard
from harness.tap.mutate import Mutation
from harness.tap.operations import Operation, operation_table
from harness.tap.record import Recorder
from harness.tap.replay import Player
from harness.tap.upstream import Upstream
from harness.tap.witness import BATCH, MCP_CALL, MCP_LIST, Log


class Passing(Protocol):
    """An exchange in flight, as far as a mount must know it."""

    def unmount(self) -> None: ...


class Mount:
    """Made by `Tap.mount`. `faults` and `mutations` are plain lists that may be changed between (and during) exchanges.

    `recorder` listens to what the provider answers; `player` answers instead of a provider. Faults and mutations work on both.
    """

    def __init__(
        self,
        name: str,
        upstream: str,
        base_url: str,
        *,
        clock: Clock,
        sequencer: Sequencer,
        host: str | None = None,
        operations: Iterable[Operation | tuple[str, str, str | None]] = (),
        on_close: Callable[[Mount], None] = lambda mount: None,
    ) -> None:
        self.name = name
        self.host = host
        self.upstream = Upstream(upstream)
        self.operations = operation_table(operations)
        self.log = Log(name, clock, sequencer)
        self.desk = FaultDesk()
        self.faults: list[Fault] = []
        self.mutations: list[Mutation] = []
        self.passing: set[Passing] = set()
        self.recorder: Recorder | None = None
        self.player: Player | None = None
        self.guard: Guard | None = None
        """Looks at each request before it is passed on (live runs only)."""
        self._base_url = base_url
        self._on_close = on_close

    def url(self, path: str = "") -> str:
        """What the gateway is given: the tap's address and this mount's prefix, or, mapped, the provider's real URL."""
        return self._base_url + (path if path.startswith("/") or not path else f"/{path}")

    @property
    def exchanges(self) -> tuple[ProviderExchange, ...]:
        """All exchanges in order of arrival; those in flight as they stand now."""
        return self.log.exchanges

    @property
    def discoveries(self) -> int:
        """How many tools/list requests arrived (one per page)."""
        return sum(exchange.rpc_method == MCP_LIST for exchange in self.exchanges)

    def dispatches(self, tool: str | None = None) -> tuple[ProviderExchange, ...]:
        """The exchanges that carry out a tool: tools/call, REST operations, and refused batches (which may hide calls)."""
        return tuple(seen for seen in self.exchanges if _is_dispatch(seen) and tool in (None, seen.tool))

    async def wait_for(self, predicate: Callable[[tuple[ProviderExchange, ...]], bool], timeout: float = 10.0) -> tuple[ProviderExchange, ...]:
        """The exchanges, as soon as `predicate(exchanges)` holds. `timeout` is in real seconds, then Incomplete is raised."""
        return await self.log.wait_for(predicate, timeout)

    def close(self) -> None:
        """Stop standing there: exchanges in flight are broken off (`unmounted`), later requests are strays. The log stays."""
        self._on_close(self)
        for passing in tuple(self.passing):
            passing.unmount()


def _is_dispatch(exchange: ProviderExchange) -> bool:
    if exchange.rpc_method is None:
        return exchange.tool is not None
    return exchange.rpc_method in (MCP_CALL, BATCH)
