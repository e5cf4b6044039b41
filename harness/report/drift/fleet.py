"""A whole fleet: one page that leads to a page per server, one JSON document, a few lines for a terminal."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from importlib.resources import files
from typing import Any

from harness.errors import Exit
from harness.model.drift_result import FleetEntry, FleetResult
from harness.report.drift.reading import json_bytes
from harness.report.inert import one_line, shown
from harness.report.reading import MEANING

MOST_TOLD = 50
"""Servers that a terminal is told of by name."""


def answer(result: FleetResult) -> str:
    """Such as "3 servers: 1 same, 1 drift, 1 error; exit code 6, drift, and nothing else"."""
    found = Counter(entry.verdict for entry in result.entries)
    counts = ", ".join(f"{found[word]} {word}" for word in ("same", "drift", "incomplete", "error") if found[word])
    return f"{len(result.entries)} servers: {counts}; exit code {result.exit_code}, {MEANING[Exit(result.exit_code)]}"


def line(entry: FleetEntry) -> str:
    """One finished server, for progress and summaries."""
    counts = f"{entry.breaking} breaking, {entry.risk} risk, {entry.text} text"
    why = counts if entry.verdict in ("same", "drift") else one_line(entry.reason)[:200]
    return f"{entry.id}: {entry.verdict}, exit code {entry.exit_code}, {why}"


def text(result: FleetResult) -> str:
    """What is not accepted, worst first, then the answer."""
    wrong = sorted((entry for entry in result.entries if entry.exit_code), key=lambda entry: (entry.exit_code != Exit.DRIFT, entry.exit_code))
    lines = [line(entry) for entry in wrong[:MOST_TOLD]]
    if len(wrong) > MOST_TOLD:
        lines.append(f"and {len(wrong) - MOST_TOLD} more, see index.html")
    return "\n".join([*lines, *(one_line(notice.message) for notice in result.notices), answer(result)]) + "\n"


def document(result: FleetResult) -> dict[str, Any]:
    """`drift-fleet/v1`. A server's own document is beside it, in servers/ID.json."""
    data = result.model_dump(mode="python", exclude={"entries"})
    entries = [entry.model_dump(mode="python", exclude={"plan", "used_waivers"}) for entry in result.entries]
    return {"schema": "drift-fleet/v1", **data, "servers": entries}


def render_json(result: FleetResult) -> bytes:
    return json_bytes(document(result))


def index_page(result: FleetResult) -> bytes:
    """The page that a reader opens first. Same content policy as every page of ours."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = files("harness.report") / "templates"
    style = (folder / "report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((folder / "fleet.html.j2").read_text(encoding="utf-8"))
    ordered = sorted(result.entries, key=lambda entry: (entry.exit_code == 0, entry.exit_code))
    page = template.render(
        title=answer(result),
        accepted=result.exit_code == 0,
        counts=f"Checked by {result.workers}, harness {result.harness_version}. Servers that are not accepted come first.",
        notices=[shown(notice.message) for notice in result.notices],
        entries=[{**entry.model_dump(), "why": shown(entry.reason)} for entry in ordered],
        style=Markup(style),  # our own file, no input
        style_hash=digest,
    )
    return page.encode("utf-8", "backslashreplace")
