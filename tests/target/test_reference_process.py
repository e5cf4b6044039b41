"""A gateway's process: what dies, never gets ready or talks nonsense is an error that says where, what and how to fix, and no child stays."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.errors import Exit, HarnessError, PortInUse, Unreachable, UsageError
from harness.target.base import LaunchOptions
from harness.target.reference import ReferenceTarget, died, read_ready_line

PREAMBLE = """\
import os, sys, time, json, signal, subprocess
open("pid", "w").write(str(os.getpid()))
"""
READY = '{"ready": true, "operator": "http://127.0.0.1:9/operator/v1", "mcp": "http://127.0.0.1:9/mcp", "pid": 1, "version": "x"}'

LASTING = ("multiprocessing.resource_tracker", "harness.drift.related")


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ReferenceTarget]:
    """A gateway that is this Python text."""
    monkeypatch.chdir(tmp_path)

    def make(text: str, **settings: Any) -> ReferenceTarget:
        script = tmp_path / "gateway.py"
        script.write_text(PREAMBLE + text, encoding="utf-8")
        return ReferenceTarget(command=(sys.executable, str(script)), **{"ready_within_s": 20.0, **settings})

    return make


def launch(target: ReferenceTarget, folder: Path) -> None:
    async def go() -> None:
        async with target.launch(LaunchOptions(work_dir=folder)):
            pass

    asyncio.run(go())


def children() -> list[psutil.Process]:
    """Ours, without what lives for the worker's life: multiprocessing's tracker, and the child that compares schemas."""
    mine = psutil.Process(os.getpid()).children(recursive=True)
    return [p for p in mine if p.is_running() and not any(word in " ".join(p.cmdline()) for word in LASTING)]


def ended(folder: Path) -> bool:
    return not psutil.pid_exists(int((folder / "pid").read_text())) and not children()


DEATHS: dict[str, tuple[str, type[HarnessError], Exit, str]] = {
    "dies at once": ("sys.exit(3)", Unreachable, Exit.UNREACHABLE, "ended with code 3 before it was ready: (it wrote nothing)"),
    "dies with a last word": ("sys.exit('no disk left')", Unreachable, Exit.UNREACHABLE, "ended with code 1 before it was ready: no disk left"),
    "is killed": ("os.kill(os.getpid(), signal.SIGKILL)", Unreachable, Exit.UNREACHABLE, "ended with code -9"),
    "raises": ("raise ValueError('bad luck')", Unreachable, Exit.UNREACHABLE, "ValueError: bad luck"),
    "prints an empty line": ("print(flush=True); time.sleep(60)", Unreachable, Exit.UNREACHABLE, "not a ready line"),
    "prints a banner": ("print('Welcome!', flush=True); time.sleep(60)", Unreachable, Exit.UNREACHABLE, "not a ready line: 'Welcome!'"),
    "prints bytes": ("os.write(1, b'\\xff\\xfe\\n'); time.sleep(60)", Unreachable, Exit.UNREACHABLE, "not a ready line"),
    "prints without end": ("sys.stdout.write('x' * 300_000); sys.stdout.flush(); time.sleep(60)", Unreachable, Exit.UNREACHABLE, "more than 65536"),
    "prints a list": ("print('[1]', flush=True); time.sleep(60)", Unreachable, Exit.UNREACHABLE, "not a ready line"),
    "is ready nowhere": (
        "print(json.dumps({'operator': 1, 'mcp': 2, 'pid': 3}), flush=True); time.sleep(60)",
        Unreachable,
        Exit.UNREACHABLE,
        "not a ready",
    ),
    "refuses its usage": ("sys.stderr.write('error: no such flag (--x). FIX\\n'); sys.exit(2)", UsageError, Exit.USAGE, "refused its command line"),
}


@pytest.mark.parametrize("how", sorted(DEATHS))
def test_a_gateway_that_does_not_start_is_explained(how: str, gateway: Any, tmp_path: Path) -> None:
    text, kind, code, said = DEATHS[how]
    with pytest.raises(kind) as raised:
        launch(gateway(text), tmp_path)
    assert said in raised.value.what
    assert raised.value.exit_code == code
    assert raised.value.where
    assert raised.value.fix
    assert ended(tmp_path)


@pytest.mark.parametrize("text", ["time.sleep(60)", "os.close(1); time.sleep(60)"], ids=["says nothing", "closes its output"])
def test_a_gateway_that_never_gets_ready_is_given_up(text: str, gateway: Any, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match=r"not ready within 1\.5 s") as raised:
        launch(gateway(text, ready_within_s=1.5), tmp_path)
    assert "gateway.log" in raised.value.fix
    assert ended(tmp_path)


def test_a_taken_port_is_a_port_in_use(tmp_path: Path) -> None:
    """The real gateway on a port that somebody holds."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = f"import runpy, sys; sys.argv[sys.argv.index('0')] = '{port}'; runpy.run_module('reference_gateway', run_name='__main__')"
        with pytest.raises(PortInUse) as raised:
            launch(ReferenceTarget(command=(sys.executable, "-c", text)), tmp_path)
    assert raised.value.exit_code == Exit.USAGE
    assert str(port) in raised.value.what
    assert raised.value.fix
    assert not children()


