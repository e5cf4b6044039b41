"""Public cases c03, c05, c06, c07 and c08 on real wires: the tap answers for the provider, and the judge must not be taken in."""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.engine.run import run_plan
from harness.errors import LoadErrors
from harness.model.finding import Finding
from harness.model.verdict import Results, Verdict
from harness.report.results_json import document
from harness.scenario.files import data_root

BODY = "x" * 1995 + "\U0001f9ed nonce-7f3"
FOREIGN = "somebody else's note about the vault"

C03 = """\
scenario: C03
title: The recall check as the case has it
connections: {mem0: {}}
let: {user: "harness-${nonce}", fact: "The ${nonce} navigator keeps a compass."}
steps:
  - id: recall
    call: search_memories
    with: {query: "${fact}", filters: {user_id: "${user}"}}
    eventually: {within: 30s}
    expect:
      - {id: found, result: {contains: "${fact}", is_error: false}}
proves:
  - {claim: it is recalled, by: [found]}
"""

ECHO = """\
  - id: echo
    fault: mem0
    kind: stub-reply
    tool: search_memories
    with:
      result:
        isError: false
        content: [{type: text, text: "No memories found for query: ${fact}"}]
        structuredContent: {query: "${fact}", results: []}
"""

C05 = """\
scenario: C05
title: Hits whose text is empty
connections: {supermemory: {consent: {access: read, tags: ["${tag}"]}}}
let: {tag: "harness-${nonce}"}
steps:
  - id: blank
    fault: supermemory
    kind: stub-reply
    tool: search_memory
    with:
      result:
        isError: false
        content: [{type: text, text: "## Relevant Memories\\n\\n### Memory 1 (74% match)\\n\\n\\n### Memory 2 (73% match)\\n\\n"}]
  - id: recall
    call: supermemory.search_memory
    with: {query: "compass", containerTag: "${tag}"}
    eventually: {within: 5s}
    expect:
      - {id: exact, recalled: {text: "The ${nonce} navigator keeps a lamp."}}
      - {id: trail, audited: success}
expect:
  - {id: quiet, nothing_else: true}
proves:
  - {claim: it is recalled, by: [exact, trail, quiet]}
"""

C06 = """\
scenario: C06
title: Another dataset's items among the right ones
connections: {cognee: {fake: {index_delay_s: 0}}}
let: {mine: "ds_mine_${nonce}", fact: "The ${nonce} navigator keeps a silver compass."}
steps:
  - id: leak
    fault: cognee
    kind: stub-reply
    tool: recall
    with:
      result:
        - {id: "1", dataset_name: "${mine}", text: "${fact}"}
        - {id: "2", dataset_name: ds_other, text: "FOREIGN"}
        - {id: "3", text: "${fact}"}
  - id: recall
    call: cognee.recall
    with: {query: compass, datasets: "${mine}"}
    expect:
      - {id: contains, result: {is_error: false, contains: "silver"}}
      - {id: exact, recalled: {text: "${fact}", scope: {datasets: "${mine}"}}}
proves:
  - {claim: it is recalled from its own dataset, by: [exact]}
""".replace("FOREIGN", FOREIGN)

C07 = """\
scenario: C07
title: The same instant, whatever its text
connections: {mem0: {}}
let: {user: "harness-${nonce}", was: "2026-07-25T02:00:00Z"}
steps:
  - id: write
    call: mem0.add_memory
    with: {text: "The ${nonce} clockmaker keeps a pendulum.", user_id: "${user}", infer: false}
    capture: {memory: {from: result, at: "/results/0/id"}}
  - id: first
    call: mem0.get_memory
    with: {memory_id: "${write.memory}"}
    capture: {created: {from: result, at: /created_at}}
  - id: change
    call: mem0.update_memory
    with: {memory_id: "${write.memory}", text: "The ${nonce} clockmaker keeps a spring."}
  - id: kept
    call: mem0.get_memory
    with: {memory_id: "${write.memory}"}
    expect:
      - {id: created-is-kept, instant: {at: /created_at, equals: "${first.created}"}}
STUBS
proves:
  - {claim: times are instants, by: [created-is-kept]}
cleanup:
  - id: remove
    call: mem0.delete_memory
    with: {memory_id: "${write.memory}"}
"""
C07_TIMES = {
    "pacific": "2026-07-24T19:00:00-07:00",
    "micro": "2026-07-25T02:00:00.000000+00:00",
    "naive": "2026-07-25T02:00:00",
    "epoch": "1970-01-01T00:00:00Z",
    "moved": "2026-07-25T02:00:01Z",
}
C07_STUB = """\
  - {{id: stub-{name}, fault: mem0, kind: stub-reply, tool: get_memory, with: {{result: {result}}}}}
  - id: read-{name}
    call: mem0.get_memory
    with: {{memory_id: "${{write.memory}}"}}
    expect:
      - {{id: time-{name}, instant: {{at: /created_at, equals: "${{was}}"}}}}
  - {{id: heal-{name}, heal: mem0}}
"""

