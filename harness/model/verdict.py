"""Findings folded: results/v1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from harness.model.evidence import Recorded
from harness.model.finding import Finding
from harness.model.location import Frozen
from harness.model.scenario import Level
from harness.model.timeline import TimelineRow
from harness.model.trend import Trend

Outcome = Literal["pass", "fail", "error", "not_applicable"]
ToolState = Literal["listed", "called", "agreed"]
"""Weakest first. `listed`: discovered, no more. `called`: an agent called it. `agreed`: agent, provider's witness and audit agree on each call."""

TOOL_STATES: tuple[ToolState, ...] = ("listed", "called", "agreed")


class ToolCoverage(Frozen):
    """How far one tool was exercised in one plan item, and the level of the leg that this rests on."""

    provider: str
    tool: str
    state: ToolState
    level: Level


class ClaimVerdict(Frozen):
    """`proven` only when every expectation it rests on was evaluated and holds; `level` is the lowest of its legs."""

    claim: str
    proven: bool
    level: Level
    by: tuple[str, ...]
    unproven_because: str = ""


class Visible(Frozen):
    """How long it took until a polled step found what it looked for. `kind`: `raw` (what was written), `derived` (made of it), `unknown`."""

    step: str
    provider: str
    tool: str
    kind: str
    seconds: float
    attempts: int
    visible: bool


class Queued(Frozen):
    """A write whose answer says only that it was accepted; `said` is the provider's word for it."""

    provider: str
    tool: str
    said: str


class Verdict(Frozen):
    item: str
    scenario: str
    title: str
    area: str
    level: Level
    target: str
    protocol: str
    providers: tuple[str, ...]
    tags: tuple[str, ...] = ()
    outcome: Outcome
    exit_code: int
    evaluated: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    claims: tuple[ClaimVerdict, ...] = ()
    not_proven: tuple[str, ...] = ()
    counts: Mapping[str, int] = Field(default_factory=dict)
    seconds: float = 0.0
    time_to_visible_s: Mapping[str, float] = Field(default_factory=dict)
    attempts: Mapping[str, int] = Field(default_factory=dict)
    tools: tuple[ToolCoverage, ...] = ()
    witnesses: int = 3
    latency_ms: float | None = None
    """Median of the agent's tools/call exchanges; None when there was none."""
    development: tuple[str, ...] = ()
    """What the gateway had loosened for development while it was judged."""
    timeline: tuple[TimelineRow, ...] = ()
    visibility: tuple[Visible, ...] = ()
    queued: tuple[Queued, ...] = ()
    recorded: tuple[Recorded, ...] = ()
    """Level replayed: from which cassettes, recorded at which level and when."""
    rehearsed: bool = False
    """The live path, with our stand-ins under the providers' real names: every claim is of level fake."""
    notes: tuple[str, ...] = ()


class Results(Frozen):
    """The file results.json. `level_line` is the first line of every report: at which level it speaks."""

    schema_id: Literal["results/v1"] = Field(default="results/v1", alias="schema")
    run: str
    started_at: str
    ended_at: str
    harness_version: str
    level_line: str
    exit_code: int
    exit_reasons: tuple[str, ...]
    totals: Mapping[str, int]
    comparison: Mapping[str, int] = Field(default_factory=dict)
    environment: Mapping[str, Any] = Field(default_factory=dict)
    verdicts: tuple[Verdict, ...]
    trends: tuple[Trend, ...] = ()
    """What earlier runs said, as the run found it written down when it began; empty where there were none."""

    model_config = Frozen.model_config | {"populate_by_name": True}
