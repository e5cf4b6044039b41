"""A night from end to end against pretend-live hosts: preflight, levels, triage, what is written, history, sweeping."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.cli.nightly import write
from harness.cli.place import RunPlace
from harness.clock import SystemClock
from harness.engine.vocabulary import manifests
from harness.errors import UsageError
from harness.history.store import NAME, History
from harness.live.options import LiveOptions
from harness.nightly.doctor import checkup, exit_of
from harness.nightly.freshness import Cassette, judge_freshness
from harness.nightly.night import Night, Wish, night
from harness.nightly.render import document, issue, markdown
from harness.scenario.files import data_root
from harness.tap.fault import make_fault
from tests.live.conftest import ENVIRONMENT, KEY, Pretend, in_loop, pretend_mem0

READ = """
scenario: NAME
title: a read that is NAME
connections: {mem0: {}}
steps:
  - id: read
    call: mem0.TOOL
    with: WITH
    expect: [{id: ok, result: {is_error: false, at: AT, count: 0}}, {id: trail, audited: success}]
proves: [{claim: c, by: [ok, trail]}]
does_not_prove: [d]
"""


def reading(name: str, tool: str, given: str, at: str) -> str:
    return READ.replace("NAME", name).replace("TOOL", tool).replace("WITH", given).replace("AT", at)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Night:
    """Three scenarios in one night: one is well, one meets a provider that is down, one a provider that changed."""
    folder = tmp_path_factory.mktemp("night")

    async def scene(stack: AsyncExitStack) -> Night:
        pretend = await pretend_mem0(stack)
        pretend.faults += [
            make_fault("status", code=503, tool="list_events"),
            make_fault("stub-reply", tool="list_entities", result={"content": [], "structuredContent": {"entities": []}, "isError": False}),
        ]
        texts = [
            reading("WELL", "get_memories", "{filters: {user_id: nobody}}", "/results"),
            reading("DOWN", "list_events", "{}", "/results"),
            reading("CHANGED", "list_entities", "{}", "/results"),
        ]
        paths = tuple(folder / f"{number}.yaml" for number in range(len(texts)))
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, encoding="utf-8")
        live = LiveOptions(environment=ENVIRONMENT, rehearse={"mem0": pretend.address})
        wish = Wish(select=(), up_to="live", live=live, folder=folder / "run", run_id="n", protocol="2026-07-28", paths=paths)
        return await night(wish, SystemClock())

    spent: Night = in_loop(scene)
    return spent


def test_each_failure_has_its_class_and_the_evidence_for_it(found: Night) -> None:
    causes = {f.verdict.scenario: f.cause for f in found.failures}
    assert {name: cause.cause for name, cause in causes.items()} == {"DOWN": "provider_outage", "CHANGED": "provider_change"}
    assert any("HTTP 503" in sign.what and "list_events" in sign.where for sign in causes["DOWN"].because)
    assert all(cause.because for cause in causes.values())


def test_what_is_well_passed_at_the_highest_level_and_says_fake(found: Night) -> None:
    (well,) = [v for v in found.verdicts if v.scenario == "WELL"]
    assert (well.outcome, well.level, well.rehearsed) == ("pass", "fake", True)
    assert {c.level for c in found.choices} == {"live"}
    (checkup,) = found.checkups
    assert (checkup.provider, checkup.down, checkup.lacks["live"]) == ("mem0", "", "")


def test_the_night_is_red_and_says_why(found: Night) -> None:
    assert found.exit_code == 1
    assert any("provider_outage" in reason for reason in found.reasons)


def test_the_issue_can_be_opened_as_it_is(found: Night) -> None:
    text = issue(found)
    assert text.startswith("# Night n is red: 1 provider outage, 1 provider change")
    assert "## Provider outage" in text
    assert "harness judge" in text
    assert len(text.encode()) < 65_536


def test_summary_and_document_hold_the_same_answer(found: Night) -> None:
    told = json.loads(document(found))
    assert told["schema"] == "nightly/v1"
    assert {f["class"] for f in told["failures"]} == {"provider_outage", "provider_change"}
    assert told["level_line"].startswith("Evidence level: fake")
    assert "not accepted (exit code 1)" in markdown(found)


def test_what_a_provider_says_is_inert_in_an_issue(found: Night) -> None:
    evil = "<img src=x onerror=1> [click](javascript:1) @everyone `x` | y\n# head"
    (first, *rest) = found.failures
    sign = first.cause.because[0].model_copy(update={"what": evil})
    altered = first.cause.model_copy(update={"signs": (sign,)})
    from dataclasses import replace

    text = issue(replace(found, failures=(replace(first, cause=altered), *rest)))
    assert "<img" not in text
    assert "[click]" not in text
    assert "@everyone" not in text
    assert "\n# head" not in text


def cassette(**told: object) -> Cassette:
    base = {"file": "c.yaml", "provider": "mem0", "scenario": "CHANGED", "recorded_at": "local", "recorded_on": "2026-01-01", "expires": "2027-01-01"}
    return Cassette(**{**base, "expired": False, **told})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("told", "causes", "drifted", "state"),
    [
        ({}, {}, {}, "fresh"),
        ({"expired": True}, {}, {}, "stale"),
        ({"outdated": True}, {}, {}, "stale"),
        ({"problem": "torn"}, {}, {"mem0": ("x",)}, "unreadable"),
        ({"expired": True}, {}, {"mem0": ("tool-removed: get_memory",)}, "contradicted by live"),
        ({}, {}, {"zep": ("tool-removed: y",)}, "fresh"),
    ],
)
def test_how_fresh_a_recording_is(told: dict[str, object], causes: dict[str, str], drifted: dict[str, Sequence[str]], state: str) -> None:
    (judged,) = judge_freshness([cassette(**told)], [], causes, drifted)
    assert judged.state == state


@pytest.mark.parametrize(("recorded", "today", "state"), [("2026-07-28", "2025-11-25", "contradicted by live"), ("2025-06-18", "2025-11-25", "fresh"),
                                                          ("2025-11-25", "2025-11-25", "fresh"), ("2026-07-28", "", "fresh")])  # fmt: skip
def test_a_provider_that_no_longer_speaks_what_was_recorded_contradicts_it(recorded: str, today: str, state: str) -> None:
    (judged,) = judge_freshness([cassette(protocol=recorded)], [], {}, {}, {"mem0": today})
    assert judged.state == state
    assert (state == "fresh") == ("nothing newer" not in judged.because[0])


def test_a_live_failure_by_the_providers_change_contradicts_a_recording(found: Night) -> None:
    (changed,) = [v for v in found.verdicts if v.scenario == "CHANGED"]
    live = changed.model_copy(update={"level": "live", "rehearsed": False})
    (judged,) = judge_freshness([cassette()], [live], {live.item: "provider_change"}, {})
    assert judged.state == "contradicted by live"
    (rehearsed,) = judge_freshness([cassette()], [changed], {changed.item: "provider_change"}, {})
    assert rehearsed.state == "fresh"  # a stand-in contradicts nothing


def test_a_history_that_cannot_be_used_is_an_error_and_costs_no_report(found: Night, tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    wish = Wish(select=(), up_to="live", live=LiveOptions(), folder=tmp_path / "n", run_id="n")
    with pytest.raises(UsageError):
        write(found, RunPlace(tmp_path, "n"), (), wish)
    assert {p.name for p in (tmp_path / "n").iterdir()} >= {"nightly.json", "nightly.md", "issue.md"}


# ---- the commands

LEAVE = """
scenario: LEAVE
title: a run that leaves a memory behind
connections: {mem0: {}}
let: {user: "harness-${run.id}"}
steps:
  - id: write
    call: mem0.add_memory
    with: {text: "The ${nonce} keeper.", user_id: "${user}", infer: false}
    expect: [{id: written, result: {is_error: false}}]
