"""Local servers: approved commands only, their own environment only, and restarts that only a crash uses up."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from reference_gateway.errors import GatewayError
from reference_gateway.stdio.templates import load_templates

from .conftest import Bench, Operator, Refused, denied, gateway_served, raw_call

SERVER = Path(__file__).parent / "data" / "local_server.py"
KEY = "env.SERVER_KEY"
CANARY = "canary-of-the-local-server"

Json = dict[str, Any]


def template(**changes: Any) -> Json:
    made = {"id": "local", "title": "Local", "command": [sys.executable, "-S", str(SERVER)], "env": {"SERVER_KEY": KEY}, "restarts": 2, "slots": 2}
    return {**made, **changes}


def written(path: Path, *templates: Json, mode: int = 0o600) -> str:
    path.write_text(json.dumps({"templates": list(templates)}), encoding="utf-8")
    path.chmod(mode)
    return str(path)


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    file = tmp_path_factory.mktemp("templates") / "templates.json"
    stillborn = template(id="stillborn", env={"SERVER_MODE": "env.SERVER_MODE"})
    with gateway_served(templates=written(file, template(), stillborn)) as operator:
        yield operator


@pytest.fixture
def local(operator: Operator) -> Iterator[Bench]:
    made = Bench(operator, None, operator("POST", "/tenants", {})["tenant"], "local")  # type: ignore[arg-type]
    connect(made)
    yield made
    made.op("DELETE", "/connections/local")


def connect(bench: Bench, **changes: Any) -> Json:
    body = {"name": "local", "provider": "generic", "transport": "stdio", "template": "local", "credentials": {KEY: CANARY}, "quarantine": False}
    return bench.op("POST", "/connections", {key: value for key, value in {**body, **changes}.items() if value is not None})


def process(bench: Bench) -> Json:
    found: Json = bench.op("GET", "/connections/local")["transport_details"]["process"]
    return found


def until(bench: Bench, holds: Callable[[Json], bool]) -> Json:
    """The process as it is once that holds; a process ends when it ends, so this asks again until then."""
    for _ in range(2000):
        if holds(found := process(bench)):
            return found
    raise AssertionError(found)


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_it_is_started_with_its_own_keys_and_nothing_else(local: Bench) -> None:
    token = local.run("local")[1]
    assert local.call(token, "get_echo", {"a": 1})["content"][0]["text"] == '{"a": 1}'
    seen = json.loads(local.call(token, "get_environment")["content"][0]["text"])
    assert set(seen["keys"]) <= {"SERVER_KEY", "PATH", "LANG", "HOME", "LC_CTYPE"}
    assert (seen["key"], seen["cwd"], seen["group"]) == (CANARY, [], True)
    details = local.op("GET", "/connections/local")["transport_details"]
    assert details["spawned_local_process"] is True
    assert details["process"]["state"] == "running"
    started = next(r for r in local.records() if r["event"] == "call_started")
    assert started["details"] == {"transport": "stdio", "spawned_local_process": True, "endpoint": "stdio:local"}
    assert CANARY not in json.dumps(local.records())
    assert CANARY not in json.dumps(details)
    assert local.op("GET", "/templates")["templates"][0] == {"id": "local", "title": "Local", "env": {"SERVER_KEY": KEY}, "slots": 2}


def test_an_error_of_the_provider_uses_up_no_restart_and_a_crash_does(local: Bench) -> None:
    run, token = local.run("local")
    for _ in range(3):
        with pytest.raises(MCPError) as refused:
            local.call(token, "get_error")
        assert (refused.value.error.code, refused.value.error.data["why"]) == (-32050, "no")
        assert local.call(token, "get_failure")["_meta"]["gateway/outcome"] == "tool_error"
    pid = process(local)["pid"]
    assert process(local) == {"state": "running", "pid": pid, "restarts_left": 2}
    assert local.call(token, "get_death")["_meta"]["gateway/reason"] == "mcp_remote_fetch_failed"
    assert until(local, lambda p: p["state"] == "backoff") == {"state": "backoff", "pid": None, "restarts_left": 1}
    before = len(local.trail(run))
    assert local.call(token, "get_echo")["_meta"]["gateway/reason"] == "runtime_restart_backoff"
    assert local.trail(run)[before:] == denied("runtime_restart_backoff")
    local.advance(1.1)
    assert local.call(token, "get_echo")["_meta"]["gateway/outcome"] == "success"
    assert process(local)["pid"] not in (None, pid)
    local.call(token, "get_death")
    assert until(local, lambda p: p["state"] == "suppressed")["restarts_left"] == 0
    local.advance(60)
    assert local.call(token, "get_echo")["_meta"]["gateway/reason"] == "runtime_restart_suppressed"
    assert local.op("GET", "/connections/local")["tools"] > 0
    local.op("POST", "/connections/local/reconnect")
    assert process(local)["restarts_left"] == 2
    assert local.call(token, "get_echo")["_meta"]["gateway/outcome"] == "success"
    causes = [r["details"].get("cause", "started") for r in local.records() if r["event"].startswith("process_")]
    assert causes == ["started", "crashed", "started", "crashed", "started"]


def test_the_window_forgives(local: Bench) -> None:
    token = local.run("local")[1]
    for wait in (1.1, 600):
        local.call(token, "get_death")
        until(local, lambda p: p["state"] != "running")
        local.advance(wait)
    assert process(local) == {"state": "idle", "pid": None, "restarts_left": 2}
    assert local.call(token, "get_echo")["_meta"]["gateway/outcome"] == "success"


def test_what_is_no_message_is_ignored_and_too_much_of_it_ends_it(local: Bench) -> None:
    token = local.run("local")[1]
    assert local.call(token, "get_flood", {"n": 17 * 1024 * 1024})["_meta"]["gateway/reason"] == "mcp_remote_fetch_failed"
    assert until(local, lambda p: p["state"] != "running")["restarts_left"] == 1


def test_at_most_so_many_calls_are_under_way_in_it(local: Bench) -> None:
    run, token = local.run("local")

    async def three() -> str:
        async with local.agent(token) as session, anyio.create_task_group() as group:
            reasons: list[str] = []

            async def one(seconds: float) -> None:
                result = await raw_call(session, "get_nothing", {}, {"gateway/timeout_s": seconds})
                reasons.append(result["_meta"]["gateway/reason"])

            group.start_soon(one, 60)
            group.start_soon(one, 60)
            while len([r for r in await asyncio.to_thread(local.trail, run) if r[0] == "call_started"]) < 2:
                assert not reasons
            group.start_soon(one, 2)
            for _ in range(15):  # 45 seconds at most, while the two may wait for 60
                await asyncio.to_thread(local.advance, 3)
                if reasons:
                    break
            first = reasons[0]
            group.cancel_scope.cancel()
            return first
        raise AssertionError

    assert anyio.run(three) == "rate_limited"
    assert [r for r in local.trail(run) if r[0] == "call_denied"] == denied("rate_limited")[1:]


def test_it_ends_with_its_connection_and_stays_through_a_pause(local: Bench) -> None:
    pid = process(local)["pid"]
    local.op("POST", "/connections/local/state", {"state": "paused"})
    assert process(local)["pid"] == pid
    assert not gone(pid)
    local.op("POST", "/connections/local/state", {"state": "disabled"})
    assert gone(pid)
    local.op("POST", "/connections/local/state", {"state": "active"})
    pid = process(local)["pid"]
    local.op("POST", "/connections/local/rotate", {"values": {KEY: "another"}})
    assert gone(pid)
    seen = json.loads(local.call(local.run("local")[1], "get_environment")["content"][0]["text"])
    assert seen["key"] == "another"
    pid = process(local)["pid"]
    local.op("POST", "/connections/local/state", {"state": "archived"})
    assert gone(pid)


def test_only_approved_commands_and_exactly_their_credentials(local: Bench) -> None:
    for changes, code in (
        ({"template": "other"}, "template_unknown"),
        ({"template": None}, "template_unknown"),
        ({"credentials": {}}, "invalid_field"),
        ({"credentials": {KEY: "x", "env.LD_PRELOAD": "y"}}, "invalid_field"),
        ({"credentials": {KEY: "a\0b"}}, "invalid_field"),
        ({"url": "https://x.example"}, "invalid_field"),
        ({"command": ["/bin/sh"]}, "unknown_field"),
        ({"protocol_version": "2026-07-28"}, "invalid_field"),
    ):
        with pytest.raises(Refused) as refused:
            connect(local, name="second", **changes)
        assert (refused.value.status, refused.value.code) == (422, code), changes
    with pytest.raises(Refused) as refused:
        connect(local, name="second", template="stillborn", credentials={"env.SERVER_MODE": "stillborn"})
    assert (refused.value.status, refused.value.code) == (502, "provider_unreachable")


@pytest.mark.parametrize(
    "broken",
    [
        {"command": []},
        {"command": ["python"]},
        {"command": ["/"]},
        {"command": ["/nowhere/at/all"]},
        {"command": [sys.executable, "a\0b"]},
        {"env": {"PATH": KEY}},
        {"env": {"LD_PRELOAD": KEY}},
        {"env": {"PYTHONPATH": KEY}},
        {"env": {"lower": KEY}},
        {"slots": 0},
        {"restarts": -1},
        {"backoff_s": 0},
        {"backoff_s": "1"},
        {"shell": True},
        {"id": "Local Server"},
    ],
)
def test_a_template_that_is_not_one_is_refused_at_the_start(tmp_path: Path, broken: Json) -> None:
    with pytest.raises(GatewayError) as refused:
        load_templates(written(tmp_path / "t.json", template(**broken)))
    assert refused.value.code == "templates_unusable"
    assert refused.value.where
    assert refused.value.fix


def test_a_file_of_templates_that_others_could_write_is_refused(tmp_path: Path) -> None:
    good = written(tmp_path / "good.json", template())
    assert list(load_templates(good)) == ["local"]
    twice = written(tmp_path / "twice.json", template(), template())
    for bad in (written(tmp_path / "open.json", template(), mode=0o666), twice, str(tmp_path), str(tmp_path / "none"), "a\0b"):
        with pytest.raises(GatewayError) as refused:
            load_templates(bad)
        assert refused.value.code == "templates_unusable"
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(GatewayError):
        load_templates(str(fifo))
    (tmp_path / "text.json").write_text("{", encoding="utf-8")
    (tmp_path / "text.json").chmod(0o600)
    with pytest.raises(GatewayError):
        load_templates(str(tmp_path / "text.json"))
