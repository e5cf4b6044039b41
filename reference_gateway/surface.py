"""The agents' door: MCP over Streamable HTTP, every protocol version from one endpoint, a run token as the key.

The SDK does the protocol. It would also re-model results and drop what it does not know, so a middleware puts the raw result back:
handlers answer with a stub that the SDK may check and stamp, and leave the real result beside it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from reference_gateway import __version__
from reference_gateway.agents import AgentBehind
from reference_gateway.answering import recorded, unwrapped
from reference_gateway.arriving import arriving
from reference_gateway.cancelling import Cancellations
from reference_gateway.catalog import Tool
from reference_gateway.clock import Clock
from reference_gateway.connection import Connection
from reference_gateway.connections import Connections
from reference_gateway.instructions import OWN, told
from reference_gateway.log import logger
from reference_gateway.passing import LISTS, METHODS, Passing
from reference_gateway.pipeline import Pipeline
from reference_gateway.quick import CALLER, Caller, Shortcut
from reference_gateway.results import INPUT_REQUIRED
from reference_gateway.runs import Run, Runs
from reference_gateway.store.base import StoreError
from reference_gateway.subscriptions import Subscriptions
from reference_gateway.upstream import era_of

Json = dict[str, Any]
Context = ServerRequestContext[Any, Any]

MAX_SESSIONS = 4_000
OPENING = ("initialize", "server/discover")
SUBSCRIBING = ("resources/subscribe", "resources/unsubscribe")

log = logger("surface")

_raw: ContextVar[list[Json] | None] = ContextVar("raw_result", default=None)
_current: ContextVar[Run | None] = ContextVar("current_run", default=None)


class Surface:
    def __init__(
        self, runs: Runs, connections: Connections, pipeline: Pipeline, clock: Clock, passing: Passing, subscriptions: Subscriptions
    ) -> None:
        self._passing = passing
        self._subscriptions = subscriptions
        self._runs = runs
        self._connections = connections
        self._pipeline = pipeline
        self._clock = clock
        self._cancels = Cancellations(clock, self._unknown)
        self._first_lists: dict[str, list[Json]] = {}
        """What runs were shown first, for the defect that goes on showing it."""

    def app(self, path: str = "/mcp") -> tuple[Starlette, ASGIApp]:
        """The SDK's application, whose lifespan the caller runs, and the guarded door in front of it."""
        server: Server[Any] = Server(
            "reference-gateway",
            version=__version__,
            instructions=OWN,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=self._listen,
            get_tool_input_schema=self._schema_of,
        )
        for method in METHODS:
            kind = types.PaginatedRequestParams if method in LISTS else types.RequestParams
            server.add_request_handler(method, kind, self._pass)
        # The SDK's own tracing wraps every message for an exporter that this process does not have.
        server.middleware[:] = [self._cancelling, _keep_raw, self._instructs, self._announces, self._arguments_are_an_object]
        inner = server.streamable_http_app(streamable_http_path=path, max_sessions=MAX_SESSIONS)
        shortcut = Shortcut(_as_user(inner), self._pipeline, self._connections, self._clock, server.server_info_stamp, self._cancels)
        return inner, _Door(shortcut, self._runs, self._connections, self._clock)

    # handlers

    async def _list_tools(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        run = _run_of(ctx)
        tools = [{**tool.shown, "name": connection.exposed(tool.name)} for connection, tool in self._visible(run)]
        if self._pipeline.broken("first-list-lasts"):
            tools = self._first_lists.setdefault(run.run, tools)
        _leave({"tools": tools})
        return types.ListToolsResult(tools=[], ttl_ms=0, cache_scope="private")

    def _visible(self, run: Run) -> list[tuple[Connection, Tool]]:
        rules, hides = self._pipeline.rules(run), not self._pipeline.broken("refused-shown")
        connections = [found for name in run.connections if (found := self._connections.find(run.tenant, name)) is not None]
        return [
            (connection, tool)
            for connection in connections
            for tool in connection.catalog.listed()
            if not hides or self._pipeline.decision(run, connection, tool, rules).visible
        ]

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult | types.InputRequiredResult:
        raw = dict(ctx.params or {})
        meta = raw.get("_meta")
        meta = dict(meta) if isinstance(meta, dict) else {}
        progress = ctx.session.report_progress if meta.get("progressToken") is not None else None
        arguments = raw.get("arguments")
        call = self._pipeline.new_call(
            _run_of(ctx), params.name, arguments if isinstance(arguments, dict) else {}, meta, era_of(ctx.protocol_version), progress
        )
        state = raw.get("requestState")
        call.request_state = state if isinstance(state, str) else None
        responses = raw.get("inputResponses")
        call.responses = responses if isinstance(responses, dict) else None
        call.agent = AgentBehind(ctx)
        with recorded(call.invocation):
            result = unwrapped(await self._pipeline.run(call))
        _leave(result)
        if result.get("resultType") == INPUT_REQUIRED:
            return types.InputRequiredResult(request_state=result["requestState"])
        return types.CallToolResult(content=[])

    async def _pass(self, ctx: Context, params: types.RequestParams) -> Json:
        """Everything else that an agent may ask for: passed on where an operator switched it on, unknown where not."""
        run = _run_of(ctx)
        if ctx.method in SUBSCRIBING:
            result = await self._subscriptions.subscribe(ctx, run)
        else:
            result = await self._passing.request(ctx, run, AgentBehind(ctx))
        _leave(result)
        return result

    async def _listen(self, ctx: Context, params: types.SubscriptionsListenRequestParams) -> types.SubscriptionsListenResult:
        return await self._subscriptions.listen(ctx, _run_of(ctx), params)

    async def _cancelling(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """The SDK cancels what it knows; what nobody knows is recorded. Of requests that went the short way the shortcut tells."""
        session = ctx.request.headers.get("mcp-session-id") if ctx.request is not None else None
        if ctx.method == "notifications/cancelled":
            self._cancels.cancelled(_run_of(ctx), session, (ctx.params or {}).get("requestId"))
        if ctx.request_id is None or session is None:
            return await call_next(ctx)
        self._cancels.begun(session, ctx.request_id, loose=True)
        try:
            return await call_next(ctx)
        finally:
            self._cancels.ended(session, ctx.request_id, loose=True)

    def _unknown(self, run: Run, details: Json) -> None:
        self._passing.record(run, None, "notifications/cancelled", "denied", "request_unknown", details, "cancel_unknown")

    async def _announces(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """An opening answer tells of what crosses to this run besides tools."""
        answer = await call_next(ctx)
        if ctx.method == "notifications/initialized":
            self._subscriptions.opened(ctx, _run_of(ctx))
        if ctx.method not in OPENING or not isinstance(answer, dict):
            return answer
        return {**answer, "capabilities": {"tools": {}, **await self._passing.capabilities(_run_of(ctx), era_of(ctx.protocol_version))}}

    async def _instructs(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """An opening answer tells of the connections that this run may use, as their instructions stand now."""
        answer = await call_next(ctx)
        if ctx.method not in OPENING or not isinstance(answer, dict) or "instructions" not in answer:
            return answer
        usable = {connection.name: connection for connection, _ in self._visible(_run_of(ctx))}
        return {**answer, "instructions": told(usable.values(), also_disabled=self._pipeline.broken("instructions-always"))}

    async def _arguments_are_an_object(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """The SDK refuses other arguments too, but before anybody could record that a call was refused."""
        raw: Any = ctx.params or {}
        if ctx.method != "tools/call" or ctx.request_id is None or isinstance(raw.get("arguments", {}), dict) or raw["arguments"] is None:
            return await call_next(ctx)
        name, meta = raw.get("name"), raw.get("_meta")
        call = self._pipeline.new_call(
            _run_of(ctx), name if isinstance(name, str) else "", {}, dict(meta) if isinstance(meta, dict) else {}, era_of(ctx.protocol_version), None
        )
        with recorded(call.invocation):
            return unwrapped(self._pipeline.malformed(call))

    def _schema_of(self, name: str) -> Json | None:
        """For the SDK's check of Mcp-Param headers, as this run sees the tool."""
        run = _current.get()
        tool = self._connections.route(run, name).tool if run is not None else None
        schema = tool.input_schema if tool is not None else None
        return schema if isinstance(schema, dict) else None


def _run_of(ctx: Context) -> Run:
    assert ctx.request is not None
    caller: Caller = ctx.request.scope[CALLER]
    return caller.run


def _leave(result: Json) -> None:
    box = _raw.get()
    assert box is not None
    box.append(result)


async def _keep_raw(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Our own result over the SDK's stub, whose version-dependent stamps stay."""
    if ctx.request_id is None:
        return await call_next(ctx)
    box: list[Json] = []
    _raw.set(box)
    sieved = await call_next(ctx)
    if not box or not isinstance(sieved, dict):
        return sieved
    raw = box[0]
    meta = {**(raw.get("_meta") or {}), **(sieved.get("_meta") or {})}
    return {**sieved, **raw, **({"_meta": meta} if meta else {})}


def _as_user(app: ASGIApp) -> ASGIApp:
    """By this the SDK ties an MCP session to the run that opened it."""

    async def tied(scope: Scope, receive: Receive, send: Send) -> None:
        user = AuthenticatedUser(AccessToken(token="", client_id=scope[CALLER].run.run, scopes=[]))
        await app({**scope, "user": user}, receive, send)

    return tied


class _Door:
    """Lets in who holds the token of a run."""

    def __init__(self, app: ASGIApp, runs: Runs, connections: Connections, clock: Clock) -> None:
        self._app = app
        self._runs = runs
        self._connections = connections
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            run = self._run(scope)
        except StoreError as gone:
            log.error("door_shut", code=gone.code)
            shut = {"error": {"code": gone.code, "message": gone.message, "where": "store", "fix": gone.fix}}
            await JSONResponse(shut, status_code=503)(scope, receive, send)
            return
        if run is None:
            error = {
                "code": "run_token_invalid",
                "message": "a valid run token is required",
                "where": "Authorization",
                "fix": "create a run",
            }
            await JSONResponse({"error": error}, status_code=401, headers={"WWW-Authenticate": "Bearer"})(scope, receive, send)
            return
        _current.set(run)
        caller = Caller(run)

        def late() -> None:
            caller.run = self._by_now(scope, run)

        await self._app({**scope, CALLER: caller}, arriving(receive, self._clock, late), send)

    def _by_now(self, scope: Scope, run: Run) -> Run:
        """A run that nobody can look up now is held to have ended."""
        try:
            found = self._run(scope)
        except StoreError as gone:
            log.error("run_not_read", code=gone.code)
            found = None
        return found if found is not None else replace(run, state="ended")

    def _run(self, scope: Scope) -> Run | None:
        found = [value for key, value in scope["headers"] if key == b"authorization"]
        if len(found) != 1:
            return None
        scheme, _, token = found[0].decode("latin-1").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return None
        self._connections.current()
        return self._runs.by_token(token.strip())
