"""The gateway as a program: its ready line, its ways to end, its wrong usage, and what survives a crash."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from .conftest import OPERATOR_TOKEN, SUCCESS, VERSIONS, Bench, Operator, provider_served, raw_call

COMMAND = [sys.executable, "-m", "reference_gateway"]
ENVIRONMENT = {"PATH": os.environ["PATH"], "GATEWAY_OPERATOR_TOKEN": OPERATOR_TOKEN, "GATEWAY_VAULT_KEY": "ab" * 32}


@contextlib.contextmanager
def started(*flags: str, stdin: int = subprocess.PIPE, **environment: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    child = subprocess.Popen([*COMMAND, *flags], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**ENVIRONMENT, **environment})
    assert child.stdout is not None
    assert child.stderr is not None
    try:
        line = child.stdout.readline()
        assert line, child.stderr.read().decode()
        yield child, json.loads(line)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait(10)
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


@contextlib.contextmanager
def operated(ready: dict[str, Any]) -> Iterator[Operator]:
    operator = Operator(ready["operator"].removesuffix("/operator/v1"))
    try:
        yield operator
    finally:
        operator.http.close()


def failed(*flags: str, **environment: str) -> str:
    """The one line with which wrong usage ends."""
    done = subprocess.run(
        [*COMMAND, *flags], stdin=subprocess.DEVNULL, capture_output=True, env={**ENVIRONMENT, **environment}, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stdout == b""
    text = done.stderr.decode()
    assert text.count("\n") == 1
    assert re.fullmatch(r"error: .+ \(.+\)\. \S.*\n", text), text
    return text


@pytest.mark.parametrize("way", ["SIGTERM", "SIGINT", "pipe", "shutdown"])
def test_it_says_that_it_is_ready_once_and_ends_on_request(way: str) -> None:
    with started() as (child, ready), operated(ready) as operator:
        assert ready["ready"] is True
        assert ready["pid"] == child.pid
        assert ready["version"] == "0.1.0"
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/operator/v1", ready["operator"])
        assert ready["mcp"] == operator.mcp
        assert operator("GET", "/health")["clock"] == "system"
        assert child.stdin is not None
        if way == "pipe":
            child.stdin.close()
        elif way == "shutdown":
            assert operator.http.post("/shutdown").status_code == 202
        else:
            child.send_signal(getattr(signal, way))
        assert child.wait(20) == 0
        assert child.stdout is not None
        assert child.stdout.read() == b""


def test_it_fits_into_ninety_megabytes_and_leaves_no_file_behind(tmp_path: Path) -> None:
    with started(TMPDIR=str(tmp_path)) as (child, ready), operated(ready) as operator, provider_served() as provider:
        bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
        with pytest.raises(Exception, match="url_rejected"):
            bench.connect()
        assert psutil.Process(child.pid).memory_info().rss < 90 * 1024 * 1024
        assert len(list(tmp_path.iterdir())) == 1
        child.terminate()
        assert child.wait(20) == 0
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--defect", "drop-pages"], "Did you mean 'drop-page'"),
        (["--defect", "bypass-tap"], "needs a value"),
        (["--defect", "drop-page=3"], "takes no value"),
        (["--port", "70000"], "--port"),
        (["--port", "x"], "--port"),
        (["--colour"], "--colour"),
        (["--map", "example.com"], "--map"),
        (["--map", "example.com=127.0.0.1:0"], "--map"),
        (["--map-ca", "ca.pem"], "--map-ca"),
        (["--map", "*.example.com=127.0.0.1:1", "--map-ca", "/nowhere.pem"], "--map-ca"),
        (["--vault-key-file", "/nowhere.key"], "/nowhere.key"),
        (["--store", "/nowhere/at/all.db"], "/nowhere/at/all.db"),
        (["--host", "203.0.113.7"], "203.0.113.7"),
    ],
)
def test_wrong_usage_is_one_line(flags: list[str], says: str) -> None:
    assert says in failed(*flags)


def test_a_missing_or_short_operator_token_is_refused() -> None:
    assert "GATEWAY_OPERATOR_TOKEN" in failed(GATEWAY_OPERATOR_TOKEN="short")
    assert "short" not in failed(GATEWAY_OPERATOR_TOKEN="short").replace("shorter", "")


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert str(taken.getsockname()[1]) in failed("--port", str(taken.getsockname()[1]))


def test_everything_that_matters_survives_a_restart(tmp_path: Path) -> None:
    store = str(tmp_path / "gateway.db")
    flags = ("--store", store, "--allow-loopback", "--experimental", "memory_connectors")
    with provider_served() as provider:
        with started(*flags) as (child, ready), operated(ready) as operator:
            bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
            bench.connect(permissions={"add_note": "ask_first"})
            run, token = bench.run()
            held = bench.call(token, "add_note", {"text": "kept"})["_meta"]["gateway/approval"]["id"]
            before = bench.records()
            child.send_signal(signal.SIGKILL)
            child.wait(10)
        with started(*flags) as (child, ready), operated(ready) as operator:
            bench = Bench(operator, provider, bench.tenant)
            assert bench.records()[: len(before)] == before
            assert bench.op("GET", "/connections/notes")["tools"] == 9
            answer = bench.op("POST", f"/approvals/{held}/approve", {"by": "ann"})
            assert answer["approval"]["state"] == "executed"
            assert bench.call(token, "get_echo")["_meta"]["gateway/outcome"] == "success"
            assert bench.trail(run)[-3:] == SUCCESS
            child.terminate()
            assert child.wait(20) == 0


def test_a_restart_forgets_nothing_of_a_held_call(tmp_path: Path) -> None:
    """Its named timeout, its protocol era and its `_meta` are those of the call, also when another process executes it."""
    flags = ("--store", str(tmp_path / "gateway.db"), "--allow-loopback", "--experimental", "memory_connectors")
    with provider_served() as provider:
        with started(*flags) as (child, ready), operated(ready) as operator:
            bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
            bench.connect(permissions={"add_note": "ask_first"})
            _, token = bench.run()
            meta = {"vendor/order": 7, "gateway/timeout_s": 0.3, "progressToken": 3}
            result = bench.call(token, "add_note", {"text": "kept"}, version=VERSIONS[0], meta=meta)
            held = result["_meta"]["gateway/approval"]["id"]
            child.send_signal(signal.SIGKILL)
            child.wait(10)
        provider.hang = True
        with started(*flags) as (_, ready), operated(ready) as operator:
            answer = Bench(operator, provider, bench.tenant).op("POST", f"/approvals/{held}/approve", {"by": "ann"})
            assert answer["error"]["code"] == "tool_timeout"
            assert "0.3 seconds" in answer["result"]["content"][0]["text"]
            assert provider.calls[-1]["_meta"] == {"vendor/order": 7}
            assert provider.headers[-1]["mcp-protocol-version"] != VERSIONS[2]


def test_a_call_cut_off_by_a_crash_is_unknown_and_never_repeated(tmp_path: Path) -> None:
    flags = ("--store", str(tmp_path / "gateway.db"), "--allow-loopback", "--experimental", "memory_connectors")
    with provider_served() as provider:
        provider.hang = True
        with started(*flags) as (child, ready), operated(ready) as operator:
            bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
            bench.connect(permissions={"add_note": "ask_first"})
            run, token = bench.run()
            pending = bench.call(token, "add_note", {"text": "kept"})["_meta"]["gateway/approval"]["id"]

            async def cut_off() -> None:
                async def call() -> None:
                    with contextlib.suppress(BaseException):
                        async with bench.agent(token, VERSIONS[1]) as session:
                            await raw_call(session, "notes__get_echo")

                async def approve() -> None:
                    with contextlib.suppress(Exception):
                        await anyio.to_thread.run_sync(bench.op, "POST", f"/approvals/{pending}/approve", {"by": "ann"})

                async with anyio.create_task_group() as group:
                    group.start_soon(call)
                    group.start_soon(approve)
                    with anyio.fail_after(10):
                        while len(provider.calls) < 2:
                            await anyio.sleep(0.01)
                    child.send_signal(signal.SIGKILL)
                    await anyio.to_thread.run_sync(child.wait)
                    group.cancel_scope.cancel()

            anyio.run(cut_off)
        provider.hang = False
        provider.release.set()
        with started(*flags) as (_, ready), operated(ready) as operator:
            bench = Bench(operator, provider, bench.tenant)
            unknown = [r for r in bench.records(run) if r["outcome"] == "unknown"]
            assert [(r["event"], r["reason"], r["tool"]) for r in unknown] == [
                ("call_failed", "outcome_unrecorded", tool) for tool in [r["tool"] for r in bench.records(run) if r["event"] == "call_started"]
            ]
            assert len(unknown) == 2
            assert bench.op("GET", f"/approvals/{pending}")["state"] == "unknown"
            assert len(provider.calls) == 2


def test_a_store_sealed_under_another_key_serves_but_cannot_call(tmp_path: Path) -> None:
    flags = ("--store", str(tmp_path / "gateway.db"), "--allow-loopback", "--experimental", "memory_connectors")
    with provider_served() as provider:
        with started(*flags) as (_, ready), operated(ready) as operator:
            bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
            bench.connect()
            _, token = bench.run()
        with started(*flags, GATEWAY_VAULT_KEY="cd" * 32) as (_, ready), operated(ready) as operator:
            bench = Bench(operator, provider, bench.tenant)
            calls = len(provider.methods)
            result = bench.call(token, "get_echo")
            assert result["_meta"]["gateway/reason"] == "grant_credential_invalid"
            assert len(provider.methods) == calls
