"""Server-sent events: the same messages however their bytes are cut, and never more of them than allowed."""

from __future__ import annotations

import asyncio
import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_gateway.bounded import TooLarge, Undecodable
from reference_gateway.events import events


class Body:
    def __init__(self, pieces: list[bytes], encoding: str = "") -> None:
        self.headers = {"content-encoding": encoding}
        self._pieces = list(pieces)

    async def piece(self) -> bytes | None:
        return self._pieces.pop(0) if self._pieces else None


def read(pieces: list[bytes], limit: int = 1000, encoding: str = "") -> list[bytes]:
    async def go() -> list[bytes]:
        return [data async for data in events(Body(pieces, encoding), limit)]

    return asyncio.run(go())


def cut(text: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(text) + 1) for place in places} | {len(text)})
    return [text[a:b] for a, b in zip([0, *ends], ends, strict=False)]


DATA = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1, max_size=20)


@settings(max_examples=150, deadline=None)
@given(messages=st.lists(DATA, max_size=5), end=st.sampled_from(["\n", "\r\n", "\r"]), places=st.lists(st.integers(0, 500), max_size=8))
def test_how_the_bytes_are_cut_changes_nothing(messages: list[str], end: str, places: list[int]) -> None:
    text = "".join(f": ping{end}id: 1{end}event: message{end}data: {each}{end}{end}" for each in messages).encode()
    assert read(cut(text, places)) == [each.encode() for each in messages]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data:a\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"event: other\ndata: a\n\ndata: b\n\n", [b"b"]),
        (b"data: cut off by the end", []),
        (b"data: a\n", []),
        (b"data\n\n", []),
        (b"\n\n\n", []),
        (b"event: message\nretry: 5\n\n", []),
    ],
)
def test_what_is_a_message(text: bytes, found: list[bytes]) -> None:
    assert read([text]) == found


@pytest.mark.parametrize("text", [b"data: " + b"x" * 1001 + b"\n\n", b"data: x\n" * 600 + b"\n", b"y" * 9000])
def test_a_message_that_is_too_large_ends_it(text: bytes) -> None:
    with pytest.raises(TooLarge):
        read([text[i : i + 100] for i in range(0, len(text), 100)])


def test_many_messages_may_be_more_than_one_may() -> None:
    assert len(read([b"data: " + b"x" * 900 + b"\n\n"] * 50)) == 50


def test_a_packed_stream_is_unpacked_within_bounds() -> None:
    assert read([gzip.compress(b"data: a\n\n")], encoding="gzip") == [b"a"]
    with pytest.raises((TooLarge, Undecodable)):
        read([gzip.compress(b"data: " + b"x" * 10_000_000)], encoding="gzip")
    with pytest.raises(Undecodable):
        read([b"data: a\n\n"], encoding="br")