def test_a_command_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be started") as raised:
        launch(ReferenceTarget(command=("/no/such/gateway",)), tmp_path)
    assert raised.value.where == "/no/such/gateway"


def test_a_gateway_that_will_not_go_is_killed(gateway: Any, tmp_path: Path) -> None:
    launch(gateway(f"signal.signal(signal.SIGTERM, signal.SIG_IGN); print({READY!r}, flush=True); time.sleep(60)", end_within_s=0.3), tmp_path)
    assert ended(tmp_path)


def test_whatever_it_writes_it_is_never_stopped_by_a_full_pipe(gateway: Any, tmp_path: Path) -> None:
    """Lines of any length on both outputs, more than a pipe holds, before it does what we wait for."""
    text = f"""
print({READY!r}, flush=True)
sys.stdout.write("y" * 400_000); sys.stdout.flush()
sys.stderr.write("z" * 400_000 + "\\nlast\\n"); sys.stderr.flush()
open("written", "w").close()
time.sleep(60)
"""

    async def go() -> None:
        async with gateway(text).launch(LaunchOptions(work_dir=tmp_path)):
            while not (tmp_path / "written").exists():
                await asyncio.sleep(0.02)

    asyncio.run(asyncio.wait_for(go(), 30))
    assert (tmp_path / "gateway.log").stat().st_size > 400_000
    assert ended(tmp_path)


def test_a_child_that_it_left_behind_is_not_waited_for(gateway: Any, tmp_path: Path) -> None:
    text = f"""
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"])
open("child", "w").write(str(child.pid))
print({READY!r}, flush=True)
time.sleep(60)
"""
    launch(gateway(text), tmp_path)
    psutil.Process(int((tmp_path / "child").read_text())).kill()  # not ours to end in earnest; the test cleans up after itself


def test_the_child_gets_no_credential_of_ours(gateway: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEM0_API_KEY", "m0-not-for-the-gateway")
    launch(gateway(f"open('env', 'w').write(json.dumps(dict(os.environ))); print({READY!r}, flush=True); time.sleep(60)"), tmp_path)
    seen = json.loads((tmp_path / "env").read_text())
    assert "MEM0_API_KEY" not in seen
    assert len(seen["GATEWAY_OPERATOR_TOKEN"]) >= 16


def test_exit_codes_of_an_early_end() -> None:
    assert died(2, "error: port 4 is in use").exit_code == Exit.USAGE
    assert died(2, "error: unknown flag").exit_code == Exit.USAGE
    assert died(1, "port").exit_code == Exit.UNREACHABLE
    assert read_ready_line(READY.encode())["pid"] == 1
