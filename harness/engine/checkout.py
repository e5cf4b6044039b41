"""Which commit the harness runs from, for the evidence. A port: it asks git, once, and whatever git does it never fails."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import harness

ROOT = Path(harness.__file__).resolve().parents[1]
NOT_A_CHECKOUT = "not a checkout"
WITHIN_S = 10.0
_COMMAND = ("git", "--no-optional-locks", "status", "--porcelain=v2", "--branch")


def checkout(root: Path = ROOT) -> dict[str, str]:
    """`{"commit": sha, "tree": "clean" | "dirty: 3 files differ"}`; else `commit` says why there is none: "not a checkout", or "unknown: …".

    `root`: the folder that holds the package. Installed somewhere inside another project's checkout, it is none.
    """
    if not (root / ".git").exists():
        return {"commit": NOT_A_CHECKOUT}
    # Nothing of the caller's may lead git to another repository; its home says whose folders it trusts.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        ended = subprocess.run(_COMMAND, cwd=root, env=kept, capture_output=True, timeout=WITHIN_S, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"commit": f"unknown: git cannot be asked ({type(error).__name__})"}
    lines = ended.stdout.decode("utf-8", "replace").splitlines()
    commit = next((line.removeprefix("# branch.oid ") for line in lines if line.startswith("# branch.oid ")), "")
    if ended.returncode or not commit or commit == "(initial)":
        said = ended.stderr.decode("utf-8", "replace").strip().splitlines()[:1]
        return {"commit": "unknown: " + (said[0][:200] if said else "there is no commit yet")}
    changed = sum(1 for line in lines if not line.startswith("#"))
    return {"commit": commit, "tree": "clean" if not changed else f"dirty: {changed} file{'s differ' if changed > 1 else ' differs'}"}


@cache
def own() -> Mapping[str, str]:
    """Of the tree that this process runs from, as it stood when the process first asked: what changes later is not what it runs."""
    return checkout()
