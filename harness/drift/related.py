"""The comparing child of `harness.drift.relater`: one relation for each job, until the line closes."""

from __future__ import annotations

import json
import signal
from multiprocessing.connection import Connection

from harness.drift.relation import relate


def main(handle: int, memory: int, longest_s: int) -> None:
    """`handle` is the open end of a pipe, `memory` in bytes. A job that outlives `longest_s`, and so whoever asked, ends the child."""
    _bound_memory(memory)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, who ends us
    with Connection(handle) as line:
        line.send_bytes(b"ready")
        while True:
            try:
                old, new, old_draft, new_draft = json.loads(line.recv_bytes())
                signal.alarm(longest_s)
                found = relate(old, new, old_draft=old_draft, new_draft=new_draft)
                signal.alarm(0)
                line.send_bytes(found.model_dump_json().encode())
            except (EOFError, OSError):
                return


def _bound_memory(memory: int) -> None:
    try:
        import resource
    except ImportError:  # not on this platform; the time limit still holds
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
