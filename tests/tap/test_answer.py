"""Reading answers out of streams: the result never depends on how the bytes are cut."""

from __future__ import annotations

import gzip
import itertools
import json
import zlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.tap import answer
from harness.tap.answer import EventSplitter, event_data, is_answer, reader_for, with_data

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy

ENDS = st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r"])
TAILS = st.binary(max_size=5).filter(lambda tail: b"\n" not in tail and b"\r" not in tail)
LINES = st.sampled_from([b"data: x", b"data:y", b": ping", b"event: message", b"id: 4", b'data: {"result":1}'])


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in itertools.pairwise(marks)]


@RELAXED
@given(
    st.lists(st.tuples(LINES, ENDS), max_size=8),
    TAILS,
    st.lists(st.integers(0, 500)),
)
def test_splitting_does_not_depend_on_chunks(events: list[tuple[bytes, bytes]], tail: bytes, places: list[int]) -> None:
    stream = b"".join(line + end for line, end in events) + tail
    splitter = EventSplitter()
    got = [event for chunk in cut(stream, places) for event in splitter.feed(chunk)]
    assert got == [line + end for line, end in events]
    assert splitter.rest() == tail


@pytest.mark.parametrize("encoding", ["", "gzip", "deflate"])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "Application/JSON; charset=utf-8", "application/problem+json"])
@RELAXED
@given(places=st.lists(st.integers(0, 500)))
def test_the_answer_is_found_in_any_form(kind: str, encoding: str, places: list[int]) -> None:
    message = {"jsonrpc": "2.0", "id": 3, "result": {"text": "a\nb", "n": 2**70}}
    body = json.dumps(message).encode()
    if "event" in kind:
        progress = b'event: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/progress","params":{"error":1}}\r\n\r\n'
        other = b'data: {"jsonrpc":"2.0","id":4,"result":{}}\n\n'
        body = progress + other + b"event: message\r\ndata: " + body + b"\r\n\r\n" + other
    body = {"": body, "gzip": gzip.compress(body, mtime=0), "deflate": zlib.compress(body)}[encoding]
    reader = reader_for(kind, encoding, 3)
    for chunk in cut(body, places):
        reader.feed(chunk)
    assert reader.finish() == message
    assert reader.complete is ("event" in kind)


@pytest.mark.parametrize(
    ("kind", "encoding", "body"),
    [("text/html", "", b"{}"), ("application/json", "br", b"{}"), ("application/json", "gzip", b"{}"), ("application/json", "", b"{"),
     ("application/json", "", b""), ("text/event-stream", "", b'data: {"result"\n\n'), ("", "", b"{}")],
)  # fmt: skip
def test_what_cannot_be_read_is_none(kind: str, encoding: str, body: bytes) -> None:
    reader = reader_for(kind, encoding, 1)
    reader.feed(body)
    reader.feed(b"")
    assert reader.finish() is None


def test_memory_is_bounded() -> None:
    bomb = gzip.compress(b'{"a":"' + b"x" * (answer.PARSE_BOUND * 2) + b'"}')
    for kind, encoding, body in [
        ("application/json", "gzip", bomb), ("application/json", "", b" " * (answer.PARSE_BOUND + 1) + b"{}"),
        ("text/event-stream", "", b'data: "result"' + b"x" * (answer.PARSE_BOUND + 1)),
    ]:  # fmt: skip
        reader = reader_for(kind, encoding, 1)
        for at in range(0, len(body), 65536):
            reader.feed(body[at : at + 65536])
        assert reader.finish() is None


@pytest.mark.parametrize(
    ("message", "rpc_id", "expected"),
    [
        ({"id": 1, "result": {}}, 1, True), ({"id": "1", "result": {}}, 1, False), ({"id": True, "result": {}}, 1, False),
        ({"id": 1, "error": {}}, 1, True), ({"id": None, "error": {}}, 1, True), ({"id": None, "result": {}}, 1, False),
        ({"id": 1, "method": "ping"}, 1, False), ({"id": 1, "method": "x", "result": 1}, 1, False), ([], 1, False), ({"id": 1}, 1, False),
    ],
)  # fmt: skip
def test_what_counts_as_the_answer(message: Any, rpc_id: Any, expected: bool) -> None:
    assert is_answer(message, rpc_id) is expected


def test_data_is_replaced_within_an_event() -> None:
    event = b"event: message\r\nid: 9\r\ndata: a\r\ndata: b\r\n\r\n"
    assert event_data(event) == b"a\nb"
    changed = with_data(event, b"{}")
    assert changed == b"event: message\r\nid: 9\r\ndata: {}\r\n\r\n"
    assert EventSplitter().feed(changed) == [changed]
