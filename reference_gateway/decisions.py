"""A person's decision about a held call. Approving executes it, once, and waits for what it brings."""

from __future__ import annotations

import asyncio

from reference_gateway.approval import CHANGED, Approval, ApprovalConflict, ApprovalExpired
from reference_gateway.call import Call
from reference_gateway.canonical import arguments_digest
from reference_gateway.errors import GatewayError
from reference_gateway.parts import MAX_TIMEOUT_S, Parts
from reference_gateway.pipeline import Pipeline
from reference_gateway.provider import prepared
from reference_gateway.runs import Runs
from reference_gateway.wire import Json


class Decisions:
    def __init__(self, parts: Parts, pipeline: Pipeline, runs: Runs) -> None:
        self._parts = parts
        self._pipeline = pipeline
        self._runs = runs
        self._executing: set[asyncio.Task[Approval]] = set()

    async def approve(self, tenant: str, approval: str, by: str) -> tuple[Approval, Json | None]:
        """The approval after execution, and an error if there was one (its result is the approval's own).

        Once claimed, execution goes on even when nobody waits any more. Raises ApprovalUnknown, ApprovalConflict, ApprovalExpired.
        """
        current = self._parts.approvals.get(tenant, approval)
        if current.state == "expired":
            raise ApprovalExpired(approval)
        if current.state != "pending":
            raise ApprovalConflict(approval, current.state)
        if (connection := self._parts.connections.find(tenant, current.connection)) is not None:
            await prepared(connection.client, self._parts.clock, MAX_TIMEOUT_S)
        # One transaction, and no chance for anything to change between the checks, the claim and the intent, in whichever process.
        with self._parts.store.transaction():
            self._parts.connections.current()
            call = self._checked_again(current)
            if isinstance(call, str):
                superseded = self._parts.approvals.supersede(approval, by)
                return superseded, {"code": CHANGED, "message": f"what was asked for is no longer what would be done: {call}"}
            call.approval = self._parts.approvals.claim(approval, by)
            self._pipeline.intend(call)
        task = asyncio.ensure_future(self._execute(call))
        self._executing.add(task)
        task.add_done_callback(self._executing.discard)
        finished = await asyncio.shield(task)
        return finished, finished.error

    def reject(self, tenant: str, approval: str, by: str, reason: str | None) -> Approval:
        """Raises as `approve`."""
        self._parts.approvals.get(tenant, approval)
        return self._parts.approvals.reject(approval, by, reason)

    async def close(self) -> None:
        tasks = list(self._executing)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _execute(self, call: Call) -> Approval:
        assert call.approval is not None
        await self._pipeline.execute(call)
        return self._parts.approvals.get(call.run.tenant, call.approval.id)

    def _checked_again(self, approval: Approval) -> Call | str:
        """The call, if everything that allowed it when it was asked for still does; else what changed."""
        try:
            run = self._runs.get(approval.tenant, approval.run)
        except GatewayError:
            return "the run is gone"
        connection = self._parts.connections.find(approval.tenant, approval.connection)
        if connection is None:
            return "the connection is gone"
        if approval.connection_id != connection.id:
            return "the connection is another one of that name"
        tool = connection.catalog.tools.get(approval.tool)
        if tool is None or tool.status == "removed":
            return "the tool is gone"
        if "trust-approver-time" in self._parts.defects:
            return self._pipeline.held(run, approval, connection, tool)
        if arguments_digest(approval.arguments) != approval.arguments_digest:
            return "the arguments are not those that were asked for"
        if tool.schema_hash != approval.schema_hash:
            return "the tool's schema changed"
        if self._parts.connections.credential_version(connection) != approval.credential_version:
            return "the credential changed"
        if self._parts.connections.unready(connection) is not None:
            return "the credential cannot be opened"
        if connection.client.unready() is not None:
            return "the connection cannot be used now"
        decision = self._pipeline.decision(run, connection, tool)
        if decision.verdict == "deny":
            return decision.reason
        if decision.verdict == "allow" and "loosened-still-asks" not in self._parts.defects:
            return "nobody has to be asked any more, so that the agent may have made the call meanwhile"
        return self._pipeline.held(run, approval, connection, tool)
