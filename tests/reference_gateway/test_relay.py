"""The relay as its runner and its place meet it: a process of its own, one socket pair, frames."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_gateway.relay import read_spec
from reference_gateway.relay_channel import FRAME_LIMIT, Refused, Ticket, declaration

from .conftest import SECRET, Bench

TICKET = "channel-secret-of-this-test"
WITHIN_S = 20.0


def sent(message: dict[str, Any]) -> bytes:
    body = json.dumps(message).encode()
    return struct.pack(">I", len(body)) + body


@dataclass
class Place:
    """The place's end of a channel. `heard` is all that ever came out of it."""

    sock: socket.socket
    run: str
    token: str
    process: subprocess.Popen[bytes]
    heard: bytearray

    def say(self, message: dict[str, Any]) -> dict[str, Any] | None:
        self.sock.sendall(sent(message))
        return self.hear()

    def hear(self) -> dict[str, Any] | None:
        header = self._exactly(4)
        if not header:
            return None
        found: dict[str, Any] = json.loads(self._exactly(struct.unpack(">I", header)[0]))
        return found

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self.sock.recv(size - len(data))
            if not chunk:
                return b""
            data += chunk
        self.heard += data
        return data

    def hello(self, **changes: Any) -> dict[str, Any] | None:
        return self.say({"type": "hello", "run": self.run, "channel": TICKET, **changes})

    def call(self, name: str, arguments: Any, /, **changes: Any) -> dict[str, Any] | None:
        return self.say({"type": "call", "id": 1, "run": self.run, "name": name, "arguments": arguments, "meta": {}, **changes})


