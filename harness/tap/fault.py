"""Faults: small frozen descriptions of what the tap does instead of passing an exchange on faithfully.

Each fault names the exchanges it hits (`tool`, `rpc_method`; both None hits every request of the mount), the first matching
occurrence (`nth`, from 1) and how many times (`times`; None means from then on). Every hit is named in the log.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from http import HTTPStatus
from typing import Any, ClassVar, Literal

from harness.errors import UsageError
from harness.registry import suggest
from harness.tap.witness import OpenExchange

Phase = Literal["request", "answer"]
"""`request`: the provider never gets it. `answer`: the provider has carried it out, and the gateway does not learn so."""

MODERN = b"2026-07-28"
_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole HTTP answer made by the tap."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    chunks: Iterable[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What all faults share. A subclass either makes a `reply`, or `rewrite`s the answer, or is carried out by the proxy itself."""

    kind: ClassVar[str]
    tool: str | None = None
    rpc_method: str | None = None
    nth: int = 1
    times: int | None = None

    def matches(self, exchange: OpenExchange) -> bool:
        return self.tool in (None, exchange.tool) and self.rpc_method in (None, exchange.rpc_method)

    def reply(self, exchange: OpenExchange) -> Reply | None:
        """The answer to give without asking the provider, or None."""
        return None

    def rewrite(self, message: dict[str, Any]) -> list[dict[str, Any]] | None:
        """The messages to deliver instead of the provider's answer, or None when this fault leaves answers alone."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency(Fault):
    """Waits `seconds` of the harness's clock before passing on the request, or the whole answer."""

    kind: ClassVar[str] = "latency"
    seconds: float
    at: Phase = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(Fault):
    """Resets the gateway's connection (RST) instead of answering."""

    kind: ClassVar[str] = "reset"
    at: Phase = "request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang(Fault):
    """Never answers; ends when the gateway hangs up."""

    kind: ClassVar[str] = "hang"
    at: Phase = "request"


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated(Fault):
    """Half of the provider's body, then the connection breaks."""

    kind: ClassVar[str] = "truncated"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongId(Fault):
    """The provider's answer under another JSON-RPC id."""

    kind: ClassVar[str] = "wrong-id"

    def rewrite(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        answered = message.get("id")
        return [{**message, "id": answered + 1_000_003 if type(answered) is int else f"{answered}-of-somebody-else"}]


@dataclass(frozen=True, slots=True, kw_only=True)
class Duplicate(Fault):
    """The provider's answer twice; a JSON body becomes an event stream, which alone can carry two messages."""

    kind: ClassVar[str] = "duplicate"

    def rewrite(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        return [message, message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce(Fault):
    """The provider's answer, and before it on the same stream the news that a list of its has changed, whether or not that is true."""

    kind: ClassVar[str] = "announce"
    news: str = "notifications/tools/list_changed"

    def rewrite(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"jsonrpc": "2.0", "method": self.news}, message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(Fault):
    """An HTTP error status, e.g. 503, 409, 429 with `retry_after`, 401, 403. `body` None gives a small JSON error object."""

    kind: ClassVar[str] = "status"
    code: int
    body: str | None = None
    content_type: str = "application/json"
    retry_after: str | None = None
    headers: tuple[tuple[str, str], ...] = ()

    def reply(self, exchange: OpenExchange) -> Reply:
        body = json.dumps({"error": HTTPStatus(self.code).phrase}) if self.body is None else self.body
        extra = [(name.lower().encode(), value.encode()) for name, value in self.headers]
        if self.retry_after is not None:
            extra.append((b"retry-after", self.retry_after.encode()))
        return _whole(self.code, self.content_type.encode(), body.encode(), *extra)


@dataclass(frozen=True, slots=True, kw_only=True)
class Oversize(Fault):
    """A well-formed answer of about `size` bytes, made as it is sent."""

    kind: ClassVar[str] = "oversize"
    size: int = 2_000_000

    def reply(self, exchange: OpenExchange) -> Reply:
        return Reply(200, ((b"content-type", b"application/json"),), _large_answer(exchange, self.size))


@dataclass(frozen=True, slots=True, kw_only=True)
class GzipBomb(Fault):
    """As Oversize, but a thousand times smaller on the wire."""

    kind: ClassVar[str] = "gzip-bomb"
    size: int = 64 * 1024 * 1024

    def reply(self, exchange: OpenExchange) -> Reply:
        headers = ((b"content-type", b"application/json"), (b"content-encoding", b"gzip"))
        return Reply(200, headers, _deflated(_large_answer(exchange, self.size)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Html(Fault):
    """A sign-in page, status 200."""

    kind: ClassVar[str] = "html"

    def reply(self, exchange: OpenExchange) -> Reply:
        return _whole(200, b"text/html; charset=utf-8", b"<!doctype html><title>Sign in</title><p>Please sign in.</p>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty(Fault):
    """Status 200 and nothing: an empty JSON body, or (`stream`) an event stream that ends without an event."""

    kind: ClassVar[str] = "empty"
    stream: bool = False

    def reply(self, exchange: OpenExchange) -> Reply:
        if self.stream:
            return Reply(200, ((b"content-type", b"text/event-stream"),), ())
        return _whole(200, b"application/json", b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidJson(Fault):
    """A JSON body that stops in the middle, delivered as if it were whole."""

    kind: ClassVar[str] = "invalid-json"

    def reply(self, exchange: OpenExchange) -> Reply:
        return _whole(200, b"application/json", b'{"jsonrpc":"2.0","id":1,"result":{"content":[')


@dataclass(frozen=True, slots=True, kw_only=True)
class IsError(Fault):
    """A tool result with `isError: true`."""

    kind: ClassVar[str] = "is-error"
    text: str = "The provider could not do that."

    def reply(self, exchange: OpenExchange) -> Reply:
        return _result(exchange, {"content": [{"type": "text", "text": self.text}], "isError": True})


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcError(Fault):
    """A JSON-RPC error."""

    kind: ClassVar[str] = "rpc-error"
    code: int = -32603
    message: str = "Internal error"
    data: Any = None

    def reply(self, exchange: OpenExchange) -> Reply:
        error = {"code": self.code, "message": self.message, **({} if self.data is None else {"data": self.data})}
        return _json(200, {"jsonrpc": "2.0", "id": exchange.rpc_id, "error": error})


@dataclass(frozen=True, slots=True, kw_only=True)
class StubReply(Fault):
    """A given result (or REST body) without asking the provider."""

    kind: ClassVar[str] = "stub-reply"
    result: Any

    def reply(self, exchange: OpenExchange) -> Reply:
        return _result(exchange, self.result)


FAULT_KINDS: dict[str, type[Fault]] = {
    kind.kind: kind
    for kind in (
        Latency, Reset, Hang, Truncated, WrongId, Duplicate, Announce, Status, Oversize, GzipBomb, Html, Empty, InvalidJson,
        IsError, RpcError, StubReply,
    )
}  # fmt: skip
"""Every fault by its word."""


def make_fault(kind: str, **settings: Any) -> Fault:
    """The fault of that word, e.g. `make_fault("status", code=429, retry_after="3", tool="add_memory", times=1)`. Raises UsageError."""
    if kind not in FAULT_KINDS:
        raise UsageError(f"unknown fault {kind!r}", fix=suggest(kind, list(FAULT_KINDS)))
    known = [item.name for item in fields(FAULT_KINDS[kind])]
    for name in settings:
        if name not in known:
            raise UsageError(f"fault {kind!r} has no setting {name!r}", fix=suggest(name, known))
    try:
        return FAULT_KINDS[kind](**settings)
    except TypeError as problem:  # a required setting is missing
        raise UsageError(f"fault {kind!r}: {problem}", fix=f"settings are: {', '.join(known)}") from None


class FaultDesk:
    """Decides which faults hit an exchange, counting occurrences per fault."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Fault, int]] = {}  # by identity: two equal faults count apart

    def hits(self, faults: Iterable[Fault], exchange: OpenExchange) -> list[Fault]:
        hits = []
        for fault in faults:
            if not fault.matches(exchange):
                continue
            known, count = self._seen.get(id(fault), (fault, 0))
            count = count + 1 if known is fault else 1
            self._seen[id(fault)] = (fault, count)  # holding the fault keeps its id from being reused
            if count >= fault.nth and (fault.times is None or count < fault.nth + fault.times):
                hits.append(fault)
        return hits


def first_reply(faults: Iterable[Fault], exchange: OpenExchange) -> tuple[Fault, Reply] | None:
    """The first of these faults that answers by itself, with its answer."""
    for fault in faults:
        reply = fault.reply(exchange)
        if reply is not None:
            return fault, reply
    return None


def whole_reply(status: int, body: Any) -> Reply:
    """A whole JSON answer of the tap's own."""
    return _json(status, body)


def _whole(status: int, content_type: bytes, body: bytes, *headers: tuple[bytes, bytes]) -> Reply:
    return Reply(status, ((b"content-type", content_type), (b"content-length", str(len(body)).encode()), *headers), (body,))


def _json(status: int, body: Any) -> Reply:
    return _whole(status, b"application/json", json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())


def _enveloped(exchange: OpenExchange, result: Any) -> Any:
    if not exchange.is_rpc:
        return result
    if exchange.headers.get(b"mcp-protocol-version") == MODERN and isinstance(result, dict):
        result = {"resultType": "complete", **result}
    return {"jsonrpc": "2.0", "id": exchange.rpc_id, "result": result}


def _result(exchange: OpenExchange, result: Any) -> Reply:
    return _json(200, _enveloped(exchange, result))


def _large_answer(exchange: OpenExchange, size: int) -> Iterator[bytes]:
    mark = "\x00"
    shape = _enveloped(exchange, {"content": [{"type": "text", "text": mark}]})
    head, _, tail = json.dumps(shape).encode().partition(json.dumps(mark)[1:-1].encode())
    yield head
    block = b"x" * _CHUNK
    for _ in range(size // _CHUNK):
        yield block
    yield b"x" * (size % _CHUNK) + tail


def _deflated(chunks: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(9, wbits=31)
    for chunk in chunks:
        if packed := packer.compress(chunk):
            yield packed
    yield packer.flush()
