"""A gateway that misbehaves as a process: never ready, dead, or with children it does not end. Nothing may be left of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from harness.errors import Exit, Incomplete, Unreachable
from harness.target.child import Child, Command, free_port

LISTENS = """
import socket, sys, time
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listening, the key is hush-hush", flush=True)
time.sleep(600)
"""
ABANDONS = """
import signal, socket, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"],
                         start_new_session=True)
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(child.pid, flush=True)
time.sleep(600)
"""
DEAF = "import time; time.sleep(600)"
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + LISTENS
CRASHES = "import sys; print('no such upstream', flush=True); sys.exit(3)"


def command(program: str, folder: Path, ready_within_s: float = 20.0) -> Command:
    port = free_port()
    return Command(
        words=[sys.executable, "-c", program, str(port)],
        port=port,
        home=folder,
        log=folder / "gateway.log",
        hidden=("hush-hush",),
        ready_within_s=ready_within_s,
        end_within_s=2.0,
    )


def of(work: Callable[[], Awaitable[None]]) -> set[int]:
    """Process ids of ours that were not there before."""
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    asyncio.run(work())  # type: ignore[arg-type]
    return {p.pid for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE} - before


def test_one_that_is_ready_is_ended_and_its_log_holds_no_secret(tmp_path: Path) -> None:
    async def work() -> None:
        child = await Child.start("lab 1.0", command(LISTENS, tmp_path))
        child.must_live()
        await child.end()

    assert of(work) == set()
    assert (tmp_path / "gateway.log").read_text() == "listening, the key is [hidden]\n"


def test_one_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    async def work() -> None:
        child = await Child.start("lab 1.0", command(STUBBORN, tmp_path))
        await child.end()

    assert of(work) == set()


@pytest.mark.parametrize(("program", "says"), [(DEAF, "lab 1.0 was not ready within 1 s"), (CRASHES, "lab 1.0 ended with code 3")])
def test_one_that_is_never_ready_is_unreachable_by_name_and_version(program: str, says: str, tmp_path: Path) -> None:
    async def work() -> None:
        with pytest.raises(Unreachable, match=says) as caught:
            await Child.start("lab 1.0", command(program, tmp_path, ready_within_s=1.0 if program == DEAF else 20.0))
        assert caught.value.exit_code == Exit.UNREACHABLE
        if program == CRASHES:
            assert "no such upstream" in caught.value.what

    assert of(work) == set()


def test_one_that_cannot_be_started_is_unreachable(tmp_path: Path) -> None:
    async def work() -> None:
        with pytest.raises(Unreachable, match=r"lab 1\.0 could not be started"):
            await Child.start("lab 1.0", Command(words=[str(tmp_path / "nothing")], port=1, home=tmp_path, log=tmp_path / "x.log"))

    assert of(work) == set()


def test_one_that_dies_is_noticed(tmp_path: Path) -> None:
    async def work() -> None:
        child = await Child.start("lab 1.0", command(LISTENS, tmp_path))
        psutil.Process(child.process_id).kill()
        await child.exited()
        with pytest.raises(Unreachable, match=r"lab 1\.0 ended by itself with code -9"):
            child.must_live()
        await child.end()

    assert of(work) == set()


def _has_ended(pid: int) -> bool:
    """A killed process that is not ours ends a moment after it was killed; one that nobody reaps stays as a zombie."""
    try:
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            process.wait(5)
        return True
    except psutil.NoSuchProcess:
        return True
    except psutil.TimeoutExpired:
        return process.status() == psutil.STATUS_ZOMBIE


def test_what_it_leaves_behind_is_ended_and_told(tmp_path: Path) -> None:
    async def work() -> None:
        child = await Child.start("lab 1.0", command(ABANDONS, tmp_path))
        with pytest.raises(Incomplete, match=r"lab 1\.0 left 1 of its processes behind") as caught:
            await child.end()
        assert caught.value.exit_code == Exit.INCOMPLETE

    of(work)
    left = int((tmp_path / "gateway.log").read_text())
    assert _has_ended(left)
