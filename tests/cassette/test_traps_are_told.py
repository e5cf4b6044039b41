"""The traps that real servers showed, before somebody who takes an answer at its word: each naive check is refuted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.engine.run import run_plan
from harness.model.verdict import Verdict

FACT = "The ${nonce} cooper keeps a brass whistle in a larch barrel."
NAIVE = {
    "TOOL-WITHOUT-REQUEST": f"""\
scenario: TOOL-WITHOUT-REQUEST
title: A write that answers success is taken for a write
connections: {{mem0: {{}}}}
let: {{user: "harness-${{nonce}}", fact: "{FACT}"}}
steps:
  - id: stub
    fault: mem0
    kind: stub-reply
    tool: add_memory
    with: {{result: {{content: [{{type: text, text: "Memory added (SDK not available)"}}]}}}}
  - id: write
    call: mem0.add_memory
    with: {{text: "${{fact}}", user_id: "${{user}}", infer: false}}
    expect:
      - {{id: done, result: {{is_error: false, contains: "Memory added"}}}}
  - id: recall
    call: mem0.search_memories
    with: {{query: "Where is the whistle?", filters: {{user_id: "${{user}}"}}}}
    expect:
      - {{id: exact, recalled: {{text: "${{fact}}"}}}}
proves:
  - {{claim: it is stored, by: [done, exact]}}
""",
    "MASKED-404": f"""\
scenario: MASKED-404
title: A refusal that is no error is taken for the memory
connections: {{mem0: {{}}}}
let: {{fact: "{FACT}"}}
steps:
  - id: read
    call: mem0.get_memory
    with: {{memory_id: "00000000-0000-4000-8000-000000000000"}}
    expect:
      - {{id: done, result: {{is_error: false, at: /memory, equals: "${{fact}}"}}}}
      - {{id: trail, audited: success}}
proves:
  - {{claim: it is there, by: [done, trail]}}
""",
    "STILL-RUNNING": f"""\
scenario: STILL-RUNNING
title: A write that says it is running is taken for stored
connections: {{cognee: {{fake: {{index_delay_s: 60}}}}}}
let: {{dataset: "harness_${{nonce}}", fact: "{FACT}"}}
steps:
  - id: write
    call: cognee.remember
    with: {{data: "${{fact}}", dataset_name: "${{dataset}}"}}
    expect:
      - {{id: done, result: {{is_error: false}}}}
  - id: recall
    call: cognee.recall
    with: {{query: "Where is the whistle?", datasets: "${{dataset}}"}}
    expect:
      - {{id: exact, recalled: {{text: "${{fact}}", scope: {{datasets: "${{dataset}}"}}}}}}
proves:
  - {{claim: it is stored, by: [done, exact]}}
""",
    "READING-WRITES": f"""\
scenario: READING-WRITES
title: An empty success of a read is taken for a session that is there
connections: {{honcho: {{}}}}
let: {{ghost: "harness-${{nonce}}", fact: "{FACT}"}}
steps:
  - id: read
    call: honcho.get_session_messages
    with: {{workspace_id: "${{ghost}}", session_id: "nowhere-${{nonce}}"}}
    expect:
      - {{id: done, result: {{is_error: false}}}}
      - {{id: exact, recalled: {{text: "${{fact}}"}}}}
proves:
  - {{claim: it is there, by: [done, exact]}}
""",
}
REFUTED = {
    "TOOL-WITHOUT-REQUEST": ("exact", "not recalled: no hit"),
    "MASKED-404": ("done", "/memory"),
    "STILL-RUNNING": ("exact", "not recalled"),
    "READING-WRITES": ("exact", "not recalled: no hit"),
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    place = tmp_path_factory.mktemp("traps")
    (place / "scenarios").mkdir()
    for name, text in NAIVE.items():
        (place / "scenarios" / f"{name}.yaml").write_text(text, encoding="utf-8")
    evidence: Path = place / "evidence.jsonl"
    asyncio.run(run_plan(make_plan([], paths=[place / "scenarios"], protocol="2026-07-28"), jobs=4, evidence=evidence, run_id="traps"))
    return {verdict.scenario: verdict for verdict in judge(read_evidence(evidence)).verdicts}


@pytest.mark.parametrize("name", NAIVE)
def test_a_naive_check_is_refuted(verdicts: dict[str, Verdict], name: str) -> None:
    verdict = verdicts[name]
    expectation, said = REFUTED[name]
    assert verdict.outcome == "fail", verdict.findings
    (finding,) = [f for f in verdict.findings if f.severity == "fail"]
    assert finding.expectation == expectation
    assert said in finding.message
    assert not verdict.claims[0].proven
