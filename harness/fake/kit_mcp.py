"""The MCP surface of a stand-in: a table of tools becomes one Streamable HTTP endpoint for all three protocol versions."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

import mcp_types as t
from jsonschema import Draft202012Validator
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from starlette.types import ASGIApp

from harness.clock import Clock
from harness.fake.kit import Account, AccountBook, Challenge, Entry, Gate, JsonObject, Settings, bearer
from harness.fake.kit_store import open_cursor, seal_cursor

S = TypeVar("S")
INVALID_PARAMS = -32602


@dataclass(frozen=True, slots=True)
class Reply:
    """What a tool answers: a JSON object, sent both as structured content and as text. `text` replaces the text alone."""

    payload: JsonObject | None = None
    text: str | None = None
    is_error: bool = False

    def wire(self) -> t.CallToolResult:
        text = self.text if self.text is not None else json.dumps(self.payload, ensure_ascii=False)
        return t.CallToolResult(
            content=[t.TextContent(type="text", text=text)], structured_content=copy.deepcopy(self.payload), is_error=self.is_error
        )


class Refusal(Exception):
    """Raised by a handler to answer `reply` instead; nothing may have been changed."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.text or "")
        self.reply = reply


def error_text(text: str) -> Reply:
    """An error result that is plain text, without structured content."""
    return Reply(text=text, is_error=True)


@dataclass(frozen=True, slots=True)
class Problem:
    """One way in which arguments break the schema. `at` is a JSON pointer ("" is the whole), `rule` the schema keyword."""

    at: str
    rule: str
    message: str


@dataclass(frozen=True, slots=True)
class Call(Generic[S]):
    """What a handler works with. `now` is the serving clock's instant; handlers are synchronous, hence atomic."""

    store: S
    account: Account
    settings: Any
    now: datetime
    tool: str

    @property
    def ready_at(self) -> datetime:
        """When something written now becomes ready."""
        return self.now + timedelta(seconds=self.settings.index_delay_s)


Handler = Callable[[Call[S], JsonObject], Reply | JsonObject]


@dataclass(frozen=True, slots=True)
class Tool(Generic[S]):
    """One tool. `annotations` uses the wire's names (readOnlyHint, …); None leaves them out altogether."""

    name: str
    description: str
    input_schema: JsonObject
    handler: Handler[S]
    annotations: Mapping[str, bool | str] | None = None
    output_schema: JsonObject | None = None
    title: str | None = None
    meta: JsonObject | None = None

    def wire(self) -> t.Tool:
        described: JsonObject = {"name": self.name, "description": self.description, "inputSchema": copy.deepcopy(self.input_schema)}
        extra = {"annotations": self.annotations, "outputSchema": self.output_schema, "title": self.title, "_meta": self.meta}
        return t.Tool.model_validate(described | {k: v for k, v in extra.items() if v is not None})


def _plain_arguments(tool: str, problems: Sequence[Problem]) -> Reply:
    listed = "; ".join(f"{p.at or '(root)'}: {p.message}" for p in problems)
    return error_text(f"Invalid arguments for {tool}: {listed}")


@dataclass(frozen=True, slots=True)
class ErrorStyle:
    """How a provider says no. Each may return a Reply or raise MCPError for a JSON-RPC error."""

    bad_arguments: Callable[[str, Sequence[Problem]], Reply] = _plain_arguments
    unknown_tool: Callable[[str], Reply] = field(default=lambda name: error_text(f"Unknown tool: {name}"))
    internal: Callable[[str, str], Reply] = field(default=lambda tool, message: error_text(f"Error: {message}"))


@dataclass(frozen=True, slots=True)
class McpProvider(Generic[S]):
    """A provider as data: FAKE of an MCP stand-in."""

    id: str
    server_name: str
    version: str
    path: str
    instructions: str
    tools: tuple[Tool[S], ...]
    new_store: Callable[[Account], S]
    challenge: Challenge
    errors: ErrorStyle = ErrorStyle()
    settings: Settings = field(default_factory=Settings)
    assumed_shapes: frozenset[str] = frozenset()
    page_size: int = 50
    beside: Callable[[AccountBook[S], Clock], ASGIApp] | None = None  # plain HTTP on paths other than `path`

    def build(self, clock: Clock) -> McpFake[S]:
        return McpFake(self, clock)


