"""What crosses a connection besides tools, where an operator switched it on: resources, prompts, completions, log levels, subscriptions.

Only calls of tools are governed one by one. All else is passed on as it is, in both directions, under the connection's own rules (run,
grant, agents, state, policies that concern all of it), and each request leaves one record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND

from reference_gateway.answers import asked
from reference_gateway.audit import AuditFields, Event, stamp
from reference_gateway.call import forwarded
from reference_gateway.canonical import NotCarried, arguments_digest
from reference_gateway.catalog import Tool
from reference_gateway.clock import Deadline
from reference_gateway.connection import Busy, Connection
from reference_gateway.errors import GatewayError
from reference_gateway.naming import Names
from reference_gateway.parts import Parts
from reference_gateway.peer import Agent, Limited
from reference_gateway.permission import Decision
from reference_gateway.pipeline import Pipeline
from reference_gateway.policy import Rules
from reference_gateway.provider import McpProvider
from reference_gateway.results import INPUT_REQUIRED, PREFIX, REFUSALS
from reference_gateway.runs import Run
from reference_gateway.upstream import Era, Progress, era_of
from reference_gateway.wire import Json, UpstreamFailure

Context = ServerRequestContext[Any, Any]

METHODS: Mapping[str, str] = {
    "resources/list": "resources",
    "resources/templates/list": "resources",
    "resources/read": "resources",
    "resources/subscribe": "subscriptions",
    "resources/unsubscribe": "subscriptions",
    "prompts/list": "prompts",
    "prompts/get": "prompts",
    "completion/complete": "completion",
    "logging/setLevel": "logging",
}
"""Each method that is passed on, and the offer that it takes."""

LISTS: Mapping[str, str] = {"resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts"}
HEARD = ("subscribe", "listChanged")
CACHEABLE = (*LISTS, "resources/read")
ALL = Tool("", {}, "read", "passing", "", {})
"""Stands for everything that is no tool: policies that name no tool concern it too."""


class Passing:
    def __init__(self, parts: Parts, pipeline: Pipeline) -> None:
        self._parts = parts
        self._pipeline = pipeline

    def offering(self, run: Run, offer: str) -> list[Connection]:
        """Connections of the run, in its order, that pass this on."""
        found = [self._parts.connections.find(run.tenant, name) for name in run.connections]
        everything = "offers-ignored" in self._parts.defects
        return [each for each in found if each is not None and (everything or offer in each.settings.offers) and isinstance(each.client, McpProvider)]

    def decision(self, run: Run, connection: Connection, offer: str, rules: Rules | None = None) -> Decision:
        """Whether what is no tool may cross to this run now: as a tool that only reads, and that no policy names."""
        decision = self._pipeline.decision(run, connection, ALL, rules)
        if "passing-ungoverned" in self._parts.defects or (offer == "subscriptions" and "subscriptions-unjudged" in self._parts.defects):
            return replace(decision, verdict="allow")
        return decision

    def permitted(self, run: Run, offer: str) -> list[Connection]:
        """Of the offering connections those that this run may use now."""
        if not (offering := self.offering(run, offer)):
            return []
        rules = self._pipeline.rules(run)
        return [each for each in offering if self.decision(run, each, offer, rules).verdict == "allow"]

    def admitted(self, run: Run, method: str) -> list[Connection]:
        """As `permitted`, for a request about all of them that offer subscriptions; what was let through and what was refused is recorded.

        Raises MCPError when none offers any, or none may be used.
        """
        offering = self.offering(run, "subscriptions")
        if not offering:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", method)
        decisions = [(each, self.decision(run, each, "subscriptions")) for each in offering]
        admitted = [each for each, decision in decisions if decision.verdict == "allow"]
        for each, decision in decisions:
            if decision.verdict == "allow":
                self.record(run, each, method, "success", method, {"latency_ms": 0})
            else:
                self.record(run, each, method, "denied", decision.reason, {})
        if not admitted:
            raise _refused(decisions[0][1].reason)
        return admitted

    def judged(self, run: Run, method: str, params: Json) -> tuple[Connection, Json] | None:
        """Whose a request is that names something, and its parameters there; None when it is nobody's. Raises MCPError, refused on record."""
        offering = self.offering(run, METHODS[method])
        if not offering:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", method)
        owner, own = Names(offering).route(method, params)
        if owner is None:
            return None
        self._permit(run, owner, method)
        return owner, own

    def _permit(self, run: Run, connection: Connection, method: str) -> None:
        decision = self.decision(run, connection, METHODS[method])
        if decision.verdict != "allow":
            self.record(run, connection, method, "denied", decision.reason, {})
            raise _refused(decision.reason)

    def anew(self, run: Run) -> tuple[Run, bool]:
        """The run as it stands now, and whether its token still opens anything. Raises StoreError."""
        self._parts.connections.current()
        now = self._parts.runs.get(run.tenant, run.run)
        good = now.expires_at > stamp(self._parts.clock.now()) or "token-lasts" in self._parts.defects
        return now, good or "subscriptions-unjudged" in self._parts.defects

    async def capabilities(self, run: Run, era: Era) -> Json:
        """What this run is told that it can use besides tools: what its connections' providers offer, as far as it is passed on.

        Of a connection that it may not use it learns nothing, and nobody asks that provider for it.
        """
        able: Json = {}
        for connection in {each.name: each for offer in set(METHODS.values()) for each in self.permitted(run, offer)}.values():
            theirs = await self._theirs(connection, era)
            for capability, offer in (("resources", "resources"), ("prompts", "prompts"), ("completions", "completion"), ("logging", "logging")):
                if offer in connection.settings.offers and isinstance(theirs.get(capability), dict):
                    heard = "subscriptions" in connection.settings.offers
                    flags = {name: value for name, value in theirs[capability].items() if name not in HEARD or (heard and value)}
                    able[capability] = {**able.get(capability, {}), **flags}
        if self.permitted(run, "subscriptions"):
            able["tools"] = {"listChanged": True}
        return able

    async def _theirs(self, connection: Connection, era: Era) -> Json:
        """A provider that does not answer has nothing to offer for now; the agent's session is opened all the same."""
        client = cast(McpProvider, connection.client)
        try:
            with Deadline(self._parts.clock, client.default_timeout_s):
                return (await client.upstream.session(era)).capabilities
        except (UpstreamFailure, GatewayError):
            pass
        return {}

    async def request(self, ctx: Context, run: Run, agent: Agent) -> Json:
        """The provider's own result. Raises MCPError, the provider's own too."""
        method, era = ctx.method, era_of(ctx.protocol_version)
        offering = self.offering(run, METHODS[method])
        if not offering:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", method)
        params = {key: value for key, value in (ctx.params or {}).items() if key != "_meta"}
        meta = forwarded((ctx.params or {}).get("_meta") or {})
        names = Names(offering)
        progress = ctx.session.report_progress if "progressToken" in ((ctx.params or {}).get("_meta") or {}) else None
        if method == "logging/setLevel":
            for connection in offering:
                await self._one(run, connection, method, {**params, **_meta(meta)}, era, agent, progress)
            return {}
        if method in LISTS:
            return await self._list(run, names, method, params, meta, era, agent)
        owner, params = names.route(method, params)
        if owner is None:
            raise MCPError(INVALID_PARAMS, "There is no such thing on the connections of this run.", {f"{PREFIX}reason": "not_found"})
        result = await self._one(run, owner, method, {**params, **_meta(meta)}, era, agent, progress)
        return names.shown(owner, method, result)

    async def _list(self, run: Run, names: Names, method: str, params: Json, meta: Json, era: Era, agent: Agent) -> Json:
        connection, cursor = names.page(params.get("cursor"))
        if connection is None:
            raise MCPError(INVALID_PARAMS, "there is no such page", {f"{PREFIX}reason": "invalid_arguments"})
        sent = {**({"cursor": cursor} if cursor is not None else {}), **_meta(meta)}
        result = names.shown(connection, method, await self._one(run, connection, method, sent, era, agent, None))
        following = names.after(connection, result.get("nextCursor"))
        rest = {key: value for key, value in result.items() if key != "nextCursor"}
        return rest if following is None else {**rest, "nextCursor": following}

    async def _one(self, run: Run, connection: Connection, method: str, params: Json, era: Era, agent: Agent, progress: Progress | None) -> Json:
        self._permit(run, connection, method)
        began = self._parts.clock.monotonic()
        belongs = (run.tenant, run.run, connection.name, method, _digest(params))
        params = self._opened(params, belongs)
        peer = Limited(agent, connection.settings.offers, lambda method, how: self.record(run, connection, method, how, method, {}, "agent_asked"))
        how, reason, result = "cancelled", "client_cancelled", None
        try:
            with Deadline(self._parts.clock, connection.settings.tool_timeout_s or connection.client.default_timeout_s):
                how, reason = "failure", "mcp_remote_fetch_failed"
                async with connection.slots.one():
                    client = cast(McpProvider, connection.client)
                    result, _ = await client.ask(method, params, era=era, progress=progress, peer=peer)
                    how, reason = "success", method
            if result is None:
                how, reason = "timeout", "tool_timeout"
                raise MCPError(-32603, "The provider did not answer in time.", {f"{PREFIX}reason": reason})
            return self._adapted(result, method, era, belongs, peer)
        except UpstreamFailure as failure:
            reason = failure.reason
            if failure.rpc is not None:
                raise MCPError(failure.rpc["code"], failure.rpc["message"], failure.rpc.get("data")) from failure
            raise MCPError(-32603, f"The request failed: {failure.message}.", {f"{PREFIX}reason": reason}) from failure
        except Busy:
            reason = "rate_limited"
            raise MCPError(-32603, REFUSALS[reason], {f"{PREFIX}reason": reason}) from None
        except GatewayError as error:
            raise MCPError(-32603, f"The request failed: {error.message}.", {f"{PREFIX}reason": reason}) from error
        finally:
            spent = round(max(0.0, self._parts.clock.monotonic() - began) * 1000)
            self.record(run, connection, method, how, reason, {"latency_ms": spent})

    def _opened(self, params: Json, belongs: tuple[str, ...]) -> Json:
        """What an agent came back with, as the provider gave it out."""
        sealed = params.get("requestState")
        if not isinstance(sealed, str):
            return params
        good, state = self._parts.sealer.opened(sealed, belongs)
        if not good:
            raise MCPError(INVALID_PARAMS, "requestState does not belong to this request, or is too old", {f"{PREFIX}reason": "invalid_arguments"})
        rest = {key: value for key, value in params.items() if key != "requestState"}
        return {**rest, **({"requestState": state} if state is not None else {})}

    def _adapted(self, result: Json, method: str, era: Era, belongs: tuple[str, ...], peer: Limited) -> Json:
        """In the agent's era. What the gateway answers depends on who asks, so nobody on the way may keep it for others."""
        if era == "legacy":
            return {key: value for key, value in result.items() if key not in ("resultType", "ttlMs", "cacheScope")}
        if result.get("resultType") == INPUT_REQUIRED:
            asked(result, peer)
            return {**result, "requestState": self._parts.sealer.seal(result.get("requestState"), belongs)}
        if method in CACHEABLE:
            result = {**result, "ttlMs": result.get("ttlMs", 0), "cacheScope": "private"}
        return {**result, "resultType": "complete"}

    def record(self, run: Run, connection: Connection | None, method: str, how: str, reason: str, details: Json, event: Event = "passed_on") -> None:
        """Raises StoreError."""
        fields = {
            "tenant": run.tenant,
            "run": run.run,
            "task": run.task,
            "agent": run.agent,
            "actor": f"agent:{run.agent}",
            "connection": connection.name if connection is not None else None,
            "provider": connection.settings.provider if connection is not None else None,
            "event": event,
            "outcome": how,
            "decision": "deny" if how == "denied" else "allow",
            "reason": reason,
            "details": {"method": method, **details},
        }
        self._parts.audit.append_many([cast(AuditFields, fields)])


def _refused(reason: str) -> MCPError:
    return MCPError(INVALID_PARAMS, REFUSALS.get(reason, "This is not permitted."), {f"{PREFIX}reason": reason})


def _meta(meta: Json) -> Json:
    return {"_meta": meta} if meta else {}


def _digest(params: Json) -> str:
    """Of what the request is about, whichever round of it this is."""
    try:
        return arguments_digest({key: value for key, value in params.items() if key not in ("requestState", "inputResponses", "_meta")})
    except NotCarried as error:
        raise MCPError(INVALID_PARAMS, f"the parameters are not acceptable: {error.message}") from error