@contextlib.contextmanager
def relayed(bench: Bench, *defects: str, **run: Any) -> Iterator[Place]:
    made = bench.op("POST", "/runs", {"connections": ["notes"], "task": "k1", "agent": "a1", **run})
    inner, outer = socket.socketpair()
    words = [word for defect in defects for word in ("--defect", defect)]
    process = subprocess.Popen(
        [sys.executable, "-m", "reference_gateway.relay", "--fd", str(outer.fileno()), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(outer.fileno(),),
        env={"PATH": os.environ["PATH"]},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    spec = {"url": bench.operator.mcp, "token": made["token"], "run": made["run"], "task": "k1", "channel": TICKET}
    outer.close()
    inner.settimeout(WITHIN_S)
    try:
        process.stdin.write(json.dumps(spec).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == {"ready": True}
        yield Place(inner, made["run"], made["token"], process, bytearray())
    finally:
        inner.close()
        process.stdin.close()
        process.stdout.close()
        process.wait(WITHIN_S)


def test_a_channel_declares_the_tools_and_carries_a_call_that_the_audit_holds_under_its_task(bench: Bench) -> None:
    with relayed(bench) as place:
        welcome = place.hello()
        assert welcome is not None
        names = [tool["name"] for tool in welcome["tools"]]
        assert "notes__add_note" in names
        assert (welcome["run"], welcome["task"], welcome["replaces"], welcome["environment"]) == (place.run, "k1", None, {})
        answer = place.call("notes__add_note", {"text": "über"})
        assert answer is not None
        assert json.loads(answer["result"]["content"][0]["text"])["text"] == "über"
        assert answer["result"]["_meta"]["gateway/outcome"] == "success"
        assert place.call("notes__nowhere", {})["error"]["data"]["gateway/reason"] == "tool_not_found"  # type: ignore[index]
        trail = [r for r in bench.op("GET", "/audit", run=place.run)["records"] if r["tool"] == "add_note"]
        assert [(r["event"], r["task"]) for r in trail] == [(e, "k1") for e in ("policy_decision", "call_started", "call_completed")]
        assert place.token.encode() not in place.heard
        assert SECRET.encode() not in place.heard


def test_a_resumed_session_is_told_every_tool_again(bench: Bench) -> None:
    with relayed(bench) as place:
        first = place.hello()
    assert first is not None
    with relayed(bench) as place:
        second = place.hello(session=first["session"])
        assert second is not None
        assert second["replaces"] == first["session"] != second["session"]
        assert second["tools"] == first["tools"]


@pytest.mark.parametrize(
    ("hello", "code"),
    [
        ({"run": "run_of_another"}, "channel_of_other_run"),
        ({"run": 7}, "channel_of_other_run"),
        ({"channel": "guessed"}, "channel_unknown"),
        ({"channel": None}, "channel_unknown"),
        ({"type": "call"}, "hello_expected"),
    ],
)
def test_a_channel_opens_for_its_own_run_alone(bench: Bench, hello: dict[str, Any], code: str) -> None:
    with relayed(bench) as place:
        refused = place.hello(**hello)
        assert refused is not None
        assert (refused["type"], refused["code"]) == ("refused", code)
        assert place.hear() is None


def test_the_run_is_checked_on_every_frame(bench: Bench) -> None:
    with relayed(bench) as place:
        place.hello()
        assert place.call("notes__add_note", {"text": "mine"}) is not None
        refused = place.call("notes__add_note", {"text": "theirs"}, run="run_of_another")
        assert refused is not None
        assert refused["code"] == "channel_of_other_run"
        assert place.hear() is None
        assert [r["event"] for r in bench.op("GET", "/audit", run=place.run)["records"]].count("call_started") == 1


def test_each_call_is_judged_anew(bench: Bench) -> None:
    with relayed(bench) as place:
        place.hello()

        def reason() -> str:
            answer = place.call("notes__add_note", {"text": "again"})
            assert answer is not None
            return str(answer["result"]["_meta"].get("gateway/reason", ""))

        assert reason() == ""
        bench.op("PUT", "/connections/notes/permissions", {"permissions": {"add_note": "off"}})
        assert reason() == "tool_off"
        bench.op("PUT", "/connections/notes/permissions", {"permissions": {"add_note": "allowed"}})
        assert reason() == ""
        bench.op("POST", f"/runs/{place.run}/end", {})
        assert reason() == "run_ended"


def test_a_run_that_lost_its_task_may_call_nothing(bench: Bench) -> None:
    with relayed(bench) as place:
        place.hello()
        bench.op("POST", "/runs", {"connections": ["notes"], "task": "k1", "agent": "a2", "takes_task": True})
        answer = place.call("notes__add_note", {"text": "late"})
        assert answer is not None
        assert answer["result"]["_meta"]["gateway/reason"] == "task_not_owned"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (struct.pack(">I", 0), "frame_size"),
        (struct.pack(">I", FRAME_LIMIT + 1), "frame_size"),
        (struct.pack(">I", 3) + b"[1]", "frame_content"),
        (struct.pack(">I", 4) + b"\xff\xfe{}", "frame_content"),
        (struct.pack(">I", 50_000) + b"[" * 50_000, "frame_content"),
    ],
)
def test_what_is_no_frame_ends_the_channel(bench: Bench, data: bytes, code: str) -> None:
    with relayed(bench) as place:
        place.sock.sendall(data)
        refused = place.hear()
        assert refused is not None
        assert refused["code"] == code
        assert place.hear() is None
        assert place.process.wait(WITHIN_S) == 0


@pytest.mark.parametrize("changes", [{"arguments": [1]}, {"arguments": None}, {"name": 7}, {"meta": "x"}, {"type": "shutdown"}, {"name": "a b"}])
def test_a_frame_that_is_no_call_is_answered_and_reaches_nobody(bench: Bench, changes: dict[str, Any]) -> None:
    with relayed(bench) as place:
        place.hello()
        answer = place.call("notes__add_note", {"text": "x"}, **changes)
        assert answer is not None
        assert answer["error"]["code"] in (-32600, -32602)
        assert "call_started" not in [r["event"] for r in bench.op("GET", "/audit", run=place.run)["records"]]
        assert place.call("notes__add_note", {"text": "x"})["result"]["isError"] is False  # type: ignore[index]


def test_it_never_outlives_its_runner(bench: Bench) -> None:
    with relayed(bench) as place:
        place.hello()
        assert place.process.stdin is not None
        place.process.stdin.close()
        assert place.process.wait(WITHIN_S) == 0
        assert place.hear() is None


def test_a_token_that_the_gateway_does_not_take_is_no_channel(bench: Bench) -> None:
    with relayed(bench, ttl_s=1) as place:
        bench.operator("POST", "/clock/advance", {"seconds": 2})
        refused = place.hello()
        assert refused is not None
        assert refused["code"] == "gateway_refused"
        assert place.token not in json.dumps(refused)


def test_the_defects_of_a_relay(bench: Bench) -> None:
    with relayed(bench, "relay-leaks-token") as place:
        assert place.hello()["environment"] == {"GATEWAY_TOKEN": place.token}  # type: ignore[index]
    with relayed(bench, "relay-open-to-other-run") as place:
        assert place.hello(run="run_of_another")["type"] == "welcome"  # type: ignore[index]


SHORT = '"url":"u","token":"t","run":"r","task":"k"'


@pytest.mark.parametrize("line", ["", "[]", "{}", f"{{{SHORT}}}", f'{{{SHORT},"channel":7}}', f'{{{SHORT},"channel":"c","more":"m"}}'])
def test_a_runner_that_says_something_else_is_told(line: str) -> None:
    with pytest.raises(ValueError):
        read_spec(line)
    ended = subprocess.run(
        [sys.executable, "-m", "reference_gateway.relay", "--fd", "0"], input=line + "\n", capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: ")
    assert ended.stderr.count("\n") == 1


def tcp(folder: Path) -> Iterator[socket.socket]:
    """What a forwarded port looks like on this side."""
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as near:
        far, _ = listening.accept()
        with far:
            yield near
            yield far
            yield listening


def named(folder: Path) -> Iterator[socket.socket]:
    """A path that anybody could have connected to, or forwarded."""
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as near:
        listening.bind(str(folder / "s"))
        listening.listen()
        near.connect(str(folder / "s"))
        far, _ = listening.accept()
        with far:
            yield near
            yield far
            yield listening


def unfit(folder: Path) -> Iterator[socket.socket]:
    """Frames need a stream, and somebody at the other end."""
    one, other = socket.socketpair(type=socket.SOCK_DGRAM)
    with one, other, socket.socket(socket.AF_UNIX) as alone:
        yield one
        yield alone


@pytest.mark.parametrize("kind", [tcp, named, unfit])
def test_only_one_end_of_a_socket_pair_is_a_channel(tmp_path: Path, kind: Callable[[Path], Iterator[socket.socket]]) -> None:
    spec = f'{{{SHORT},"channel":"c"}}\n'
    for sock in kind(tmp_path):
        ended = subprocess.run(
            [sys.executable, "-m", "reference_gateway.relay", "--fd", str(sock.fileno())],
            input=spec, capture_output=True, text=True, timeout=30, check=False, pass_fds=(sock.fileno(),),
        )  # fmt: skip
        assert (ended.returncode, ended.stdout) == (2, "")
        assert re.fullmatch(r"error: [^\n]+ \(standard input, --fd or --defect\)\. See docs/operator-api\.md\n", ended.stderr), ended.stderr


words = st.text(min_size=1, max_size=40)


@given(run=words, other=words, channel=words, guess=words)
def test_a_ticket_fits_exactly_one_run_and_channel(run: str, other: str, channel: str, guess: str) -> None:
    ticket = Ticket(run, "task", channel)
    ticket.check_hello({"type": "hello", "run": run, "channel": channel})
    for given_run, given_channel in ((other, channel), (run, guess)):
        if (given_run, given_channel) != (run, channel):
            with pytest.raises(Refused):
                ticket.check_hello({"type": "hello", "run": given_run, "channel": given_channel})


def test_names_that_cannot_be_spelled_are_not_declared() -> None:
    tools: list[dict[str, Any]] = [{"name": "a__b"}, {"name": "a b"}, {"name": ""}, {"name": 7}, {"name": "x" * 129}, {}]
    welcome = declaration(Ticket("r", "k", "c"), tools, "s2", "s1")
    assert (welcome["tools"], welcome["unreadable"], welcome["replaces"]) == ([{"name": "a__b"}], 5, "s1")
