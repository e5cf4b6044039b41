"""Frames cross a socket whole, in order, whatever they hold; what is no frame is told apart."""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sandbox.frames import HEADER, LIMIT, Torn, encoded, receive, send

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)


@given(st.lists(st.dictionaries(st.text(), json_values, max_size=4), max_size=6))
def test_what_is_sent_arrives(messages: list[dict[str, Any]]) -> None:
    near, far = socket.socketpair()
    with near, far:
        sender = threading.Thread(target=lambda: [send(near, message) for message in messages])
        sender.start()
        assert [receive(far)[0] for _ in messages] == messages
        sender.join()
        near.close()
        assert receive(far) == (None, [])


def test_a_descriptor_goes_along() -> None:
    near, far = socket.socketpair()
    reading, writing = os.pipe()
    with near, far:
        data = encoded({"a": 1})
        assert socket.send_fds(near, [data[:1]], [writing]) == 1
        near.sendall(data[1:])
        message, (handed,) = receive(far)
        assert message == {"a": 1}
        os.write(handed, b"x")
        assert os.read(reading, 1) == b"x"
    for number in (reading, writing, handed):
        os.close(number)


@pytest.mark.parametrize(
    "data", [HEADER.pack(0), HEADER.pack(LIMIT + 1), HEADER.pack(2) + b"[]", HEADER.pack(2) + b"\xff\xff", HEADER.pack(9) + b"{}", b"\0\0"]
)
def test_what_is_no_frame_is_torn(data: bytes) -> None:
    near, far = socket.socketpair()
    with far:
        near.sendall(data)
        near.close()
        with pytest.raises(Torn):
            receive(far)


def test_a_message_that_is_too_large_is_not_sent() -> None:
    with pytest.raises(Torn):
        encoded({"text": "x" * LIMIT})