class McpFake(Generic[S]):
    """A built MCP stand-in; satisfies kit.FakeApp."""

    def __init__(self, provider: McpProvider[S], clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._book = AccountBook(provider.id, provider.new_store, provider.settings)
        self._tools = {tool.name: tool for tool in provider.tools}
        self._listed = [tool.wire() for tool in provider.tools]
        self._checks = {tool.name: Draft202012Validator(tool.input_schema) for tool in provider.tools}
        server: Server[Any] = Server(
            provider.server_name,
            version=provider.version,
            instructions=provider.instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            get_tool_input_schema=lambda name: self._tools[name].input_schema if name in self._tools else None,
        )
        beside = provider.beside(self._book, clock) if provider.beside else None
        self._app = Gate(server.streamable_http_app(), self._book, provider.path, provider.challenge, beside)

    @property
    def app(self) -> ASGIApp:
        return self._app

    @property
    def path(self) -> str:
        return self._provider.path

    def admit(self, account: Account) -> None:
        self._book.admit(account)

    def revoke(self, credential: str) -> None:
        self._book.revoke(credential)

    def configure(self, credential: str, **settings: object) -> None:
        self._book.configure(credential, **settings)

    async def _list_tools(self, _ctx: object, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        start: int | None = 0
        if params is not None and params.cursor is not None:
            start = open_cursor("tools", params.cursor)
        if start is None or start >= max(len(self._listed), 1):
            raise MCPError(INVALID_PARAMS, "Invalid cursor")
        end = start + self._provider.page_size
        following = seal_cursor("tools", end) if end < len(self._listed) else None
        return t.ListToolsResult(tools=self._listed[start:end], next_cursor=following, ttl_ms=0, cache_scope="private")

    async def _call_tool(self, ctx: Any, params: t.CallToolRequestParams) -> t.CallToolResult:
        entry = self._book.find(bearer(ctx.request.headers) if ctx.request is not None else None)
        if entry is None:  # revoked between the gate and here
            raise MCPError(-32001, "Unauthorized")
        return (await self._answer(entry, params.name, params.arguments or {})).wire()

    async def _answer(self, entry: Entry[S], name: str, arguments: JsonObject) -> Reply:
        errors, settings = self._provider.errors, entry.settings
        tool = self._tools.get(name)
        if tool is None:
            return errors.unknown_tool(name)
        problems = self._problems(name, arguments)
        if problems:
            return errors.bad_arguments(name, problems)
        clock = entry.account.clock or self._clock
        await _wait(clock, settings.of(settings.latency_s, name))
        broken = settings.of(settings.fail, name)
        if broken is not None:
            return errors.internal(name, broken)
        call = Call(entry.store, entry.account, settings, clock.now(), name)
        try:
            answer = tool.handler(call, _with_defaults(tool.input_schema, arguments))
        except Refusal as refusal:
            return refusal.reply
        await _wait(clock, settings.of(settings.answer_latency_s, name))
        return answer if isinstance(answer, Reply) else Reply(answer)

    def _problems(self, name: str, arguments: JsonObject) -> list[Problem]:
        found = sorted(self._checks[name].iter_errors(arguments), key=lambda e: [str(part) for part in e.absolute_path])
        return [Problem("".join(f"/{part}" for part in e.absolute_path), str(e.validator), e.message) for e in found]


def _with_defaults(schema: JsonObject, arguments: JsonObject) -> JsonObject:
    declared = schema.get("properties", {})
    defaults = {name: copy.deepcopy(part["default"]) for name, part in declared.items() if "default" in part}
    return defaults | copy.deepcopy(arguments)


async def _wait(clock: Clock, seconds: float | None) -> None:
    if seconds:
        await clock.sleep(seconds)
