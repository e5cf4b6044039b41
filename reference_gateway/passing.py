"""What crosses a connection besides tools, where an operator switched it on: resources, prompts, completions, log levels, subscriptions.

Only calls of tools are governed one by one. All else is passed on as it is, in both directions, under the connection's own rules (run,
grant, agents, state, policies that concern all of it), and each request leaves one record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND

from reference_gateway.answers import asked
from reference_gateway.audit import AuditFields, Event
from reference_gateway.call import forwarded
from reference_gateway.canonical import NotCarried, arguments_digest
from reference_gateway.catalog import Tool
from reference_gateway.clock import Deadline
from reference_gateway.connection import Busy, Connection
from reference_gateway.errors import GatewayError
from reference_gateway.naming import Names
from reference_gateway.parts import Parts
from reference_gateway.peer import Agent, Limited
from reference_gateway.pipeline import Pipeline
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

    async def capabilities(self, run: Run, era: Era) -> Json:
        """What this run is told that it can use besides tools: what its connections' providers offer, as far as it is passed on."""
        able: Json = {}
        for connection in {each.name: each for offer in set(METHODS.values()) for each in self.offering(run, offer)}.values():
            theirs = await self._theirs(connection, era)
            for capability, offer in (("resources", "resources"), ("prompts", "prompts"), ("completions", "completion"), ("logging", "logging")):
                if offer in connection.settings.offers and isinstance(theirs.get(capability), dict):
                    heard = "subscriptions" in connection.settings.offers
                    flags = {name: value for name, value in theirs[capability].items() if name not in HEARD or (heard and value)}
                    able[capability] = {**able.get(capability, {}), **flags}
        if self.offering(run, "subscriptions"):
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

    def route(self, run: Run, method: str, params: Json) -> Connection | None:
        return Names(self.offering(run, METHODS[method])).route(method, params)[0] if self.offering(run, METHODS[method]) else None

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

    async def _one(
        self, run: Run, connection: Connection, method: str, params: Json, era: Era, agent: Agent, progress: Progress | None
    ) -> Json:
        decision = self._pipeline.decision(run, connection, ALL)
        if decision.verdict != "allow" and "passing-ungoverned" not in self._parts.defects:
            self._record(run, connection, method, "denied", decision.reason, {})
            raise MCPError(INVALID_PARAMS, REFUSALS.get(decision.reason, "This is not permitted."), {f"{PREFIX}reason": decision.reason})
        began = self._parts.clock.monotonic()
        belongs = (run.tenant, run.run, connection.name, method, _digest(params))
        params = self._opened(params, belongs)
        peer = Limited(agent, connection.settings.offers, lambda method, how: self._record(run, connection, method, how, method, {}, "agent_asked"))
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
            self._record(run, connection, method, how, reason, {"latency_ms": spent})

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

    def _record(self, run: Run, connection: Connection, method: str, how: str, reason: str, details: Json, event: Event = "passed_on") -> None:
        fields = {
            "tenant": run.tenant,
            "run": run.run,
            "task": run.task,
            "agent": run.agent,
            "actor": f"agent:{run.agent}",
            "connection": connection.name,
            "provider": connection.settings.provider,
            "event": event,
            "outcome": how,
            "decision": "deny" if how == "denied" else "allow",
            "reason": reason,
            "details": {"method": method, **details},
        }
        self._parts.audit.append_many([cast(AuditFields, fields)])


def _meta(meta: Json) -> Json:
    return {"_meta": meta} if meta else {}


def _digest(params: Json) -> str:
    """Of what the request is about, whichever round of it this is."""
    try:
        return arguments_digest({key: value for key, value in params.items() if key not in ("requestState", "inputResponses", "_meta")})
    except NotCarried as error:
        raise MCPError(INVALID_PARAMS, f"the parameters are not acceptable: {error.message}") from error
