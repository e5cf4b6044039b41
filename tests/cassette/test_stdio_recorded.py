"""A provider of somebody's own, a command that speaks MCP on standard input and output: recorded by the command line, and replayed without it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.cassette.store import read_cassette
from harness.cli.main import main
from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.errors import LoadErrors
from harness.local.by_manifest import server_of
from harness.model.manifest import LocalSpec, Manifest
from harness.model.verdict import Verdict
from harness.scenario.manifest import load_manifest

KEY = "synthetic-notes-key-77aa31"
SERVER = Path(__file__).with_name("notes_server.py")
MANIFEST = """\
id: notes
title: Notes on standard input and output
docs: https://notes.invalid/mcp
transport: mcp_http
endpoint: stdio:notes
path: /mcp
mount: reverse
known_as: generic
auth: {scheme: bearer, paths: [credentials.authorization]}
recall:
  search_notes: {items: /results, text: /text, id: /id}
local:
  stdio: COMMAND
  secrets: [NOTES_KEY]
"""
SCENARIO = """\
scenario: NOTES-1
title: A note is kept and found
connections: {notes: {}}
let: {fact: "The ${nonce} keeper keeps a lamp."}
steps:
  - id: write
    call: notes.add_note
    with: {text: "${fact}"}
    capture: {made: {from: result, at: /id}}
    expect: [{id: written, result: {is_error: false}}, {id: trail, audited: success}]
  - id: find
    call: notes.search_notes
    with: {query: "${nonce}"}
    expect: [{id: found, recalled: {text: "${fact}", id: "${write.made}"}}]
