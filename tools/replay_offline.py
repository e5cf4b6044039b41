"""`make test-replay`: the recorded suite in a network namespace that has nothing but loopback, serially and by two workers, in any order.

`python tools/replay_offline.py [ROUNDS]` must be started inside such a namespace (the Makefile does, with unshare). Every recording that is
committed is played; each round in an order of its own, whose seed is printed.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from harness.cassette.store import read_header  # noqa: E402  # run from the checkout
from harness.scenario.files import cassettes_folder, scenarios_folder  # noqa: E402

UP = 0x1
GET_FLAGS, SET_FLAGS = 0x8913, 0x8914


def raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        asked = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(door, GET_FLAGS, asked))[1]
        fcntl.ioctl(door, SET_FLAGS, struct.pack("16sh14x", b"lo", flags | UP))


def nothing_but_loopback() -> str:
    """"" when no interface but loopback is there and nobody outside can be reached; else what is wrong."""
    names = [name for _, name in socket.if_nameindex()]
    if names != ["lo"]:
        return f"the namespace has {', '.join(names)}"
    for address in ("192.0.2.1", "1.1.1.1"):
        with socket.socket() as probe:
            probe.settimeout(5)
            if probe.connect_ex((address, 80)) == 0:
                return f"{address} can be reached"
    return ""


def recorded() -> list[Path]:
    """The scenario files that have a cassette each."""
    wanted = {read_header(path).scenario for path in sorted(cassettes_folder().glob("*/*.yaml"))}
    heads = {path: path.read_text(encoding="utf-8").partition("\n")[0] for path in scenarios_folder().rglob("*.yaml")}
    found = {head.removeprefix("scenario: ").strip(): path for path, head in heads.items()}
    missing = sorted(wanted - found.keys())
    if missing:
        raise SystemExit(f"error: cassettes without a scenario: {', '.join(missing)}")
    return [found[name].relative_to(ROOT) for name in sorted(wanted)]


def carried_out(words: list[str]) -> tuple[bool, str]:
    ended = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    lines = [line for line in (ended.stdout + ended.stderr).splitlines() if line.strip()]
    if ended.returncode != 0:
        sys.stdout.write("\n".join(lines[-60:]) + "\n")
    return ended.returncode == 0, next((line for line in reversed(lines) if "passed" in line or "scenarios:" in line), "")


def main(rounds: int) -> int:
    raise_loopback()
    if wrong := nothing_but_loopback():
        sys.stderr.write(f"error: {wrong}\n  fix: start it in a namespace of its own: make test-replay\n")
        return 2
    files, failed = recorded(), 0
    sys.stdout.write(f"{len(files)} recorded scenarios, {rounds} rounds, interfaces: lo\n")
    for number in range(1, rounds + 1):
        shuffled = list(files)
        random.Random(number).shuffle(shuffled)
        names = [str(path) for path in shuffled]
        with tempfile.TemporaryDirectory() as place:
            serial = ["-m", "harness", "run", *names, "--level", "replayed", "--jobs", "1", "--report", "none", "--reports-dir", f"{place}/serial"]
            twice = ["-m", "pytest", "-n", "2", "--harness-level", "replayed", "--harness-reports", f"{place}/two", *reversed(names)]
            for what, words in (("serial", serial), ("-n 2", twice)):
                began = time.monotonic()
                passed, said = carried_out([sys.executable, *words])
                failed += not passed
                told = f"{'ok' if passed else 'FAILED'} in {time.monotonic() - began:.0f} s: {said}"
                sys.stdout.write(f"round {number} (seed {number}), {what}: {told}\n")
                sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
