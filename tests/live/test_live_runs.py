"""The live path from end to end, against pretend-live hosts: each rule holds, and a specimen that breaks it is stopped."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.cassette.store import read_cassette
from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.engine.run import run_plan
from harness.engine.tapes import Tapes
from harness.live.budget import Budget
from harness.live.options import LiveOptions
from harness.model.evidence import EvidenceRecord, NoteRecord, ProviderExchangeRecord
from harness.model.verdict import Results, Verdict
from harness.tap.fault import make_fault
from tests.live.conftest import ENVIRONMENT, KEY, VERSION, Rehearsal, in_loop, pretend_mem0

HEAD = """
scenario: NAME
title: NAME
connections: {mem0: {grant: personal}}
let: {user: "harness-${run.id}", fact: "The ${nonce} keeper keeps a lamp."}
steps:
  - id: write
    call: mem0.add_memory
    with: {text: "${fact}", user_id: "${user}", infer: false}
    capture: {made: {from: result, at: /results/0/id}}
    expect: [{id: written, result: {is_error: false}}]
"""
TAIL = """
proves: [{claim: c, by: [written]}]
does_not_prove: [d]
"""
CLEAN = '\ncleanup:\n  - {id: remove, call: mem0.delete_memory, with: {memory_id: "${write.made}"}}\n'
FIND = """
  - id: find
    call: mem0.search_memories
    with: {query: "lamp keeper", filters: {user_id: "${user}"}}
    eventually: {within: 10s}
    expect: [{id: found, recalled: {text: "${fact}", id: "${write.made}", scope: {user_id: "${user}"}}}]
"""
# The id is captured, so nothing is wrong with it on paper; it belongs to somebody else all the same.
GRAB = """
  - id: look
    call: mem0.get_memories
    with: {filters: {user_id: somebody}}
    capture: {theirs: {from: result, at: /results/0/id}}
    expect: [{id: seen, result: {is_error: false}}]
  - id: grab
    call: mem0.delete_memory
    with: {memory_id: "${look.theirs}"}
    expect: [{id: gone, result: {is_error: false}}]
"""

# A provider that answers with the credential that it was shown.
ECHO = """
scenario: ECHO
title: an answer that shows the credential
connections: {mem0: {}}
steps:
  - id: list
    call: mem0.list_entities
    expect: [{id: seen, result: {is_error: false}}]
proves: [{claim: c, by: [seen]}]
does_not_prove: [d]
"""

# A provider that says no; the verdict of each is a pass, since that is what its audit expects.
REFUSED = """
scenario: REFUSED-STATUS
title: the provider answers HTTP STATUS
connections: {mem0: {}}
steps:
  - id: ask
    call: mem0.TOOL
    with: WITH
    expect: [{id: no, audited: upstream_error}]
proves: [{claim: c, by: [no]}]
does_not_prove: [d]
"""
REFUSALS = {500: ("list_events", "{}"), 409: ("get_event_status", "{event_id: none}"), 401: ("get_memory", "{memory_id: none}")}


def refused(status: int) -> str:
    tool, given = REFUSALS[status]
    return REFUSED.replace("STATUS", str(status)).replace("TOOL", tool).replace("WITH", given)


HELD = """    expect: [{id: held, pending: approval}]
  - id: allow
    approve: write
    expect: [{id: written, dispatched: {step: write, count: 1}}]