proves: [{claim: c, by: [written]}]
does_not_prove: [d]
"""


def commands(work: Callable[[Pretend], None]) -> None:
    """Command lines in a thread, while the pretend host is served here."""

    async def scene(stack: AsyncExitStack) -> None:
        pretend = await pretend_mem0(stack)
        await asyncio.to_thread(work, pretend)

    in_loop(scene)


def test_preflight_run_history_and_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MEM0_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "leave.yaml").write_text(LEAVE, encoding="utf-8")

    def work(pretend: Pretend) -> None:
        from datetime import UTC, datetime

        store = pretend.fake.built._book.find(KEY).store  # type: ignore[attr-defined]
        store.insert("Somebody's own", {"user_id": "harness-fans"}, None, datetime(2026, 1, 1, tzinfo=UTC))
        rehearse = ["--rehearse", f"mem0={pretend.fake.base_url}"]
        assert main(["doctor", "mem0", "--probe", *rehearse]) == 0
        assert "answers, 11 tools" in capsys.readouterr().out
        assert main(["nightly", "leave.yaml", "--allow-write", "--report", "results_json", *rehearse]) == 0
        said = capsys.readouterr().out
        assert "Evidence level: fake" in said
        assert "left at the provider: mem0 memory" in said
        with History(Path("reports") / NAME, read_only=True) as history:
            assert [run.kind for run in history.runs(5)] == ["nightly"]
            assert [left.host for left in history.leftovers()] == [pretend.fake.base_url]
        assert len(pretend.memories()) == 2
        assert main(["sweep", "mem0", *rehearse]) == 0
        assert "1 not ours and left alone" in capsys.readouterr().out
        assert [memory.scope["user_id"] for memory in pretend.memories().values()] == ["harness-fans"]
        with History(Path("reports") / NAME, read_only=True) as history:
            assert history.leftovers() == []

    commands(work)


def test_missing_credentials_are_red_and_exit_3_and_what_can_be_run_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MEM0_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "mem0"]) == 3
    assert "MISSING" in capsys.readouterr().out
    (tmp_path / "well.yaml").write_text(reading("WELL", "get_memories", "{filters: {user_id: nobody}}", "/results"), encoding="utf-8")
    assert main(["nightly", "well.yaml", "--report", "none"]) == 3
    said = capsys.readouterr().out
    assert "preflight mem0: live MISSING - credentials: mem0 needs MEM0_API_KEY" in said
    assert "1 pass" in said
    assert "MEM0_API_KEY" in (tmp_path / "reports/latest/issue.md").read_text(encoding="utf-8").replace("\\", "")
    assert main(["sweep", "mem0"]) == 3
    assert main(["login", "mem0"]) == 2
    assert "open this address" not in capsys.readouterr().err, "there is none to open"


def test_a_program_that_is_hosted_nowhere_lacks_nothing_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else every night would be red for a credential that nobody could use."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAPR_API_KEY", "synthetic-papr-key-1")
    (program,) = [checkup(one, LiveOptions(), lambda _: "") for name, one in manifests(data_root()).items() if name == "papr-mcp"]
    assert exit_of([program], ()) == 0
    assert exit_of([program], ("papr-mcp",)) == 5
    assert main(["doctor", "papr-mcp", "--probe"]) == 5
    said = capsys.readouterr().out
    assert "live: none" in said
    assert "papr-mcp is hosted nowhere: it is a program for this machine; select level local" in said


def test_bad_input_is_said_before_anything_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("no equals sign\n", encoding="utf-8")
    assert main(["doctor"]) == 2
    assert ".env:1:1" in capsys.readouterr().err
    (tmp_path / ".env").unlink()
    (tmp_path / "quarantine.yaml").write_text("- scenario: 1\n", encoding="utf-8")
    for command in (["nightly", "MEM-1"], ["run", "MEM-1", "--allow-write"], ["doctor", "mem"], ["nightly", "--max-calls", "0"]):
        assert main(command) == 2
    assert not (tmp_path / "reports").exists()
