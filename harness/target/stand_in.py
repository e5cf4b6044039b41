"""The one local server that the bench has approved: a small program that carries what it is told over to a provider's stand-in."""

from __future__ import annotations

import json
import sys
from pathlib import Path

TEMPLATE = "stand-in"
URL_PATH = "env.STAND_IN_URL"
KEY_PATH = "env.STAND_IN_KEY"
PROGRAM = Path(__file__).with_name("stand_in_program.py")
RESTARTS = 2


def templates_file(work_dir: Path) -> Path:
    """A file of approved commands for the gateway, which nobody else may write. Written once per run folder."""
    path = work_dir / "templates.json"
    if not path.exists():
        template = {
            "id": TEMPLATE,
            "title": "The bench's own local server",
            "command": [sys.executable, "-I", "-S", str(PROGRAM.resolve())],
            "env": {"STAND_IN_URL": URL_PATH, "STAND_IN_KEY": KEY_PATH},
            "restarts": RESTARTS,
            "backoff_s": 0.05,
        }
        work_dir.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(json.dumps({"templates": [template]}), encoding="utf-8")
    return path
