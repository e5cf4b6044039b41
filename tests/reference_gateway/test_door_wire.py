"""The gateway's own HTTP on a real socket: heads bounded and whole, blanks of no account, each answer in one packet."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from starlette.types import Receive, Scope, Send

from reference_gateway.door_wire import MAX_HEAD
from tests.reference_gateway.conftest import Served


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """The value of X as it came, then the size of the body."""
    if scope["type"] != "http":
        return
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    body = b"%s|%d" % (dict(scope["headers"]).get(b"x", b""), size)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with Served(echo) as served:
        yield served.port


def said(port: int, request: bytes) -> bytes:
    """What the server says until it closes."""
    with socket.create_connection(("127.0.0.1", port), 10) as line:
        line.sendall(request)
        found = b""
        while piece := line.recv(65536):
            found += piece
        return found


CLOSE = b"connection: close\r\n\r\n"


@pytest.mark.parametrize("value", [b"word", b"  word", b"word \t ", b"\tword  "])
def test_blanks_around_a_value_are_not_part_of_it(port: int, value: bytes) -> None:
    answer = said(port, b"GET / HTTP/1.1\r\nhost: a\r\nx:" + value + b"\r\n" + CLOSE)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n\r\nword|0")


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n" + CLOSE,
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n" + CLOSE,
        b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n" + CLOSE,
        b"GET / HTTP/1.1\r\nhost: a\r\nx : y\r\n" + CLOSE,
        b"GET / HTTP/1.1\r\nhost: a\r\nx: y\r\n folded\r\n" + CLOSE,
        b"no request at all\r\n\r\n",
        (b"GET / HTTP/1.1\r\nhost: a\r\nx: ").ljust(MAX_HEAD + 1, b"y"),  # one byte too many, the last that is read
        (b"GET /").ljust(MAX_HEAD + 1, b"y"),
    ],
)
def test_what_is_not_one_well_formed_request_is_refused(port: int, head: bytes) -> None:
    answer = said(port, head)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1


def test_a_head_and_a_body_leave_together_and_request_follows_request(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), 10) as line:
        for word in (b"one", b"two"):
            line.sendall(b"POST / HTTP/1.1\r\nhost: a\r\nx: %s\r\ncontent-length: 4\r\n\r\nbody" % word)
            assert line.recv(65536).endswith(b"\r\n\r\n%s|4" % word)  # one packet: nothing is left to wait for


def test_requests_that_are_sent_ahead_are_answered_in_order(port: int) -> None:
    first = b"POST / HTTP/1.1\r\nhost: a\r\nx: one\r\ncontent-length: 3\r\n\r\nabc"
    answer = said(port, first + b"GET / HTTP/1.1\r\nhost: a\r\nx: two\r\n" + CLOSE)
    assert answer.index(b"one|3") < answer.index(b"two|0")
    assert answer.count(b"HTTP/1.1 200") == 2
