"""Level replayed, from the command line to the report: bound to what was recorded, and red for whatever does not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.cassette.format import Header, Interaction, RecordMode, content_hash
from harness.cassette.store import dump_cassette, read_cassette, read_header
from harness.cli.main import main
from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.engine.tapes import Tapes
from harness.model.verdict import Results, Verdict
from harness.scenario.files import cassettes_folder, data_root

MEM1 = data_root() / "scenarios" / "memory" / "MEM-1.yaml"
SHIPPED = cassettes_folder() / "mem0" / "MEM-1.yaml"
Change = Callable[[Header, tuple[Interaction, ...]], tuple[Header, tuple[Interaction, ...]]]


def unchanged(header: Header, interactions: tuple[Interaction, ...]) -> tuple[Header, tuple[Interaction, ...]]:
    return header, interactions


def swapped(old: bytes, new: bytes) -> Change:
    def change(header: Header, interactions: tuple[Interaction, ...]) -> tuple[Header, tuple[Interaction, ...]]:
        assert any(old in one.response_body for one in interactions)
        return header, tuple(replace(one, response_body=one.response_body.replace(old, new)) for one in interactions)

    return change


def emptied(header: Header, interactions: tuple[Interaction, ...]) -> tuple[Header, tuple[Interaction, ...]]:
    changed = []
    for one in interactions:
        if b'"search_memories"' in (one.request_body or b"") and b"tools/call" in (one.request_body or b""):
            message = json.loads(one.response_body)
            message["result"]["structuredContent"] = {"results": []}
            message["result"]["content"] = [{"type": "text", "text": '{"results": []}'}]
            one = replace(one, response_body=json.dumps(message).encode())
        changed.append(one)
    return header, tuple(changed)


def asked_otherwise(header: Header, interactions: tuple[Interaction, ...]) -> tuple[Header, tuple[Interaction, ...]]:
    return header, tuple(replace(one, request_body=(one.request_body or b"").replace(b'"infer":false', b'"infer":true')) for one in interactions)


def with_header(**changed: Any) -> Change:
    return lambda header, interactions: (header.model_copy(update=changed), interactions)


def with_values(header: Header, interactions: tuple[Interaction, ...]) -> tuple[Header, tuple[Interaction, ...]]:
    return header.model_copy(update={"values": {**header.values, "fact": "another fact"}}), interactions


VARIANTS: dict[str, Change] = {
    "SAME": unchanged,
    "ALTERED": swapped(b"silver compass", b"golden compass"),
    "LACKING": emptied,
    "OTHERWISE": asked_otherwise,
    "VALUES": with_values,
    "OLD": with_header(expires="2020-01-01"),
    "ELSEWHERE": with_header(inventory="0" * 64),
    "RENAMED": with_header(scenario="MEM-9"),
    "CONVERTED": with_header(pin="auto", agent_protocol="2025-11-25"),
    "MISSING": unchanged,
    "CUT": unchanged,
    "EDITED": unchanged,
    "TOMORROW": unchanged,
    "LINKED": unchanged,
}


def write(folder: Path, scenarios: Path, name: str, change: Change) -> None:
    """MEM-1 under another name, and its recording, changed and sealed again: what a recorder would have written had the provider answered so."""
    whole = read_cassette(SHIPPED)
    assert whole.header is not None
    header, interactions = change(whole.header.model_copy(update={"scenario": name}), whole.interactions)
    path = folder / "mem0" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(dump_cassette(header.model_copy(update={"content": content_hash(interactions)}), interactions))
    (scenarios / f"{name}.yaml").write_text(MEM1.read_text(encoding="utf-8").replace("scenario: MEM-1\n", f"scenario: {name}\n"), encoding="utf-8")


def tamper(path: Path, old: str, new: str) -> None:
    """By hand, after it was sealed: in the bodies, or in the header where those do not have it."""
    head, mark, bodies = path.read_text(encoding="utf-8").partition("interactions:")
    assert old in head + bodies
    path.write_text((head.replace(old, new) if old not in bodies else head) + mark + bodies.replace(old, new), encoding="utf-8")


def run(select: Path, folder: Path, reports: Path, *more: str) -> tuple[int, Results]:
    words = ["run", str(select), "--protocol", "2026-07-28", "--report", "none", "--reports-dir", str(reports), "--cassettes", str(folder), *more]
    code = main(words)
    return code, judge(read_evidence(reports / "latest" / "evidence.jsonl"))


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, dict[str, Verdict], str]:
    """All variants behind one gateway; (exit code, verdicts by name, the first line of the reports)."""
    place = tmp_path_factory.mktemp("replayed")
    (place / "scenarios").mkdir()
    for name, change in VARIANTS.items():
        write(place / "cassettes", place / "scenarios", name, change)
    (place / "cassettes" / "mem0" / "MISSING.yaml").unlink()
    cut = place / "cassettes" / "mem0" / "CUT.yaml"
    cut.write_bytes(cut.read_bytes()[:-40])
    tamper(place / "cassettes" / "mem0" / "EDITED.yaml", "maple cabinet", "walnut chest!")
    tamper(place / "cassettes" / "mem0" / "TOMORROW.yaml", "format: cassette/v1", "format: cassette/v2")
    linked = place / "cassettes" / "mem0" / "LINKED.yaml"
    linked.rename(place / "elsewhere.yaml")
    linked.symlink_to(place / "elsewhere.yaml")
    code, results = run(place / "scenarios", place / "cassettes", place / "reports", "--level", "replayed")
    return code, {verdict.scenario: verdict for verdict in results.verdicts}, results.level_line


def findings(verdict: Verdict) -> dict[str, str]:
    return {f.id: f.message for f in verdict.findings if f.severity != "warn"}


Played = tuple[int, dict[str, Verdict], str]


def test_a_recording_passes_and_every_report_says_what_it_is(played: Played) -> None:
    _, verdicts, line = played
    header = read_header(SHIPPED)
    assert line.startswith(f"Evidence level: replayed (recordings of earlier exchanges: at fake on {header.day})")
    verdict = verdicts["SAME"]
    assert (verdict.outcome, verdict.exit_code) == ("pass", 0), verdict.findings
    assert {claim.level for claim in verdict.claims} == {"fake"}, "a recording of a stand-in is no more than the stand-in was"
    assert any(note.startswith(f"mem0: recorded at: fake, on {header.day}") for note in verdict.notes)
    assert verdict.recorded[0].file.endswith("mem0/SAME.yaml")


def test_a_recording_whose_answer_alters_the_fact_fails(played: Played) -> None:
    """The control: nothing of ours is ever put into a recorded answer."""
    verdict = played[1]["ALTERED"]
    assert verdict.exit_code == 1
    assert findings(verdict).keys() == {"recalled"}
    assert not any(claim.proven for claim in verdict.claims if "recalled" in claim.claim)


def test_a_recording_whose_answer_lacks_the_fact_does_not_pass(played: Played) -> None:
    verdict = played[1]["LACKING"]
    assert verdict.exit_code == 1
    assert findings(verdict).keys() == {"recalled"}
    assert not any(claim.proven for claim in verdict.claims if "recalled" in claim.claim)


def test_a_call_that_was_not_recorded_and_one_that_is_not_made_any_more(played: Played) -> None:
    verdict = played[1]["OTHERWISE"]
    assert verdict.outcome == "error"
    said = {id: [f for f in verdict.findings if f.id == id and "tools/call add_memory" in f.message] for id in ("replay-unmatched", "replay-unused")}
    (unmatched,), (unused,) = said["replay-unmatched"], said["replay-unused"]
    assert unused.severity == "fail"
    assert '"infer": true' in str(unmatched.actual)
    assert '"infer": false' in str(unmatched.actual)


@pytest.mark.parametrize(
    ("name", "said"),
    [("OLD", "expired on 2020-01-01"), ("ELSEWHERE", "recorded against another inventory of mem0"), ("RENAMED", "the recording of mem0/MEM-9"),
     ("CONVERTED", "recorded for an agent that speaks 2025-11-25"), ("MISSING", "there is no such cassette"),
     ("TOMORROW", "format 'cassette/v2': this version reads cassette/v1"), ("LINKED", "the cassette would be outside its folder")],
)  # fmt: skip
def test_a_recording_that_does_not_fit_is_red_before_anything_starts(played: Played, name: str, said: str) -> None:
    verdict = played[1][name]
    assert (verdict.outcome, verdict.exit_code) == ("error", 5)
    assert said in findings(verdict)["prerequisite-missing"]


def test_a_cut_or_edited_recording_and_one_of_other_values_could_not_tell(played: Played) -> None:
    for name, said in (("CUT", "not a cassette"), ("EDITED", "edited after it was recorded"), ("VALUES", "made with other values")):
        verdict = played[1][name]
        assert (verdict.outcome, verdict.exit_code) == ("error", 5), name
        assert any(said in message or "end of the file" in message for message in findings(verdict).values()), findings(verdict)


def test_record_writes_once_keeps_what_is_there_and_all_replaces_it(tmp_path: Path) -> None:
    folder, reports = tmp_path / "c", tmp_path / "r"
    folder.mkdir()
    path = folder / "mem0" / "MEM-1.yaml"
    code, _ = run(MEM1, folder, reports, "--level", "fake", "--record", "new", "--no-prose")
    assert code == 0
    header = read_header(path)
    assert (header.recorded_at, header.redaction.prose, header.simulated_backend) == ("fake", "hashed", False)
    assert header.redaction.secrets >= 2
    scenario = make_plan([], paths=[MEM1]).items[0].scenario
    modes: tuple[RecordMode, ...] = ("none", "new", "all")
    assert [Tapes(folder=folder, record=mode).records(scenario, "mem0") for mode in modes] == [False, False, True]
    assert Tapes(folder=tmp_path, record="new").records(scenario, "mem0")
    assert run(MEM1, folder, reports, "--level", "fake", "--record", "all", "--no-prose")[0] == 0
    assert read_header(path).values["nonce"] != header.values["nonce"]
    assert run(MEM1, folder, reports, "--level", "replayed")[0] == 0, "what was just recorded replays"


def test_a_recording_that_cannot_be_written_is_exit_2(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / "mem0").write_text("a file where a folder should be", encoding="utf-8")
    code, results = run(MEM1, folder, tmp_path / "r", "--level", "fake", "--record", "all")
    assert code == 2
    assert "cannot be written" in findings(results.verdicts[0])["usage"]


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--level", "replayed", "--record", "new"], "a replay cannot be recorded"), (["--cassettes", "/nowhere/at/all"], "no such folder"),
     (["--record", "some"], "some")],
)  # fmt: skip
def test_options_that_make_no_sense_are_exit_2(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(["run", str(MEM1), "--reports-dir", str(tmp_path), *words]) == 2
    assert said in "".join(capsys.readouterr())


def test_every_committed_recording_is_whole_and_expires() -> None:
    paths = sorted(cassettes_folder().glob("*/*.yaml"))
    assert {path.parent.name for path in paths} >= {"honcho", "mem0", "papr-mcp", "cognee"}
    for path in paths:
        header = read_cassette(path).header
        assert header is not None
        assert header.redaction.prose == "hashed", path
        assert path == cassettes_folder() / header.provider / f"{header.scenario}.yaml"
        assert header.recorded_at in ("fake", "local")
    labels = {path.parent.name: (read_header(path).recorded_at, read_header(path).simulated_backend) for path in paths}
    assert labels["honcho"] == ("local", False)
    assert labels["papr-mcp"] == ("local", True)
    assert labels["cognee"] == ("fake", False)