VARIANTS = {
    "cut": (BODY, BODY[:2000], "truncated at code point 2000 (sent 2006 code points, got 2000)"),
    "composed": ("cafe\u0301 au lait", unicodedata.normalize("NFC", "cafe\u0301 au lait"), "normalised at code point 3"),
    "trimmed": ("a line\n", "a line", "trimmed at code point 6"),
    "line-ends": ("one\r\ntwo", "one\ntwo", "line-endings at code point 3"),
    "mojibake": ("測試記憶", "測試記憶".encode().decode("latin-1"), "re-encoded at code point 0"),
    "marks": ("left\u200fright\u200f", "leftright", "characters-dropped at code point 4"),
}
C08_HEAD = """\
scenario: {id}
title: A memory comes back exactly as it was written
connections: {{mem0: {{}}}}
let: {{user: "harness-${{nonce}}"}}
steps:
"""
C08_STEP = """\
  - id: write-{name}
    call: mem0.add_memory
    with: {{text: {sent}, user_id: "${{user}}", infer: false}}
    capture: {{memory: {{from: result, at: "/results/0/id"}}}}
    expect:
      - {{id: written-{name}, audited: success}}
{stub}  - id: read-{name}
    call: mem0.get_memory
    with: {{memory_id: "${{write-{name}.memory}}"}}
    expect:
      - {{id: exact-{name}, result: {{is_error: false, at: /memory, equals: {sent}}}}}
"""
C08_STUB = """\
  - {{id: stub-{name}, fault: mem0, kind: stub-reply, tool: get_memory, times: 1, with: {{result: {result}}}}}
"""
SIZES = {"one": 1, "two-k": 2_000, "ten-k": 10_000, "hundred-k": 100_000}


def yaml(value: Any) -> str:
    """JSON is YAML, but for the characters that JSON spells as two surrogates."""
    text = json.dumps(value)
    return re.sub(r"\\u(d[89ab]..)\\u(d[c-f]..)", lambda pair: f"\\U{ord(json.loads(chr(34) + pair[0] + chr(34))):08x}", text)


def stub(value: Any) -> str:
    """A tool result that holds `value`, as text and structured."""
    text = json.dumps(value, ensure_ascii=False)
    return yaml({"content": [{"type": "text", "text": text}], "structuredContent": value, "isError": False})


def probe(length: int) -> str:
    """Text of that many code points, of one to four bytes each, different at every place."""
    marks = "aé測\U0001f9ed"
    text = "".join(f"{n:x}{marks[n % 4]}" for n in range(length))
    return text[:length]


def c08_kept() -> str:
    return C08_HEAD.format(id="C08-KEPT") + body({name: (probe(size), None) for name, size in SIZES.items()})


def c08_changed() -> str:
    return C08_HEAD.format(id="C08-CHANGED") + body({name: (sent, got) for name, (sent, got, _) in VARIANTS.items()})


def body(texts: dict[str, tuple[str, str | None]]) -> str:
    steps = "".join(
        C08_STEP.format(name=name, sent=yaml(sent), stub="" if got is None else C08_STUB.format(name=name, result=stub({"memory": got})))
        for name, (sent, got) in texts.items()
    )
    claims = "".join(f"  - {{claim: {name} is kept, by: [written-{name}, exact-{name}]}}\n" for name in texts)
    return f"{steps}expect:\n  - {{id: quiet, nothing_else: true}}\nproves:\n{claims}"


