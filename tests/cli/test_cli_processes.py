"""The program as a process: the gateway it starts, a terminal it draws on, a shell that completes it, a terminal that knows ASCII only."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from harness.errors import Exit

PROGRAM = [sys.executable, "-m", "harness"]


def test_gateway_runs_until_it_is_told_to_end() -> None:
    environment = {**os.environ, "GATEWAY_OPERATOR_TOKEN": "a-token-for-this-test"}
    child = subprocess.Popen([*PROGRAM, "gateway", "--allow-loopback"], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert child.stdout is not None
        ready = json.loads(child.stdout.readline())
        assert ready["ready"] is True
        assert ready["pid"] != child.pid
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=30) == 0
    finally:
        child.kill()
        if child.stdout is not None:
            child.stdout.close()


def test_gateway_without_a_token_is_a_usage_error() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "GATEWAY_OPERATOR_TOKEN"}
    done = subprocess.run([*PROGRAM, "gateway"], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == Exit.USAGE
    assert "Traceback" not in done.stderr


def test_progress_is_drawn_on_a_terminal_only(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [*PROGRAM, "run", "DISCOVER-MEM0", "--protocol", "2026-07-28", "--reports-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, text=True, env={**os.environ, "TERM": "xterm"}) as child:
        os.close(theirs)
        drawn = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # how a pseudo-terminal says that the other end is closed
                break
            if not piece:
                break
            drawn += piece
        assert child.stdout is not None
        out = child.stdout.read()
    os.close(ours)
    assert child.returncode == 0
    assert b"1/1" in drawn
    assert b"DISCOVER-MEM0" in drawn
    assert "\x1b" not in out


def test_a_shell_completes_scenarios_and_formats() -> None:
    for words, expected in (("harness run MEM-", {"MEM-1", "MEM-5"}), ("harness run --report ", {"junit", "none"}), ("harness ", {"drift"})):
        environment = {**os.environ, "_HARNESS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
        done = subprocess.run(PROGRAM, capture_output=True, text=True, check=False, env=environment)
        assert expected <= set(done.stdout.split()), (words, done.stdout, done.stderr)


def test_a_terminal_of_ascii_gets_escapes() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*PROGRAM, "drift", "mem0", "mem0"], capture_output=True, check=False, env=environment)
    assert done.returncode == 0
    assert b"\\u2192" in done.stdout


def test_a_reader_that_went_away_gets_no_traceback() -> None:
    child = subprocess.Popen([*PROGRAM, "list", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.close()
    said = child.stderr.read()
    child.stderr.close()
    child.wait(timeout=60)
    assert "Traceback" not in said
    assert "Exception" not in said
