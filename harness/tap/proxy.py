"""The proxy itself: one ASGI application in front of every mount, streaming both ways.

A JSON request body is read whole before it is passed on, byte for byte, because the witness must know what it is before the provider
does; other bodies and all answers stream. A gateway that hangs up ends the provider's side at once, and a provider that breaks
off breaks the gateway's side: never a clean end of a body that was not whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.types import Receive, Scope, Send

from harness.clock import Clock
from harness.model.exchange import Outcome
from harness.tap.answer import Reader, reader_for
from harness.tap.fault import Fault, Hang, Latency, Phase, Reply, Reset, Truncated, first_reply
from harness.tap.link import Link
from harness.tap.mount import Mount
from harness.tap.operations import tool_of
from harness.tap.record import Take
from harness.tap.replay import UNMATCHED, Played
from harness.tap.rewrite import Rewriter, strip_loop_cursor
from harness.tap.upstream import UPSTREAM_ERRORS, Pool, ProtocolError, Source
from harness.tap.witness import BATCH, OpenExchange

REQUEST_BOUND = 16 * 1024 * 1024
"""Bytes of a JSON request; a larger one is refused with 413, since a call that cannot be read cannot be witnessed."""

_HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
     b"transfer-encoding", b"upgrade")
)  # fmt: skip
_REFUSED_BATCH = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"batches are not part of this protocol"}}'


class _GatewayGone(Exception):
    """The gateway hung up while its request body was being read."""


class _TooLarge(Exception):
    """The request body is beyond REQUEST_BOUND."""


class Passage:
    """One exchange on its way through a mount."""

    def __init__(self, mount: Mount, path: bytes, scope: Scope, receive: Receive, send: Send, pool: Pool, clock: Clock) -> None:
        self._mount = mount
        self._raw_path = path
        self._scope = scope
        self._receive = receive
        self._send = send
        self._pool = pool
        self._clock = clock
        self._link: Link = scope["state"]["link"]
        self._request_read = asyncio.Event()
        self._delivered = False
        self._pump: asyncio.Task[None] | None = None
        self._broken_as: Outcome = "client_gone"
        self._exchange: OpenExchange = mount.log.open(scope["method"], path.decode("latin-1") or "/", dict(scope["headers"]))

    async def run(self) -> None:
        self._mount.passing.add(self)
        try:
            body = await self._read_request()
            self._pump = asyncio.create_task(self._guarded(body))
            await self._until_over(self._pump)
        except _GatewayGone:
            pass
        except _TooLarge:
            await self._refuse(413, b'{"error":"request too large for the tap"}', "request-too-large")
        finally:
            self._mount.passing.discard(self)
            if self._pump is not None and not self._pump.done():
                self._pump.cancel()
                await asyncio.wait({self._pump})
            self._mount.log.close(self._exchange, self._broken_as)

    def unmount(self) -> None:
        self._broken_as = "unmounted"
        self._link.reset()

    async def _until_over(self, pump: asyncio.Task[None]) -> None:
        """Return when the answer is delivered, or the gateway is gone (the caller then cancels the pump)."""
        reading = asyncio.ensure_future(self._request_read.wait())
        await asyncio.wait({reading, pump}, return_when=asyncio.FIRST_COMPLETED)  # an answer may come before the body was read
        reading.cancel()
        while not pump.done():
            message = await self._receive()  # returns "disconnect" too once the response is complete
            if message["type"] == "http.disconnect":
                if not self._delivered and not pump.done():
                    return
                break
        await pump  # a mistake of ours is raised here

    # The request.

    async def _read_request(self) -> bytes | None:
        """The whole JSON body ("" when there is none), or None for a body that is to be streamed."""
        exchange, headers = self._exchange, self._exchange.headers
        rest_tool = tool_of(self._mount.operations, exchange.method, exchange.path)
        kind = headers.get(b"content-type", b"application/json").partition(b";")[0].strip().lower()
        has_body = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
        if has_body and not (kind == b"application/json" or kind.endswith(b"+json")):
            exchange.read_request(b"", rest_tool)
            return None
        body = bytearray()
        async for chunk in self._request_chunks():
            body += chunk
            if len(body) > REQUEST_BOUND:
                raise _TooLarge
        exchange.read_request(bytes(body), rest_tool)
        self._mount.log.touch()
        return bytes(body)

    async def _request_chunks(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._request_read.set()
                raise _GatewayGone
            if message.get("body"):
                yield message["body"]
            if not message.get("more_body"):
                self._request_read.set()
                return

    async def _streamed_body(self, take: Take | None = None) -> AsyncIterator[bytes]:
        async for chunk in self._request_chunks():
            self._exchange.request_bytes += len(chunk)
            if take is not None:
                take.streams(chunk)
            yield chunk

    def _upstream_headers(self, body: bytes | None) -> list[tuple[bytes, bytes]]:
        headers = [(b"host", self._mount.upstream.netloc)]
        dropped = _HOP_BY_HOP | {b"host", b"content-length", b"expect", *_named_by_connection(self._exchange.headers)}
        for name, value in self._scope["headers"]:
            if name == b"accept-encoding":
                value = b"identity"  # the witness must be able to read the answer
            if name not in dropped:
                headers.append((name, value))
        length = self._exchange.headers.get(b"content-length") if body is None else str(len(body)).encode()
        if body is None and length is None:
            headers.append((b"transfer-encoding", b"chunked"))
        elif length is not None and (body or body is None or self._exchange.method not in ("GET", "HEAD", "DELETE", "OPTIONS")):
            headers.append((b"content-length", length))
        return headers

    # The exchange.

    async def _guarded(self, body: bytes | None) -> None:
        """The pump; whatever ends it without a whole answer also ends the gateway's connection."""
        try:
            await self._pass(body)
        except UPSTREAM_ERRORS:
            self._end("upstream_failed")
            self._break_off()
        except _GatewayGone:
            self._end(self._broken_as)
        except asyncio.CancelledError:
            raise  # the gateway's connection is what ended already
        except BaseException:
            self._link.reset()
            raise

    async def _pass(self, body: bytes | None) -> None:
        exchange = self._exchange
        if exchange.rpc_method == BATCH:
            await self._refuse(400, _REFUSED_BATCH, "batch-refused")
            return
        hits = self._mount.desk.hits(self._mount.faults, exchange)
        if await self._carried_out(hits, "request"):
            return
        if made := first_reply(hits, exchange):
            exchange.faults.append(made[0].kind)
            await self._reply(made[1])
            return
        guard = self._mount.guard
        if guard is not None and (refused := guard.admit(exchange)) is not None:
            exchange.faults.append(refused.rule)
            await self._reply(refused.reply())
            return
        if body and strip_loop_cursor(exchange.message, self._mount.mutations):
            body = Rewriter.encode(exchange.message)
        exchange.forwarded = True
        self._mount.log.touch()
        response = await (self._sent(body) if self._mount.player is None else self._played(body))
        try:
            await self._answer(response, hits)
        finally:
            await response.aclose()

    async def _sent(self, body: bytes | None) -> Source:
        """What the provider answers; a recorder listens."""
        mount, method, query = self._mount, self._exchange.method, self._scope["query_string"]
        take = None
        if mount.recorder is not None:
            take = mount.recorder.begin(method, self._raw_path + (b"?" + query if query else b""), self._scope["headers"])
            take.asks(body)
        content = self._streamed_body(take) if body is None else body
        sending = self._pool.send(mount.upstream, method, mount.upstream.target(self._raw_path, query), self._upstream_headers(body), content)
        return await sending if take is None else await take.answered_by(sending)

    async def _played(self, body: bytes | None) -> Played:
        """What was recorded."""
        assert self._mount.player is not None
        query = self._scope["query_string"]
        whole = b"".join([chunk async for chunk in self._streamed_body()]) if body is None else body
        target = self._raw_path + (b"?" + query if query else b"")
        played = await self._mount.player.answer(self._exchange.method, target, self._exchange.headers, whole)
        if not played.matched:
            self._exchange.faults.append(UNMATCHED)
        return played

    async def _carried_out(self, hits: list[Fault], phase: Phase) -> bool:
        """Carry out the faults that are no replies. True when there is nothing more to do."""
        for fault in hits:
            if not isinstance(fault, (Latency, Reset, Hang)) or fault.at != phase:
                continue
            self._exchange.faults.append(fault.kind)
            self._mount.log.touch()
            if isinstance(fault, Latency):
                await self._clock.sleep(fault.seconds)
            elif isinstance(fault, Hang):
                await asyncio.Event().wait()  # until the gateway hangs up, which cancels the pump
            else:
                self._end("fault")
                self._link.reset()
                return True
        return False

    async def _answer(self, response: Source, hits: list[Fault]) -> None:
        if any(isinstance(fault, (Latency, Reset, Hang)) and fault.at == "answer" for fault in hits):
            held = [chunk async for chunk in response.chunks()]  # the provider has done its work when its answer is whole
            if await self._carried_out(hits, "answer"):
                return
            chunks = _replayed(held)
        else:
            chunks = response.chunks()
        if response.status > 599:  # the server side of the tap could not say it, and no client would know what it means
            raise ProtocolError(f"status {response.status}")
        self._exchange.status = response.status
        if truncated := next((fault for fault in hits if isinstance(fault, Truncated)), None):
            await self._half(response, chunks, truncated)
            return
        rewriter = Rewriter.wanted(self._exchange, response.headers, hits, self._mount.mutations)
        if rewriter is not None:
            await self._rewritten(response, chunks, rewriter)
        else:
            await self._streamed(response, chunks)

    async def _streamed(self, response: Source, chunks: AsyncIterator[bytes]) -> None:
        exchange = self._exchange
        headers = _lowered(response.headers)
        reader = reader_for(_text(headers, b"content-type"), _text(headers, b"content-encoding"), exchange.rpc_id)
        whole = int(length) if (length := _text(headers, b"content-length")).isdigit() else -1
        await self._start(response.status, self._gateway_headers(response.headers))
        async for chunk in chunks:
            exchange.response_bytes += len(chunk)
            reader.feed(chunk)
            # The gateway may act on the answer as soon as it has it, so the answer gets its order number before it is passed on.
            if reader.complete or exchange.response_bytes == whole:
                self._conclude(reader)
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
        self._conclude(reader)
        await self._finish()

    async def _rewritten(self, response: Source, chunks: AsyncIterator[bytes], rewriter: Rewriter) -> None:
        if rewriter.streams:
            await self._start(response.status, self._gateway_headers(response.headers, rewriter.changed_headers))
            async for chunk in chunks:
                if out := rewriter.feed(chunk):
                    await self._rewritten_part(out, rewriter)
            await self._rewritten_part(rewriter.finish(), rewriter)
        else:
            async for chunk in chunks:
                rewriter.feed(chunk)
            body = rewriter.finish()
            await self._start(response.status, self._gateway_headers(response.headers, rewriter.changed_headers))
            await self._rewritten_part(body, rewriter)
        self._end(rewriter.outcome)
        await self._finish()

    async def _rewritten_part(self, out: bytes, rewriter: Rewriter) -> None:
        self._exchange.response_bytes += len(out)
        if rewriter.answered:
            self._end(rewriter.outcome)
        await self._send({"type": "http.response.body", "body": out, "more_body": True})

    async def _half(self, response: Source, chunks: AsyncIterator[bytes], fault: Truncated) -> None:
        body = b"".join([chunk async for chunk in chunks])
        self._exchange.faults.append(fault.kind)
        self._exchange.response_bytes = len(body) // 2
        self._end("fault")
        await self._start(response.status, self._gateway_headers(response.headers))
        await self._send({"type": "http.response.body", "body": body[: len(body) // 2], "more_body": True})
        self._break_off()

    async def _reply(self, reply: Reply) -> None:
        """Deliver an answer of our own."""
        exchange = self._exchange
        exchange.status = reply.status
        headers = dict(reply.headers)
        reader = reader_for(_text(headers, b"content-type"), _text(headers, b"content-encoding"), exchange.rpc_id)
        await self._start(reply.status, list(reply.headers))
        for chunk in reply.chunks:
            exchange.response_bytes += len(chunk)
            reader.feed(chunk)
            if b"content-length" in headers:
                self._conclude(reader, "fault")
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
            await asyncio.sleep(0)  # a large reply must not hold up everybody else
        self._conclude(reader, "fault")
        await self._finish()

    async def _refuse(self, status: int, body: bytes, why: str) -> None:
        self._exchange.faults.append(why)
        headers = ((b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"connection", b"close"))
        await self._reply(Reply(status, headers, (body,)))

    # Ends.

    def _conclude(self, reader: Reader, outcome: Outcome = "answered") -> None:
        if self._mount.log.is_open(self._exchange):
            self._exchange.read_answer(reader.finish())
            self._end(outcome)

    def _end(self, outcome: Outcome) -> None:
        self._mount.log.close(self._exchange, outcome)

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        if self._mount.guard is not None:
            self._mount.guard.answered(self._exchange, status, headers)
        self._mount.log.touch()
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _finish(self) -> None:
        self._delivered = True
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def _break_off(self) -> None:
        """End the gateway's connection so that what it got cannot pass for a whole answer."""
        if self._exchange.status is None or self._scope["http_version"] == "1.0":
            self._link.reset()
        else:
            self._link.close()  # delivers what was sent so far; the framing shows that the body is not whole

    def _gateway_headers(self, headers: list[tuple[bytes, bytes]], changed: dict[bytes, bytes] | None = None) -> list[tuple[bytes, bytes]]:
        """The provider's headers without the hop-by-hop ones; those in `changed` replaced, or dropped when empty."""
        known = _lowered(headers)
        dropped = _HOP_BY_HOP | set(_named_by_connection(known)) | set(changed or ())
        kept = [(name.lower(), value) for name, value in headers if name.lower() not in dropped]
        if b"location" in known:
            kept = [(name, self._relocated(value) if name == b"location" else value) for name, value in kept]
        return kept + [(name, value) for name, value in (changed or {}).items() if value]

    def _relocated(self, location: bytes) -> bytes:
        """A redirect to the provider's own address must lead through the tap again, or the witness goes blind."""
        own = self._mount.upstream.origin.encode()
        rest = location[len(own) :]
        if location.startswith(own) and (not rest or rest[:1] in (b"/", b"?", b"#")):
            return self._mount.url().encode() + rest
        return location


async def _replayed(chunks: list[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


def _named_by_connection(headers: dict[bytes, bytes]) -> list[bytes]:
    return [name.strip().lower() for name in headers.get(b"connection", b"").split(b",") if name.strip()]


def _lowered(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    return {name.lower(): value for name, value in headers}


def _text(headers: dict[bytes, bytes], name: bytes) -> str:
    return headers.get(name, b"").decode("latin-1")
