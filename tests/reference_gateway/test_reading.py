"""Answers of providers taken apart: the same however they are cut, as h11 reads them, and never one that nobody asked for."""

from __future__ import annotations

import h11
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reference_gateway.reading import END, MAX_HEAD, Head, Malformed, Reader, written

Read = tuple[int, dict[str, str], bytes]

BODIES = st.binary(max_size=60)
VALUES = st.text("abc123 ;=/-\t", max_size=12)


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    """A well-formed answer with a length or in chunks, after up to two informational ones."""
    before = b"".join(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" for _ in range(draw(st.integers(0, 2))))
    status = draw(st.sampled_from([200, 202, 401, 404, 500]))
    fields = b"".join(f"x-{number}: {value}\r\n".encode() for number, value in enumerate(draw(st.lists(VALUES, max_size=3))))
    body = draw(BODIES)
    if draw(st.booleans()):
        return before + b"HTTP/1.1 %d OK\r\n" % status + fields + b"content-length: %d\r\n\r\n" % len(body) + body
    cut = draw(st.integers(0, len(body)))
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:cut], body[cut:]) if part)
    return before + b"HTTP/1.1 %d OK\r\n" % status + fields + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def read(reader: Reader) -> Read:
    head, body = reader.next(), b""
    assert isinstance(head, Head)
    while isinstance(piece := reader.next(), bytes):
        body += piece
    assert piece is END
    return head.status, dict(head.headers), body


def by_h11(data: bytes) -> Read:
    line = h11.Connection(h11.CLIENT)
    line.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
    line.send(h11.EndOfMessage())
    line.receive_data(data)
    while not isinstance(head := line.next_event(), h11.Response):
        assert isinstance(head, h11.InformationalResponse)
    body = b""
    while isinstance(event := line.next_event(), h11.Data):
        body += bytes(event.data)
    assert isinstance(event, h11.EndOfMessage)
    return head.status_code, {name.decode(): value.decode("latin-1") for name, value in head.headers}, body


@given(st.lists(answers(), min_size=1, max_size=3), st.lists(st.integers(1, 40), max_size=30))
def test_answer_after_answer_is_read_as_h11_reads_it_however_it_is_cut(sent: list[bytes], cuts: list[int]) -> None:
    reader, sizes = Reader(), iter(cuts)
    for data in sent:
        reader.start()
        rest = data
        while rest:
            size = next(sizes, len(rest))
            reader.feed(rest[:size])
            rest = rest[size:]
        assert read(reader) == by_h11(data)
        assert reader.between


@given(answers(), answers())
def test_a_second_answer_to_one_request_is_not_kept_for_the_next(first: bytes, second: bytes) -> None:
    reader = Reader()
    reader.start()
    reader.feed(first + second)
    assert read(reader) == by_h11(first)
    assert reader.extra
    assert not reader.between
    assert reader.next() is None


@given(answers(), st.data())
def test_an_answer_that_is_cut_off_is_never_complete(sent: bytes, data: st.DataObject) -> None:
    reader = Reader()
    reader.start()
    reader.feed(sent[: data.draw(st.integers(0, len(sent) - 1))])
    with pytest.raises(Malformed):
        reader.ended()
    while (piece := reader.next()) is not None:
        assert piece is not END


def test_early_hints_and_then_nothing_is_no_answer() -> None:
    reader = Reader()
    reader.start()
    reader.feed(b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")
    with pytest.raises(Malformed):
        reader.ended()
    assert reader.next() is None


@pytest.mark.parametrize("header", ["x: y\r\n", ""])
def test_an_answer_without_a_length_ends_with_its_connection(header: str) -> None:
    reader = Reader()
    reader.start()
    reader.feed(f"HTTP/1.1 200 OK\r\n{header}\r\nall of ".encode())
    reader.feed(b"it")
    assert not reader.between
    reader.ended()
    assert read(reader) == (200, {"x": "y"} if header else {}, b"all of it")
    assert not reader.between


@pytest.mark.parametrize("head", [b"connection: close\r\n", b"Connection: Close\r\n"])
def test_a_connection_that_the_other_side_gives_up_is_not_used_again(head: bytes) -> None:
    reader = Reader()
    reader.start()
    reader.feed(b"HTTP/1.1 200 OK\r\n" + head + b"content-length: 2\r\n\r\nok")
    assert read(reader)[2] == b"ok"
    assert not reader.between


@pytest.mark.parametrize(
    "data",
    [
        b"SMTP ready\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: two\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * MAX_HEAD,
    ],
)
def test_what_is_no_answer_is_said_to_be_none(data: bytes) -> None:
    reader = Reader()
    reader.start()
    with pytest.raises(Malformed):
        reader.feed(data)


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_request_holds_exactly_the_headers_that_it_was_given(name: str, value: str) -> None:
    try:
        sent = written("POST", "/mcp", [("host", "x"), (name, value)], b"body")
    except (Malformed, UnicodeEncodeError):
        return
    assume(name.lower() not in ("host", "content-length", "transfer-encoding"))  # h11 looks at what these say, too
    line = h11.Connection(h11.SERVER)
    line.receive_data(sent)
    request = line.next_event()
    assert isinstance(request, h11.Request)
    assert [tuple(map(bytes, field)) for field in request.headers] == [(b"host", b"x"), (name.lower().encode(), value.encode())]


@pytest.mark.parametrize("target", ["/a b", "/a\r\nx: y", "", "/\u00e4"])
def test_no_target_smuggles_a_line(target: str) -> None:
    with pytest.raises(Malformed):
        written("GET", target, [], b"")
