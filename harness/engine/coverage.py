"""Which tools one plan item exercised, and how far: listed only, called, or called with everybody in agreement. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from harness.expect.view import Dispatch, View
from harness.model.evidence import PlanItemRecord
from harness.model.scenario import Level
from harness.model.verdict import ToolCoverage, ToolState


def tool_coverage(start: PlanItemRecord, view: View) -> tuple[ToolCoverage, ...]:
    """Every tool that was discovered or called, by provider and name. Discovery speaks for the schema leg, a call for the memory leg."""
    found: dict[tuple[str, str], ToolCoverage] = {}
    for connection, provider in view.providers.items():
        listed, called = _level(start, connection, "schema"), _level(start, connection, "memory")
        for tool in _listed(view, connection):
            found.setdefault((provider, tool), ToolCoverage(provider=provider, tool=tool, state="listed", level=listed))
        for tool in sorted({c.tool for c in view.clients if c.method == "tools/call" and c.connection == connection}):
            found[provider, tool] = ToolCoverage(provider=provider, tool=tool, state=_state(view, connection, tool), level=called)
    return tuple(found[key] for key in sorted(found))


def _level(start: PlanItemRecord, connection: str, leg: str) -> Level:
    return start.legs.get(f"{connection}/{leg}", start.level)


def _listed(view: View, connection: str) -> Iterator[str]:
    """From the gateway's catalog; hidden tools are in it too, which the agent's own list leaves out."""
    catalog = view.catalog(connection)
    entries = catalog.data.get("tools", []) if catalog is not None and isinstance(catalog.data, dict) else []
    yield from (str(entry["name"]) for entry in entries if isinstance(entry, dict) and entry.get("name"))


def _state(view: View, connection: str, tool: str) -> ToolState:
    """One call in doubt puts the tool in doubt: what is claimed of it is no stronger than its weakest exchange.

    Exchanges that the tap itself interfered with are no evidence of the tool, either way.
    """
    dispatches = [d for d in view.dispatches if d.connection == connection and d.exchange.tool == tool and not d.exchange.fault]
    return "agreed" if dispatches and all(_agreed(view, dispatch) for dispatch in dispatches) else "called"


def _agreed(view: View, dispatch: Dispatch) -> bool:
    """The agent asked, the provider answered, and the audit tells the same end."""
    client = dispatch.caller
    if client is None or dispatch.exchange.status is None:
        return False
    trail = view.trail_of(client)
    events = [record.get("event") for record in trail]
    if "call_started" not in events:
        return False
    exchange = dispatch.exchange
    succeeded = 200 <= (exchange.status or 0) < 300 and not exchange.is_error and exchange.rpc_error_code is None
    ended = [event for event in events if event in ("call_completed", "call_failed")]
    return bool(ended) and (ended[-1] == "call_completed") == succeeded
