"""`harness inventory`: captured, shown, exported, and changed on purpose with who, when and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.errors import Exit
from harness.inventory.published import load_published
from harness.inventory.store import read_inventory
from harness.yaml_nodes import parse_yaml
from tests.cli.drift_servers import DROP, FIND, NARROWED, TOOLS, against, app, stdio_command, tools_file
from tests.cli.test_cli_drift import server as old_era

WHO = ["--owner", "jane", "--reason", 'she said "yes":\n no', "--issue", "N-1"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def captured(folder: Path, tools: list[object]) -> str:
    """An inventory file of a served list."""
    assert against(app(tools), lambda url: main(["inventory", "capture", url, "-o", "notes.yaml", "--replace"])) == 0
    return str(folder / "notes.yaml")


def test_captured_from_a_url_a_command_and_a_file_it_is_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = read_inventory(Path(captured(tmp_path, TOOLS)))
    assert main(["inventory", "capture", "stdio:" + " ".join(f"'{w}'" for w in stdio_command(tmp_path, TOOLS)), "-o", "two.yaml"]) == 0
    assert main(["inventory", "capture", tools_file(tmp_path, "t.json", TOOLS), "--provider", "notes", "-o", "three.yaml"]) == 0
    assert first.tools == read_inventory(tmp_path / "two.yaml").tools == read_inventory(tmp_path / "three.yaml").tools
    assert (first.provider, first.taken.server_name, first.taken.pages) == ("notes", "notes", 1)
    capsys.readouterr()
    assert main(["inventory", "capture", tools_file(tmp_path, "t.json", TOOLS), "--provider", "notes", "-o", "-"]) == 0
    assert capsys.readouterr().out == (tmp_path / "three.yaml").read_text(encoding="utf-8")


def test_what_an_inventory_is_not_made_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tools = tools_file(tmp_path, "t.json", TOOLS)
    assert main(["inventory", "capture", tools]) == Exit.USAGE
    assert "--provider" in capsys.readouterr().err
    assert main(["inventory", "capture", "mem0"]) == Exit.USAGE
    looping = old_era(pages=((0, 1, "again"), (1, 2, "again")))
    assert against(looping, lambda url: main(["inventory", "capture", url])) == Exit.INCOMPLETE
    assert not (tmp_path / "inventories").exists()
    captured(tmp_path, TOOLS)
    assert main(["inventory", "capture", tools, "--provider", "notes", "-o", "notes.yaml"]) == Exit.USAGE
    assert main(["inventory", "capture", tools, "--provider", "No Name"]) == Exit.USAGE


def test_shown_and_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inventory", "show", "mem0"]) == 0
    assert "11 tools of mem0, taken 2026-09-24" in capsys.readouterr().out
    assert main(["inventory", "show", "mem0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["provider"] == "mem0"
    assert main(["inventory", "export", "mem0", "zep", "-o", "out.json"]) == 0
    assert list(load_published(tmp_path / "out.json")) == ["mem0", "zep"]
    assert main(["drift", "mem0", "out.json", "--provider", "mem0"]) == 0
    assert main(["inventory", "show", "mem"]) == Exit.USAGE
    assert "did you mean 'mem0'?" in capsys.readouterr().err


def test_accepting_needs_a_choice_that_exists(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = captured(tmp_path, TOOLS), tools_file(tmp_path, "new.json", NARROWED)
    assert main(["inventory", "accept", old, new, *WHO, "--expires", "2999-12-31"]) == Exit.USAGE
    assert main(["inventory", "accept", old, new, *WHO, "--expires", "2999-12-31", "--finding", "tool-removed"]) == Exit.USAGE
    assert "there is: enum-narrowed on find_note" in capsys.readouterr().err
    for wrong in (["--all"], ["--all", "--expires", "2020-01-01"], ["--all", "--expires", "2999-02-31"], ["--all", "--expires", "tomorrow"]):
        assert main(["inventory", "accept", old, new, *WHO, *wrong]) == Exit.USAGE
    assert not (tmp_path / "waivers.yaml").exists()


def test_accepting_as_a_waiver_keeps_the_file_of_people(tmp_path: Path) -> None:
    old, new = captured(tmp_path, TOOLS), tools_file(tmp_path, "new.json", NARROWED)
    (tmp_path / "waivers.yaml").write_text("# ours\n[]\n", encoding="utf-8")
    assert main(["drift", old, new]) == Exit.DRIFT
    assert main(["inventory", "accept", old, new, "--all", *WHO, "--expires", "2999-12-31"]) == 0
    text = (tmp_path / "waivers.yaml").read_text(encoding="utf-8")
    assert text.startswith("# ours\n- finding:")
    assert main(["drift", old, new]) == 0
    assert main(["inventory", "accept", old, new, "--all", *WHO, "--expires", "2999-12-31"]) == Exit.USAGE  # the same twice
    assert (tmp_path / "waivers.yaml").read_text(encoding="utf-8") == text


def test_accepting_by_update_says_who_when_and_why(tmp_path: Path) -> None:
    old, new = captured(tmp_path, TOOLS), tools_file(tmp_path, "new.json", [NARROWED[0], {"name": "new_tool", "inputSchema": {"type": "object"}}])
    assert main(["drift", old, new]) == Exit.DRIFT
    tools = ["--tool", "find_note", "--tool", "drop_note", "--tool", "new_tool"]
    assert main(["inventory", "accept", old, new, *tools, *WHO, "--update"]) == 0
    assert main(["drift", old, new, "--fail-on", "any"]) == 0
    records = {record.name: record.status for record in read_inventory(Path(old)).tools}
    assert records == {"find_note": "active", "drop_note": "removed", "new_tool": "active"}
    entries = parse_yaml((tmp_path / "accepted" / "notes.yaml").read_text(encoding="utf-8"), "log").plain()
    assert {entry["where"]["tool"] for entry in entries} == {"find_note", "drop_note", "new_tool"}  # type: ignore[union-attr, index, call-overload]
    assert {(entry["owner"], entry["reason"], entry["issue"]) for entry in entries} == {("jane", 'she said "yes":\n no', "N-1")}  # type: ignore[union-attr, index, call-overload]
    assert all(entry["accepted"] and len(entry["fingerprint"]) == 32 for entry in entries)  # type: ignore[union-attr, index, call-overload]


def test_an_update_accepts_nothing_that_was_not_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = captured(tmp_path, TOOLS)
    both = [{**NARROWED[0], "description": "Another."}, DROP]
    new = tools_file(tmp_path, "new.json", both)
    before = Path(old).read_text(encoding="utf-8")
    assert main(["inventory", "accept", old, new, "--finding", "text-changed", *WHO, "--update"]) == Exit.USAGE
    assert "would also accept enum-narrowed on find_note" in capsys.readouterr().err
    published = tmp_path / "published.json"
    assert main(["inventory", "export", "notes.yaml", "-o", str(published)]) == 0
    assert main(["inventory", "accept", str(published), new, "--all", *WHO, "--update"]) == Exit.USAGE
    assert Path(old).read_text(encoding="utf-8") == before
    assert not (tmp_path / "accepted").exists()


def test_a_reviewed_class_stays_when_the_record_is_renewed(tmp_path: Path) -> None:
    old = Path(captured(tmp_path, TOOLS))
    old.write_text(old.read_text(encoding="utf-8").replace('risk: "read"', 'risk: "write"'), encoding="utf-8")
    new = tools_file(tmp_path, "new.json", [{**FIND, "description": "Other."}, DROP])
    assert main(["inventory", "accept", str(old), new, "--tool", "find_note", *WHO, "--update"]) == 0
    found = read_inventory(old).get("find_note")
    assert found is not None
    assert found.risk == "write"