"""


def scenario(name: str, steps: str, *, clean: bool = True) -> str:
    used = clean or "write.made" in steps
    head = HEAD if used else HEAD.replace("    capture: {made: {from: result, at: /results/0/id}}\n", "")
    return head.replace("NAME", name) + steps.lstrip("\n") + TAIL.lstrip("\n") + (CLEAN if clean else "")


@dataclass(frozen=True)
class Seen:
    results: Results
    records: list[EvidenceRecord]
    left: dict[str, Any]
    cassettes: Path = Path()

    def of(self, name: str) -> Verdict:
        return next(v for v in self.results.verdicts if v.scenario == name)

    def ids(self, name: str) -> set[str]:
        return {f.id for f in self.of(name).findings}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """One bench for everything that disturbs nobody: tidy, untidy, grabbing, and a provider that asks for time once."""

    async def scene(stack: AsyncExitStack) -> Seen:
        pretend = await pretend_mem0(stack)
        store = pretend.fake.built._book.find(KEY).store  # type: ignore[attr-defined]
        pretend.fake.configure(KEY, index_delay_s=0.0)
        await foreign_memory(store)
        pretend.faults.append(make_fault("status", code=429, retry_after="1", tool="search_memories", times=1))
        shown = f"{KEY} {b64encode(KEY.encode()).decode()} {KEY[::-1]}"
        pretend.faults.append(make_fault("stub-reply", tool="list_entities", result={"content": [{"type": "text", "text": shown}], "isError": False}))
        pretend.faults += [make_fault("status", code=status, tool=tool) for status, (tool, _) in REFUSALS.items()]
        texts = [scenario("TIDY", FIND), scenario("UNTIDY", "", clean=False), scenario("GRABBING", GRAB), ECHO, *map(refused, REFUSALS)]
        tapes = Tapes(folder=tmp_path_factory.mktemp("cassettes"), record="new")
        results, records = await Rehearsal(tmp_path_factory.mktemp("live")).run(pretend, texts, tapes=tapes)
        return Seen(results, records, pretend.memories(), tapes.folder)

    found: Seen = in_loop(scene)
    return found


async def foreign_memory(store: Any) -> None:
    from datetime import UTC, datetime

    store.insert("Somebody's shopping list", {"user_id": "somebody"}, None, datetime(2026, 1, 1, tzinfo=UTC))


def test_a_tidy_run_passes_and_is_labelled_fake_everywhere(seen: Seen) -> None:
    verdict = seen.of("TIDY")
    assert verdict.outcome == "pass", verdict.findings
    assert (verdict.level, verdict.rehearsed) == ("fake", True)
    assert {claim.level for claim in verdict.claims} == {"fake"}
    assert seen.results.level_line.startswith("Evidence level: fake")
    assert any("rehearsed" in note for note in verdict.notes)
    assert "left-behind" not in seen.ids("TIDY")


def test_the_gateway_knew_the_real_name_only(seen: Seen) -> None:
    started = [r.record for r in seen.records if r.kind == "audit" and r.record.get("event") == "call_started"]
    assert started
    assert {r["details"]["endpoint"] for r in started} == {"https://mcp.mem0.ai/mcp/"}


def test_no_request_left_before_the_provider_could_be_asked_again(seen: Seen) -> None:
    (verdict,) = [v for v in seen.results.verdicts if v.scenario == "TIDY"]
    assert verdict.attempts["find"] == 2
    exchanges = [r.exchange for r in seen.records if isinstance(r, ProviderExchangeRecord) and r.exchange.tool == "search_memories"]
    assert [e.status for e in exchanges[:2]] == [429, 200]
    assert exchanges[1].at[:19] > exchanges[0].at[:19]  # a second later at least
    assert not any(e.fault for e in exchanges)


def test_time_to_visible_is_measured_by_provider_and_kind(seen: Seen) -> None:
    (measured,) = seen.of("TIDY").visibility
    assert (measured.provider, measured.tool, measured.kind, measured.visible) == ("mem0", "search_memories", "raw", True)


def test_what_a_run_leaves_is_listed(seen: Seen) -> None:
    assert seen.of("UNTIDY").outcome == "pass"
    (left,) = [f for f in seen.of("UNTIDY").findings if f.id == "left-behind"]
    assert left.severity == "warn"
    assert left.actual["id"] in seen.left


def test_an_id_of_somebody_else_is_never_deleted(seen: Seen) -> None:
    assert "foreign-data" in seen.ids("GRABBING")
    assert seen.of("GRABBING").exit_code == 2
    assert any(m.text == "Somebody's shopping list" for m in seen.left.values())


def test_what_was_spent_is_in_the_evidence(seen: Seen) -> None:
    notes = [r.data for r in seen.records if isinstance(r, NoteRecord) and r.text == "live spending so far"]
    assert notes[-1]["calls"] == len([r for r in seen.records if isinstance(r, ProviderExchangeRecord) and r.exchange.rpc_method == "tools/call"])
    assert notes[-1]["calls"] <= notes[-1]["max_calls"]


def test_what_is_recorded_of_a_pretend_host_says_that_it_is_fake_and_shows_no_credential(seen: Seen) -> None:
    files = {path.stem: path for path in seen.cassettes.glob("mem0/*.yaml")}
    assert files.keys() == {"TIDY", "UNTIDY", "ECHO", *(f"REFUSED-{status}" for status in REFUSALS)}, "what broke off is not recorded"
    for path in files.values():
        header = read_cassette(path).header
        assert header is not None
        assert (header.recorded_at, dict(header.legs)) == ("fake", {"schema": "fake", "memory": "fake"})
        assert {header.leg("schema"), header.leg("memory")} == {"fake"}, "a replay of it proves no more"
        assert header.endpoint == "stand-in of https://mcp.mem0.ai/mcp/"
        text = path.read_text(encoding="utf-8")
        for trace in (KEY, KEY[::-1], b64encode(KEY.encode()).decode(), "127.0.0.1", "Bearer"):
            assert trace not in text, (path.stem, trace)
    assert files["ECHO"].read_text(encoding="utf-8").count("[secret:mem0:") >= 3


def test_what_a_provider_refused_it_refuses_again_when_it_is_replayed(seen: Seen, tmp_path: Path) -> None:
    """Recorded from a host that answers 401, 409, 500, and once 429; replayed with nobody there."""
    texts = {"TIDY": scenario("TIDY", FIND), **{f"REFUSED-{status}": refused(status) for status in REFUSALS}}
    paths = [tmp_path / f"{name}.yaml" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    tapes = Tapes(folder=seen.cassettes)
    plan = make_plan([], level="replayed", protocol=VERSION, paths=paths, tapes=tapes)
    asyncio.run(run_plan(plan, jobs=2, evidence=tmp_path / "evidence.jsonl", run_id="20261201T000000Z-replay", tapes=tapes))
    records = read_evidence(tmp_path / "evidence.jsonl")
    assert {v.scenario: v.outcome for v in judge(records).verdicts} == dict.fromkeys(texts, "pass")
    assert called(records, texts) == called(seen.records, texts)
    assert {status for statuses in called(records, texts).values() for status in statuses} == {200, 401, 409, 429, 500}


def called(records: Sequence[EvidenceRecord], names: Iterable[str]) -> dict[str, list[int | None]]:
    """By scenario: what each call was answered with at the tap."""
    found: dict[str, list[int | None]] = {name: [] for name in names}
    for record in records:
        if isinstance(record, ProviderExchangeRecord) and record.exchange.tool and (name := record.item.partition("[")[0]) in found:
            found[name].append(record.exchange.status)
    return found


def test_the_budget_stops_a_run_before_it_is_exceeded_and_cleanup_runs_all_the_same(tmp_path: Path) -> None:
    async def scene(stack: AsyncExitStack) -> Seen:
        pretend = await pretend_mem0(stack)
        results, records = await Rehearsal(tmp_path).run(
            pretend, [scenario("DEAR", FIND + FIND.replace("find", "again").replace("found", "more"))], budget=Budget(3, 120.0)
        )
        return Seen(results, records, pretend.memories())

    found: Seen = in_loop(scene)
    assert found.of("DEAR").exit_code == 5
    assert "budget-spent" in found.ids("DEAR")
    calls = [r.exchange.tool for r in found.records if isinstance(r, ProviderExchangeRecord) and r.exchange.rpc_method == "tools/call"]
    assert calls == ["add_memory", "search_memories", "delete_memory"]
    assert found.left == {}


def test_a_gateway_that_repeats_a_call_is_stopped_at_the_wire(tmp_path: Path) -> None:
    """The broken specimen: with the second dispatch of approve-twice the budget would be exceeded, whatever the steps say."""
    text = scenario("TWICE", "", clean=False).replace("{grant: personal}", "{grant: personal, permissions: {add_memory: ask_first}}")
    text = text.replace("    expect: [{id: written, result: {is_error: false}}]\n", HELD)

    async def scene(stack: AsyncExitStack) -> Seen:
        pretend = await pretend_mem0(stack)
        results, records = await Rehearsal(tmp_path).run(pretend, [text], defects=["approve-twice"], budget=Budget(1, 120.0))
        return Seen(results, records, pretend.memories())

    found: Seen = in_loop(scene)
    assert "live-guard" in found.ids("TWICE")
    assert len(found.left) == 1
    forwarded = [
        r.exchange for r in found.records if isinstance(r, ProviderExchangeRecord) and r.exchange.tool == "add_memory" and r.exchange.forwarded
    ]
    assert len(forwarded) == 1


# ---- before anything is started


def planned(texts: Sequence[str], folder: Path, **told: Any) -> list[tuple[str, ...]]:
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"p{number}.yaml"
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    live = LiveOptions(**{"environment": ENVIRONMENT, "rehearse": {"mem0": "http://127.0.0.1:9"}, **told})
    return [item.missing for item in make_plan([], level="live", paths=paths, live=live).items]


def test_a_write_is_refused_without_leave(tmp_path: Path) -> None:
    (missing,) = planned([scenario("S", FIND)], tmp_path)
    assert [reason.partition(":")[0] for reason in missing] == ["consent", "consent"]
    assert planned([scenario("S", FIND)], tmp_path, allow_write=True) == [()]


def test_without_a_credential_nothing_is_run(tmp_path: Path) -> None:
    (missing,) = planned([scenario("S", FIND)], tmp_path, allow_write=True, environment={})
    assert missing == ("credentials: mem0 needs MEM0_API_KEY, set in the environment or in .env",)
