"""A call is a list of named stages. Each looks at the call and either passes it on or ends it with a reply.

No durable intent, no dispatch: `record_intent` commits before `dispatch` sends. What happens between that commit and the record of
the outcome is never guessed and never retried; a crash there reads as `unknown`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from reference_gateway.answers import rounds
from reference_gateway.approval import Approval
from reference_gateway.arguments import Validators
from reference_gateway.audit import AuditFields
from reference_gateway.call import Call, record
from reference_gateway.canonical import NotCarried, arguments_digest
from reference_gateway.catalog import Tool
from reference_gateway.clock import Deadline
from reference_gateway.connection import Busy, Connection
from reference_gateway.execution import Execution
from reference_gateway.grant_rules import GrantRules
from reference_gateway.holding import Holding
from reference_gateway.log import logger
from reference_gateway.managed import MISMATCH, applicable, differing
from reference_gateway.operators import actor
from reference_gateway.outcomes import OutcomeNotRecorded
from reference_gateway.parts import MAX_TIMEOUT_S, Parts
from reference_gateway.permission import Decision, decide
from reference_gateway.policy import Rules
from reference_gateway.provider import prepared
from reference_gateway.results import PREFIX, UNKNOWN, Reply, misplaced, refusal
from reference_gateway.runs import Run
from reference_gateway.upstream import Era, Progress
from reference_gateway.wire import Json

log = logger("pipeline")


Stage = Callable[[Call], Awaitable[Reply | None]]


class Pipeline:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._validators = Validators()
        self._closing = False
        self.attend: Callable[[Connection], None] = lambda connection: None
        """Told of each connection before a call leaves for it."""
        self._grants = GrantRules(parts.defects)
        self._execution = Execution(parts)
        self.holding = Holding(
            parts.approvals, parts.connections, parts.clock, parts.defects, append=self._execution.append, deny=self._deny, dispatch=self._too_early
        )
        self._last: tuple[Stage, ...] = (self._execution.dispatch, self._execution.guard_result, self._execution.record_outcome)
        before: tuple[Stage, ...] = (
            self.identify, self.resolve, self.permit, self.manage_arguments, self.validate_arguments, self.approve, self.record_intent
        )  # fmt: skip
        self._stages = (*before, *self._last)
        parts.connections.reworded = parts.policies.reworded = self._reworded

    def close(self) -> None:
        """From now on, calls that are cut off are left for recovery: their outcome is not known."""
        self._closing = True
        self._execution.outcomes.last_try()

    def broken(self, defect: str) -> bool:
        return defect in self._parts.defects

    def new_call(self, run: Run, name: str, arguments: dict[str, Any], meta: Json, era: Era, progress: Progress | None) -> Call:
        return Call(run, name, arguments, meta, era, self._parts.ids.new("inv"), progress)

    async def run(self, call: Call) -> Reply:
        """All stages for an agent's call. Raises StoreError when a record cannot be written; then nothing more is done.

        OutcomeNotRecorded if it was the last one, of a call that was sent; every other StoreError means that nothing was.
        """
        return await self._through(self._stages, call)

    def malformed(self, call: Call) -> Reply:
        """For a call whose arguments are no object: refused before anything is looked at, and recorded like every other refusal."""
        if call.run.state == "ended":
            return self._deny(call, "run_ended")
        call.connection, call.tool, call.name = self._parts.connections.route(call.run, call.name)
        return self._deny(call, "invalid_arguments", "they are not an object")

    async def execute(self, call: Call) -> Reply:
        """The last stages, for a call whose approval was claimed and whose intent was recorded."""
        return await self._through(self._last, call)

    async def _through(self, stages: tuple[Stage, ...], call: Call) -> Reply:
        try:
            async with call.holds:
                for stage in stages:
                    if (reply := await stage(call)) is not None:
                        return reply
        except asyncio.CancelledError:
            self._cut_off(call, "cancelled", "client_cancelled", "The call was sent and then cancelled. Whether it was executed is not known.")
            raise
        finally:
            self._cut_off(call, "unknown", "outcome_unrecorded", UNKNOWN)
        raise AssertionError("the last stage always replies")

    def _cut_off(self, call: Call, outcome: str, reason: str, text: str) -> None:
        """A call that was sent has an end on record, whatever broke it off; who called hears of that, and not of what became of the record."""
        if not self._closing and call.started_at is not None and not call.ended:
            with suppress(OutcomeNotRecorded):
                self._execution.end(call, "call_failed", outcome, reason, Reply(None, {"code": reason, "message": text}))

    # stages

    async def identify(self, call: Call) -> Reply | None:
        """Who calls was settled by the token; what exactly is asked is settled here."""
        try:
            call.digest = arguments_digest(call.arguments)
            arguments_digest(call.forwarded_meta)
            arguments_digest(call.responses or {})
        except NotCarried as error:
            call.unsound = error.message
        if call.run.state == "ended":
            return self._deny(call, "run_ended")
        return None

    async def resolve(self, call: Call) -> Reply | None:
        call.connection, call.tool, call.name = self._parts.connections.route(call.run, call.name)
        if call.tool is not None:
            return None
        return self._deny(call, "tool_not_found")

    async def permit(self, call: Call) -> Reply | None:
        call.decision = self.decision(self._grants.acting(call.run, call.arguments), call.target, call.entry)
        if "replay-before-permit" in self._parts.defects and (reply := self.holding.remembered(call)) is not None:
            return reply
        return self._deny(call, call.decision.reason) if call.decision.verdict == "deny" else None

    def rules(self, run: Run) -> Rules:
        """For decisions about many tools at one moment."""
        return self._parts.policies.rules(run.tenant)

    def decision(self, run: Run, connection: Connection, tool: Tool, rules: Rules | None = None) -> Decision:
        """`rules`: the tenant's policies where they were just read."""
        defects, settings = self._parts.defects, connection.settings
        if connection.status != "active" and "paused-callable" not in defects:
            return Decision("deny", "connection_inactive", visible=False)
        if connection.health == "error" and "unhealthy-hides-tools" in defects:
            return Decision("deny", "connection_inactive", visible=False)
        word, agents = connection.words.get(tool.name), settings.agents
        policy = (rules or self.rules(run)).word(run.agent, connection.name, tool)
        if "quarantine-open" in defects:
            tool = replace(tool, status="active")
        if ("ask-grants" in defects and word == "ask_first") or ("empty-means-all" in defects and not agents):
            agents = None
        if "mode-ignored" in defects:
            run = replace(run, mode="execute")
        if "task-shared" in defects:
            run = replace(run, owns_task=True)
        if "policy-grants" in defects and policy == "allowed":
            word = policy
        grant, revoked = self._grants.grant(connection), self._grants.revoked(run, connection)
        return decide(run, grant=grant, revoked=revoked, tool=tool, word=word, agents=agents, policy=policy)

    def _reworded(self, tenant: str) -> None:
        """What waits for a person whom nothing asks any more is withdrawn: the agent may make that call now, and it must not run twice."""
        if "loosened-still-asks" in self._parts.defects:
            return
        rules = self._parts.policies.rules(tenant)
        self._parts.approvals.tell(self._parts.approvals.no_longer_asked(tenant, actor(), lambda each: self._unasked(each, rules)))

    def _unasked(self, approval: Approval, rules: Rules) -> bool:
        connection = self._parts.connections.find(approval.tenant, approval.connection)
        tool = connection.catalog.tools.get(approval.tool) if connection is not None else None
        if connection is None or tool is None or connection.id != approval.connection_id:
            return False
        return self.decision(self._parts.runs.get(approval.tenant, approval.run), connection, tool, rules).verdict == "allow"

    def _anew(self, call: Call) -> Decision:
        """The decision as it would be made now, from the run, the catalog and the permissions as they stand."""
        self._parts.connections.current()
        if self._parts.connections.find(call.run.tenant, call.target.name) is not call.target:
            return Decision("deny", "connection_inactive", visible=False)
        run = self._parts.runs.get(call.run.tenant, call.run.run)
        tool = call.target.catalog.tools.get(call.entry.name, call.entry)
        return self.decision(run, call.target, tool if tool.status != "removed" else replace(tool, status="quarantined"))

    async def manage_arguments(self, call: Call) -> Reply | None:
        """What an operator fixed goes into every call that has a place for it. From here on the call is what will be sent."""
        fixed = applicable(call.target.settings.managed, call.entry.input_schema)
        differs = differing(fixed, call.arguments)
        if differs is not None and "managed-argument-overridden" in self._parts.defects:
            return None
        if differs is not None and "managed-argument-replaced" not in self._parts.defects:
            return self._deny(call, MISMATCH, differs)
        if fixed and not call.unsound:
            call.arguments = {**call.arguments, **fixed}
            call.digest = arguments_digest(call.arguments)
        return None

    async def validate_arguments(self, call: Call) -> Reply | None:
        problem = call.unsound or self._validators.problem(call.entry.schema_hash, call.entry.input_schema, call.arguments)
        problem = call.unsound if "arguments-unchecked" in self._parts.defects else problem
        problem = problem or call.target.client.objection(call.entry.name, call.arguments) or self._set_timeout(call)
        if not problem and call.decision is not None and call.decision.verdict == "allow" and (wrong := rounds(call, self._parts.sealer)):
            self._deny(call, "invalid_arguments")
            return Reply(None, misplaced(call.invocation, wrong))
        return self._deny(call, "invalid_arguments", problem) if problem else None

    def _set_timeout(self, call: Call) -> str | None:
        asked = call.asked_timeout
        settings = call.target.settings
        if asked is None:
            call.timeout_s = min(settings.tool_timeout_s or call.target.client.default_timeout_s, MAX_TIMEOUT_S)
            return None
        if isinstance(asked, bool) or not isinstance(asked, (int, float)) or not asked > 0:
            return f"{PREFIX}timeout_s is not a positive number"
        call.timeout_s = min(max(float(asked), 0.001), MAX_TIMEOUT_S)
        return None

    async def approve(self, call: Call) -> Reply | None:
        assert call.decision is not None
        if call.decision.verdict != "ask" or "skip-approval" in self._parts.defects:
            return None
        return await self.holding.ask(call)

    async def _too_early(self, call: Call) -> None:
        assert call.approval is not None
        await self._execution.dispatch(call)
        if call.answer is not None:
            self._execution.early[call.approval.id] = call.answer

    def held(self, run: Run, approval: Approval, connection: Connection, tool: Tool) -> Call:
        """The call exactly as it was asked for, whether or not this is the process that was asked."""
        default = min(connection.settings.tool_timeout_s or connection.client.default_timeout_s, MAX_TIMEOUT_S)
        era: Era = "legacy" if approval.era == "legacy" else "modern"
        call = Call(run, connection.exposed(tool.name), approval.arguments, approval.meta, era, approval.invocation)
        call.connection, call.tool, call.approval, call.digest = connection, tool, approval, approval.arguments_digest
        call.timeout_s = approval.timeout_s or default
        call.progress = self.holding.progress_of(approval.id)
        return call

    async def record_intent(self, call: Call) -> Reply | None:
        """Durable before anything leaves.

        The call first waits for its turn at this provider, and for a credential that has to be renewed; what allowed it must still do so then.
        """
        waits = call.target.slots.taken
        if not await self._has_turn(call):
            return self._deny(call, "rate_limited")
        waits = await prepared(call.target.client, self._parts.clock, call.timeout_s or MAX_TIMEOUT_S) or waits
        if (reason := call.target.client.unready() or self._parts.connections.unready(call.target)) is not None:
            return self._deny(call, reason)
        if waits and (now := self._anew(call)).verdict != "allow" and now != call.decision:
            return self._deny(call, now.reason if now.verdict == "deny" else "rate_limited")
        if records := self._execution.kept(self._intent(call)):
            # Started as soon as it is durable, so that a caller who leaves in between finds the call ended in the log.
            await self._parts.audit.append_soon(records, lambda: self._started(call))
        else:
            self._started(call)
        return None

    async def _has_turn(self, call: Call) -> bool:
        slots = call.target.slots
        if not slots.taken:  # most calls: nothing to wait for, and no deadline to set
            await call.holds.enter_async_context(slots.one())
            return True
        try:
            with Deadline(self._parts.clock, call.timeout_s or MAX_TIMEOUT_S) as deadline:
                await call.holds.enter_async_context(slots.one())
        except Busy:
            return False
        return not deadline.expired

    def intend(self, call: Call) -> None:
        """The record without which nothing leaves. Raises StoreError."""
        self._execution.append(self._intent(call))
        self._started(call)

    def _started(self, call: Call) -> None:
        call.started_at, call.started_seq = self._parts.clock.monotonic(), self._parts.audit.last

    def _intent(self, call: Call) -> list[AuditFields]:
        self.attend(call.target)
        client = call.target.client
        call.where = {
            "transport": client.transport,
            "spawned_local_process": client.spawns_process,
            "endpoint": client.endpoint(call.entry.name, call.arguments),
        }
        if words := self._parts.connections.loosened(call.target):
            call.where["development"] = words
        records = [record(call, "call_started", "pending", "allow", "dispatching", call.where)]
        if call.approval is None:
            reason = call.decision.reason if call.decision is not None else "allow_default"
            allowed = "allow_profile" if reason == "requires_approval_policy" else reason
            records.insert(0, record(call, "policy_decision", "success", "allow", allowed))
        return records

    def _deny(self, call: Call, reason: str, detail: str = "") -> Reply:
        self._execution.append(
            [
                record(call, "policy_decision", "denied", "deny", reason),
                record(call, "call_denied", "denied", "deny", reason),
            ]
        )
        return refusal(call.invocation, reason, detail)
