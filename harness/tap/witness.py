"""The witness: who asked what, in which order, and what went back. One log per mount."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.clock import Clock
from harness.errors import Incomplete
from harness.model.digest import NotCanonical, arguments_digest, canonical_text, loads_exact, text_digest
from harness.model.exchange import RESULT_BOUND, Outcome, ProviderExchange, Sequencer

__all__ = ["Log", "OpenExchange", "Sequencer", "Stray", "utc_text"]

Predicate = Callable[[tuple[ProviderExchange, ...]], bool]

MCP_CALL = "tools/call"
MCP_LIST = "tools/list"
BATCH = "batch"


def utc_text(clock: Clock) -> str:
    """The clock's instant as RFC 3339 UTC with microseconds."""
    return clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Stray:
    """A request that no mount stood for: somebody dialled what was never given out, or no longer is."""

    seq: int
    at: str
    method: str
    host: str
    path: str


@dataclass(slots=True, eq=False)
class OpenExchange:
    """An exchange while it happens. `message` is the parsed request body, `rpc_id` its id with its JSON type."""

    n: int
    mount: str
    at: str
    method: str
    path: str
    started_seq: int
    headers: dict[bytes, bytes]
    message: Any = None
    rpc_id: Any = None
    rpc_method: str | None = None
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    arguments_digest: str | None = None
    traceparent: str | None = None
    forwarded: bool = False
    status: int | None = None
    is_error: bool | None = None
    rpc_error_code: int | None = None
    result: Any = None
    result_digest: str | None = None
    request_bytes: int = 0
    response_bytes: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def is_rpc(self) -> bool:
        return isinstance(self.message, dict) and self.message.get("jsonrpc") == "2.0"

    def read_request(self, body: bytes, rest_tool: str | None) -> None:
        """Attribute a whole JSON request body."""
        self.request_bytes = len(body)
        self.tool = rest_tool
        self.traceparent = _text(self.headers.get(b"traceparent"))
        if not body:
            return
        try:
            self.message = loads_exact(body, unique=True)
        except ValueError:
            return
        if isinstance(self.message, list) and any(isinstance(item, dict) and "jsonrpc" in item for item in self.message):
            self.rpc_method = BATCH
        elif self.is_rpc:
            self._read_rpc(self.message)
        elif isinstance(self.message, dict) and rest_tool is not None:
            self._take_arguments(self.message)

    def read_answer(self, answer: Any) -> None:
        """Note what went back: a JSON-RPC response, or a REST body."""
        if answer is None:
            return
        if not self.is_rpc:
            self._take_result(answer)
        elif isinstance(answer, dict):
            error = answer.get("error")
            if isinstance(error, dict):
                code = error.get("code")
                self.rpc_error_code = code if type(code) is int else None
            elif "result" in answer:
                result = answer["result"]
                self._take_result(result)
                if self.rpc_method == MCP_CALL and isinstance(result, dict):
                    self.is_error = result.get("isError") is True

    def snapshot(self, outcome: Outcome | None = None, ended_seq: int | None = None) -> ProviderExchange:
        return ProviderExchange(
            n=self.n,
            mount=self.mount,
            at=self.at,
            method=self.method,
            path=self.path,
            rpc_method=self.rpc_method,
            rpc_id=None if self.rpc_id is None else str(self.rpc_id),
            tool=self.tool,
            arguments=self.arguments,
            arguments_digest=self.arguments_digest,
            traceparent=self.traceparent,
            protocol_version=_text(self.headers.get(b"mcp-protocol-version")),
            forwarded=self.forwarded,
            status=self.status,
            is_error=self.is_error,
            rpc_error_code=self.rpc_error_code,
            result=self.result,
            result_digest=self.result_digest,
            request_bytes=self.request_bytes,
            response_bytes=self.response_bytes,
            started_seq=self.started_seq,
            ended_seq=ended_seq,
            outcome=outcome,
            fault=",".join(self.faults) or None,
        )

    def _read_rpc(self, message: dict[str, Any]) -> None:
        method = message.get("method")
        self.rpc_id = message.get("id")
        self.rpc_method = method if isinstance(method, str) else None
        params = message.get("params")
        if not isinstance(params, dict):
            return
        meta = params.get("_meta")
        if isinstance(meta, dict) and isinstance(meta.get("traceparent"), str):
            self.traceparent = meta["traceparent"]
        if self.rpc_method == MCP_CALL:
            name, arguments = params.get("name"), params.get("arguments")
            self.tool = name if isinstance(name, str) else None
            if arguments is None or isinstance(arguments, dict):
                self._take_arguments(arguments or {})

    def _take_arguments(self, arguments: dict[str, Any]) -> None:
        self.arguments = arguments
        try:
            self.arguments_digest = arguments_digest(arguments)
        except NotCanonical:
            self.arguments_digest = None

    def _take_result(self, result: Any) -> None:
        try:
            text = canonical_text(result)
        except NotCanonical:
            return
        self.result_digest = text_digest(text)
        if len(text.encode()) <= RESULT_BOUND:
            self.result = result


class Log:
    """All exchanges of one mount, in order of arrival; wakes whoever waits for a condition on them."""

    def __init__(self, mount: str, clock: Clock, sequencer: Sequencer) -> None:
        self._mount = mount
        self._clock = clock
        self._sequencer = sequencer
        self._entries: list[OpenExchange | ProviderExchange] = []
        self._changed = asyncio.Event()

    @property
    def exchanges(self) -> tuple[ProviderExchange, ...]:
        """Finished exchanges, and the present state of those in flight."""
        return tuple(entry.snapshot() if isinstance(entry, OpenExchange) else entry for entry in self._entries)

    def open(self, method: str, path: str, headers: dict[bytes, bytes]) -> OpenExchange:
        exchange = OpenExchange(
            n=len(self._entries) + 1,
            mount=self._mount,
            at=utc_text(self._clock),
            method=method,
            path=path,
            started_seq=self._sequencer.next(),
            headers=headers,
        )
        self._entries.append(exchange)
        self.touch()
        return exchange

    def is_open(self, exchange: OpenExchange) -> bool:
        return self._entries[exchange.n - 1] is exchange

    def close(self, exchange: OpenExchange, outcome: Outcome) -> None:
        """The exchange is over, and gets its second order number. Closing twice changes nothing."""
        if not self.is_open(exchange):
            return
        self._entries[exchange.n - 1] = exchange.snapshot(outcome, self._sequencer.next())
        self.touch()

    def touch(self) -> None:
        """Something about an exchange became known."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for(self, predicate: Predicate, timeout: float) -> tuple[ProviderExchange, ...]:
        """The exchanges as soon as `predicate` holds for them.

        Raises Incomplete after `timeout` real seconds: a watchdog, not a judgement.
        """
        try:
            async with asyncio.timeout(timeout):
                while not predicate(seen := self.exchanges):
                    await self._changed.wait()
        except TimeoutError:
            raise Incomplete(
                f"the witness waited {timeout:g} s in vain; it has seen {len(self._entries)} exchanges",
                where=f"tap mount {self._mount}",
                fix="check that the gateway was given this mount's URL, and that the provider answers",
            ) from None
        return seen


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")