expect: [{id: quiet, nothing_else: true}]
proves: [{claim: what was written is found, by: [written, trail, found, quiet]}]
does_not_prove: [that it is kept for long]
"""


def project(place: Path, *command: str, manifest: str = MANIFEST) -> Path:
    """Somebody's own folder: a manifest beside the folder of scenarios. Answers the scenario's path."""
    for name in ("providers", "scenarios", "cassettes"):
        (place / name).mkdir(parents=True)
    (place / "providers" / "notes.yaml").write_text(manifest.replace("COMMAND", json.dumps(command)), encoding="utf-8")
    scenario = place / "scenarios" / "NOTES-1.yaml"
    scenario.write_text(SCENARIO, encoding="utf-8")
    return scenario


@dataclass(frozen=True)
class Played:
    place: Path
    recorded: tuple[int, Verdict]
    replayed: tuple[int, Verdict]


def run(command: str, scenario: Path, *more: str) -> tuple[int, Verdict]:
    place = scenario.parent.parent
    reports = place / f"reports-{command}"
    code = main([command, str(scenario), "--reports-dir", str(reports), "--cassettes", str(place / "cassettes"), *more])
    (verdict,) = judge(read_evidence(reports / "latest" / "evidence.jsonl")).verdicts
    return code, verdict


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    place = tmp_path_factory.mktemp("own")
    program = place / "server.py"
    program.write_bytes(SERVER.read_bytes())
    scenario = project(place / "project", sys.executable, str(program))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOTES_KEY", KEY)
        recorded = run("record", scenario, "--level", "local")
    program.unlink()  # and the key is gone as well
    return Played(place / "project", recorded, run("run", scenario, "--level", "replayed", "--report", "none"))


def test_it_is_recorded_at_level_local(played: Played) -> None:
    code, verdict = played.recorded
    assert (code, verdict.outcome) == (0, "pass"), verdict.findings
    assert {claim.level for claim in verdict.claims} == {"local"}
    header = read_cassette(played.place / "cassettes" / "notes" / "NOTES-1.yaml").header
    assert header is not None
    assert (header.recorded_at, header.simulated_backend, header.server.name) == ("local", False, "notes on stdio")
    assert (header.protocol, header.agent_protocol, header.pin) == ("2025-11-25", "2026-07-28", "auto")
    assert "standard input and output" in header.endpoint


def test_it_is_replayed_where_there_is_no_server(played: Played) -> None:
    code, verdict = played.replayed
    assert (code, verdict.outcome) == (0, "pass"), verdict.findings
    assert {claim.level for claim in verdict.claims} == {"replayed"}
    assert verdict.recorded[0].server == "notes on stdio 3"


def test_what_it_is_given_from_the_environment_is_nowhere(played: Played) -> None:
    """The server answers with its key, and writes it to its error output."""
    files = [path for path in played.place.rglob("*") if path.is_file()]
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []
    (log,) = [path for path in files if path.name == "server.log"]
    assert "called add_note with [secret:env:NOTES_KEY]" in log.read_text(encoding="utf-8")
    (cassette,) = [path for path in files if path.parent.name == "notes"]
    assert "[secret:notes:NOTES_KEY]" in cassette.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("command", "said"),
    [(("sh", "-c", "echo no such module >&2; exit 3"), "the server has ended with code 3: no such module; it never answered"),
     (("sh", "-c", "echo hello; exec sleep 0"), "(on standard output, and no message) hello")],
)  # fmt: skip
def test_a_command_that_is_no_server_is_exit_4_and_says_so_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], said: str
) -> None:
    monkeypatch.setenv("NOTES_KEY", KEY)
    scenario = project(tmp_path / "p", *command)
    words = ["record", str(scenario), "--level", "local", "--cassettes", str(tmp_path / "p" / "cassettes"), "--reports-dir", str(tmp_path / "r")]
    assert main(words) == 4
    shown = capsys.readouterr().err
    assert said in shown
    assert "server.log in the run's folder" in shown
    assert list((tmp_path / "p" / "cassettes").iterdir()) == []


def missing(scenario: Path, level: str = "local") -> tuple[str, ...]:
    return make_plan([], level=level, paths=[scenario]).items[0].missing


def test_what_is_missing_is_said_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTES_KEY", raising=False)
    wanted = "credentials: notes needs NOTES_KEY, set in the environment (at least 6 characters)"
    assert missing(project(tmp_path / "a", sys.executable)) == (wanted,)
    monkeypatch.setenv("NOTES_KEY", KEY)
    (said,) = missing(project(tmp_path / "b", "no-such-command-anywhere"))
    assert said.startswith("notes: its command 'no-such-command-anywhere' is not found")
    assert missing(project(tmp_path / "c", sys.executable)) == ()
    assert missing(tmp_path / "c" / "scenarios" / "NOTES-1.yaml", "fake") == ("there is no stand-in for notes",)
    without = project(tmp_path / "d", manifest=MANIFEST.partition("local:")[0])
    assert missing(without) == ("notes has no server of its own that runs on this machine",)


def test_a_manifest_that_takes_a_shipped_name_or_makes_no_sense_is_exit_2(tmp_path: Path) -> None:
    scenario = project(tmp_path / "a", "true")
    (tmp_path / "a" / "providers" / "mem0.yaml").write_text(MANIFEST.replace("id: notes", "id: mem0").replace("COMMAND", "[x]"), encoding="utf-8")
    with pytest.raises(LoadErrors, match="there is a provider 'mem0' already"):
        missing(scenario)
    for old, new in (("COMMAND", "[]"), ("[NOTES_KEY]", "NOTES_KEY"), ("secrets:", "secret:"), ("COMMAND", "[x]\n  memory: perhaps")):
        with pytest.raises(LoadErrors):
            load_manifest(MANIFEST.replace(old, new).replace("COMMAND", "[x]"), "notes.yaml")


def test_a_file_of_ours_goes_before_a_command_of_the_manifest() -> None:
    known: dict[str, Any] = {"title": "t", "docs": "d", "transport": "mcp_http", "endpoint": "e", "path": "/mcp", "mount": "reverse"}
    spec = LocalSpec(stdio=("true",), memory="fake", protocols=("2026-07-28",))
    ours, theirs = (Manifest(id=name, auth={"scheme": "bearer", "paths": ("x",)}, local=spec, **known) for name in ("mem0", "notes"))  # type: ignore[arg-type]
    found = server_of(theirs)
    assert found is not None
    assert (found.id, found.schema_level, found.memory_level, found.protocols) == ("notes", "local", "fake", ("2026-07-28",))
    assert type(server_of(ours)).__name__ == "Mem0Server"
    assert server_of(theirs.model_copy(update={"local": None})) is None
