"""Every credential of a run is a canary; nothing that the run leaves behind may hold one, in any encoding.

Searched are all files of `harness run` (evidence, every report, the gateway's log), its output, and, by the scenario CRED-CANARIES itself, the
gateway's store, write-ahead log, command line and environment. The credentials of the harness's stand-ins all begin alike, so their
beginning is what is looked for; it is built here and stands in no file of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.cassette.hunt import ENCODINGS, hunt, planted
from torture.figures import Figures, Scale

SHORT = ("CRED-CANARIES", "MEM-1")
FULL = (*SHORT, "MEM-*", "CRED-*", "EGRESS-*", "FAULT-*", "GOV-*")
PROVIDERS = ("mem0", "zep", "supermemory", "cognee", "honcho", "papr")
LIMIT_S = 900


def canaries() -> dict[str, str]:
    """What each provider's credentials begin with; they go on at random."""
    return {provider: "-".join(("synthetic", provider, "")) for provider in PROVIDERS}


def left_behind(folder: Path, scenarios: Sequence[str], defects: Sequence[str] = ()) -> tuple[dict[str, bytes], int]:
    """Name → content of everything that a run wrote, its output included; and how many scenarios passed."""
    command = [sys.executable, "-m", "harness", "run", *scenarios, "--reports-dir", str(folder), "--json"]
    command += [word for defect in defects for word in ("--defect", defect)]
    done = subprocess.run(command, capture_output=True, timeout=LIMIT_S, check=False)
    passed = sum(verdict["outcome"] == "pass" for verdict in json.loads(done.stdout)["verdicts"])
    found = {file.relative_to(folder).as_posix(): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file() and not file.is_symlink()}
    return {**found, "standard output": done.stdout, "standard error": done.stderr}, passed


def leaks(streams: Mapping[str, bytes]) -> list[str]:
    return sorted({str(hit) for hit in hunt(streams, canaries())})


def planted_and_found(streams: Mapping[str, bytes]) -> int:
    """The control: each canary, in each encoding, put into a file of the run; how many were noticed."""
    noticed = 0
    carrier = max(streams.values(), key=len)[:50_000]
    for provider, begin in canaries().items():
        whole = begin + "5f" * 16
        for encoding, leak in planted(whole).items():
            content = leak if encoding == "gzip" else carrier + b"\n" + leak
            noticed += bool(hunt({"": content}, {provider: whole}))
    return noticed


def run(scale: Scale) -> list[Figures]:
    with tempfile.TemporaryDirectory() as folder:
        streams, passed = left_behind(Path(folder), FULL if scale == "full" else SHORT)
    found = leaks(streams)
    with tempfile.TemporaryDirectory() as folder:
        logged, _ = left_behind(Path(folder), ("CRED-CANARIES",), ("leak-to-log",))
    noticed = planted_and_found(streams)
    size = sum(map(len, streams.values()))
    notes = (
        f"{passed} scenarios passed; {len(streams)} files, {size:,} bytes, {len(ENCODINGS)} encodings",
        *found[:5],
        f"control: {noticed} of {len(PROVIDERS) * len(ENCODINGS)} planted leaks found, and those of a gateway that logs its credentials",
    )
    blind = 0 if noticed == len(PROVIDERS) * len(ENCODINGS) else 1
    return [Figures("no credential is left behind by a run", len(streams), len(found) + blind + (passed == 0), len(leaks(logged)), notes)]