def mem1_with_an_echo() -> str:
    """The example of the language, as shipped, before a provider that repeats the question."""
    text = (data_root() / "scenarios" / "memory" / "MEM-1.yaml").read_text(encoding="utf-8")
    assert "  - id: recall\n" in text
    return text.replace("scenario: MEM-1\n", "scenario: C03-MEM-1\n").replace("  - id: recall\n", ECHO + "  - id: recall\n")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    folder = tmp_path_factory.mktemp("cases")
    c07 = C07.replace("STUBS\n", "".join(C07_STUB.format(name=name, result=stub({"created_at": time})) for name, time in C07_TIMES.items()))
    texts = {"c03": mem1_with_an_echo(), "c05": C05, "c06": C06, "c07": c07, "c08-kept": c08_kept(), "c08-changed": c08_changed()}
    area = folder / "scenarios"
    area.mkdir()
    for name, text in texts.items():
        (area / f"{name}.yaml").write_text(text, encoding="utf-8")
    evidence = folder / "evidence.jsonl"
    asyncio.run(run_plan(make_plan([], paths=[area], protocol="2026-07-28"), jobs=3, evidence=evidence, run_id="cases"))
    evidence.read_bytes().decode("utf-8")
    return judge(read_evidence(evidence))


def verdict(results: Results, scenario: str) -> Verdict:
    return next(v for v in results.verdicts if v.scenario == scenario)


def failed(found: Verdict) -> Iterator[Finding]:
    return (f for f in found.findings if f.severity != "warn")


def test_c03_the_expected_text_is_in_the_request_so_the_scenario_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c03.yaml"
    path.write_text(C03, encoding="utf-8")
    with pytest.raises(LoadErrors, match="already in the request") as raised:
        make_plan([], paths=[path])
    assert raised.value.exit_code == 2
    assert f"{path}:11:" in str(raised.value)


def test_c03_the_shipped_example_is_not_taken_in_by_an_echo(results: Results) -> None:
    found = verdict(results, "C03-MEM-1")
    assert found.outcome == "fail"
    (finding,) = failed(found)
    assert (finding.id, finding.expectation) == ("recalled", "exact")
    assert finding.message == "not recalled: no hit"
    assert {c.claim: c.proven for c in found.claims}["the written fact is recalled exactly and under the same id"] is False
    assert found.attempts["recall"] > 1, "an empty answer is asked again until the budget is spent"
    assert found.time_to_visible_s["recall"] >= 30


def test_c05_hits_without_content_are_told_from_no_hit_at_all(results: Results) -> None:
    found = verdict(results, "C05")
    (finding,) = failed(found)
    assert finding.message == "not recalled: 2 hits, 0 with content"
    assert found.time_to_visible_s["recall"] >= 5, "the budget is used, and the time told"


def test_c06_the_fact_is_there_and_the_scope_fails_all_the_same(results: Results) -> None:
    found = verdict(results, "C06")
    assert found.outcome == "fail"
    messages = [f.message for f in failed(found)]
    assert len(messages) == 2
    assert any("'ds_other'" in message for message in messages)
    assert any("unknown (the item does not carry it)" in message for message in messages)
    assert "contains" in found.evaluated, "a check for the text alone would have passed"
    assert "contains" not in {f.expectation for f in found.findings}


def test_c06_a_foreign_text_is_in_no_report(results: Results) -> None:
    assert FOREIGN not in document(results)
    assert FOREIGN[:12] not in document(results)


def test_c07_instants_are_compared_and_not_texts(results: Results) -> None:
    found = verdict(results, "C07")
    assert {f.expectation: f.message for f in failed(found)} == {
        "time-naive": "/created_at: naive, unknown offset",
        "time-epoch": "/created_at is a placeholder timestamp",
        "time-moved": next(f.message for f in found.findings if f.expectation == "time-moved"),
    }
    assert {"time-pacific", "time-micro", "created-is-kept"} <= set(found.evaluated)
    assert all(claim.proven for claim in found.claims)


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_c08_each_change_is_named_placed_and_measured(results: Results, name: str) -> None:
    found = verdict(results, "C08-CHANGED")
    (finding,) = [f for f in failed(found) if f.expectation == f"exact-{name}"]
    assert VARIANTS[name][2] in finding.message
    assert finding.message.isascii(), "the window is shown in escaped form"
    assert {c.claim: c.proven for c in found.claims}[f"{name} is kept"] is False


def test_c08_a_whole_body_of_any_size_passes(results: Results) -> None:
    found = verdict(results, "C08-KEPT")
    assert list(failed(found)) == []
    assert found.outcome == "pass"
    assert len(found.claims) == len(SIZES)
