"""Setting up an agent in a sandbox: its session travels through the target's relay, and what is known of the place becomes evidence."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from harness.errors import Untestable
from harness.model.evidence import ControlRecord
from harness.model.scenario import NEWEST_PROTOCOL
from harness.sandbox.session import SandboxSession, Wanted, sandboxed
from harness.target.base import RunGrant
from harness.target.relay import Relays

if TYPE_CHECKING:
    from harness.engine.item import ItemRun

SHARES_NETWORK = "relay-shares-network"


async def in_sandbox(stack: AsyncExitStack, run: ItemRun, grant: RunGrant, subject: str) -> SandboxSession:
    """Raises Untestable when the target has no relay, or when this machine has no namespaces."""
    gateway, item = run.bench.gateway, run.item
    if not isinstance(gateway, Relays):
        raise Untestable(f"relay: target {item.target} serves no agent that cannot reach it", where=item.id, fix="use a target with a relay")
    if item.protocol != NEWEST_PROTOCOL:
        raise Untestable(f"a relay's leg to the gateway speaks {NEWEST_PROTOCOL} only", where=item.id, fix="leave out --protocol")

    async def another() -> RunGrant:
        other = await run.bench.gateway.start_run(run.tenant, list(run.legs), task="another-task", agent="another-agent", subject=subject)
        run.log.redactor.know({"other-run-token": other.token})
        return other

    def report(action: str, data: Any) -> None:
        run.emit(ControlRecord(item=item.id, phase="after", action=action, seq=run.bench.sequencer.next(), data=data))

    wanted = Wanted(
        gateway=gateway,
        grant=grant,
        task=item.scenario.id,
        another=another,
        credentials={name: secret for name, (_, secret) in run.credentials.items()},
        share=("net",) if SHARES_NETWORK in run.bench.options.defects else (),
    )
    return await stack.enter_async_context(sandboxed(wanted, report))
