"""Changing a provider's answer as it passes: catalog mutations, and faults that rewrite the JSON-RPC response."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from harness.model.digest import loads_exact
from harness.model.exchange import Outcome
from harness.tap import mutate
from harness.tap.answer import PARSE_BOUND, EventSplitter, event_data, is_answer, with_data
from harness.tap.fault import Fault
from harness.tap.mutate import LOOP_CURSOR, Mutation
from harness.tap.witness import MCP_LIST, OpenExchange

Message = dict[str, Any]

_JSON = "json"
_EVENTS = "events"


class Rewriter:
    """Fed with the body as it comes; gives out the changed body. Events that are not the answer pass through byte for byte."""

    def __init__(self, exchange: OpenExchange, form: str, steps: list[Callable[[Message], list[Message]]]) -> None:
        self._exchange = exchange
        self._form = form
        self._steps = steps
        self._body = bytearray()
        self._splitter = EventSplitter()
        self._headers: dict[bytes, bytes] = {b"content-length": b""}
        self.outcome: Outcome = "answered"
        self.answered = False

    @classmethod
    def wanted(
        cls, exchange: OpenExchange, headers: list[tuple[bytes, bytes]], faults: Iterable[Fault], mutations: Iterable[Mutation]
    ) -> Rewriter | None:
        """A rewriter, if this exchange is a JSON-RPC request that something applies to and its answer is JSON or events, uncompressed."""
        if not exchange.is_rpc or exchange.rpc_id is None:
            return None
        known = {name.lower(): value for name, value in headers}
        kind = known.get(b"content-type", b"").partition(b";")[0].strip().lower()
        form = {b"application/json": _JSON, b"text/event-stream": _EVENTS}.get(kind)
        if form is None or known.get(b"content-encoding", b"identity") != b"identity":
            return None
        rewriting = [fault for fault in faults if type(fault).rewrite is not Fault.rewrite]
        changes = tuple(mutations) if exchange.rpc_method == MCP_LIST else ()
        if not rewriting and not changes:
            return None
        rewriter = cls(exchange, form, [])
        if changes:
            rewriter._steps.append(lambda message: [rewriter._mutated(message, changes)])
        for fault in rewriting:
            rewriter._steps.append(lambda message, fault=fault: rewriter._faulted(message, fault))  # type: ignore[misc]
        return rewriter

    @property
    def streams(self) -> bool:
        return self._form == _EVENTS

    @property
    def changed_headers(self) -> dict[bytes, bytes]:
        """Headers to replace, known once `finish` was called or from the start when it streams; an empty value drops one."""
        return self._headers

    def feed(self, chunk: bytes) -> bytes:
        """What can be passed on now."""
        if self._form == _JSON:
            self._body += chunk
            return b""
        return b"".join(self._event(event) for event in self._splitter.feed(chunk))

    def finish(self) -> bytes:
        """What is left at the end of the body."""
        if self._form == _EVENTS:
            rest = self._splitter.rest()
            return self._event(rest) if rest else b""
        body = bytes(self._body)
        messages = self._rewritten(body)
        if messages is not None and len(messages) > 1:  # one JSON body cannot carry two messages
            self._headers = {b"content-length": b"", b"content-type": b"text/event-stream"}
            return b"".join(b"event: message\r\ndata: " + message + b"\r\n\r\n" for message in messages)
        if messages is not None:
            body = messages[0]
        self._headers = {b"content-length": str(len(body)).encode()}
        return body

    @staticmethod
    def encode(message: Any) -> bytes:
        return json.dumps(message, separators=(",", ":")).encode()  # ASCII, so that a lone surrogate survives as its escape

    def _event(self, event: bytes) -> bytes:
        if self.answered or (b'"result"' not in event and b'"error"' not in event):
            return event
        messages = self._rewritten(event_data(event))
        return event if messages is None else b"".join(with_data(event, message) for message in messages)

    def _rewritten(self, text: bytes) -> list[bytes] | None:
        """The messages to deliver instead of this one, or None to pass it on as it is."""
        if len(text) > PARSE_BOUND:
            return None
        try:
            message = loads_exact(text)
        except ValueError:
            return None
        if not is_answer(message, self._exchange.rpc_id):
            return None
        messages = [message]
        for step in self._steps:
            messages = [changed for one in messages for changed in step(one)]
        if len(messages) == 1 and messages[0] is message:  # nothing applied: not a byte is touched
            self._exchange.read_answer(message)
            self.answered = True
            return None
        try:
            encoded = [self.encode(changed) for changed in messages]
        except TypeError:  # an integer of thousands of digits, kept as a decimal
            return None
        self._exchange.read_answer(next((one for one in messages if "method" not in one), messages[0]))
        self.answered = True
        return encoded

    def _mutated(self, message: Message, mutations: tuple[Mutation, ...]) -> Message:
        result = message.get("result")
        if not isinstance(result, dict):
            return message
        changed = mutate.apply(result, mutations)
        if changed == result:
            return message
        self._exchange.faults.append("mutation")
        return {**message, "result": changed}

    def _faulted(self, message: Message, fault: Fault) -> list[Message]:
        messages = fault.rewrite(message)
        if messages is None:
            return [message]
        if fault.kind not in self._exchange.faults:
            self._exchange.faults.append(fault.kind)
        self.outcome = "fault"
        return messages


def strip_loop_cursor(message: Any, mutations: Iterable[Mutation]) -> bool:
    """Take out of a tools/list request the cursor that `cursor-loop` put into the answer before. True when it was there."""
    if not any(mutation.kind == "cursor-loop" for mutation in mutations) or not isinstance(message, dict):
        return False
    params = message.get("params")
    if message.get("method") != MCP_LIST or not isinstance(params, dict) or params.get("cursor") != LOOP_CURSOR:
        return False
    del params["cursor"]
    return True
