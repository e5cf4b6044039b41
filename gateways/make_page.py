"""docs/gateways.md, generated from what is measured (measured/), written down (expected/) and was known (known.yaml). `--check` compares only."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from harness.transparency.known import load_known
from harness.transparency.page import page
from harness.transparency.written import read_report

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "gateways.md"
ORDER = ("reference", "fastmcp", "mcp_proxy", "ctrlrun", "contextforge", "litellm")


def text() -> str:
    measured = [HERE / "measured" / f"{target}.json" for target in ORDER]
    reports = [read_report(path) for path in measured if path.is_file()]
    scenarios = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted((HERE / "expected").glob("*.json"))}
    return page(reports, scenarios, load_known(HERE / "known.yaml"))


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(None if PAGE.read_text(encoding="utf-8") == text() else f"{PAGE.name} is not what is written down: python gateways/make_page.py")
    PAGE.write_text(text(), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.name}\n")
