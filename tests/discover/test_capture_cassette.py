"""A cassette as a tool list: every page that was recorded, JSON or events, and `incomplete` for anything less."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cassette.format import BadCassette
from harness.cli.main import main
from harness.discover.cassette import capture_cassette, is_cassette
from harness.errors import Exit
from harness.inventory.side import capture_side

SCHEMA = {"type": "object", "properties": {"q": {"type": "string", "description": "What to find."}}, "required": ["q"]}
TOOLS = [{"name": name, "description": f"Does {name}.", "inputSchema": SCHEMA} for name in ("find", "keep", "drop")]


def exchange(request: Any, answer: Any, *, events: bool = False, status: int = 200) -> dict[str, Any]:
    """One interaction as vcr writes it."""
    body = json.dumps(answer)
    if events:
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
        body = f"event: message\r\ndata: {note}\r\n\r\nevent: message\r\ndata: {body}\r\n\r\n"
    kind = "text/event-stream" if events else "application/json"
    return {
        "request": {"method": "POST", "uri": "http://provider.invalid/mcp", "body": json.dumps(request), "headers": {}},
        "response": {"status": {"code": status, "message": "OK"}, "headers": {"content-type": [kind]}, "body": {"string": body}},
    }


def page(number: int, tools: list[Any], *, cursor: str | None = None, following: str | None = None, events: bool = False) -> dict[str, Any]:
    asked: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": "tools/list"}
    if cursor is not None:
        asked["params"] = {"cursor": cursor}
    result = {"tools": tools, **({"nextCursor": following} if following is not None else {})}
    return exchange(asked, {"jsonrpc": "2.0", "id": number, "result": result}, events=events)


GREETING = exchange(
    {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}},
    {
        "jsonrpc": "2.0",
        "id": 0,
        "result": {"protocolVersion": "2025-11-25", "serverInfo": {"name": "notes", "version": "3"}, "capabilities": {"tools": {}}},
    },
)


def cassette(*interactions: Any) -> str:
    return str(yaml.safe_dump({"interactions": list(interactions), "version": 1}))


@pytest.mark.parametrize("events", [False, True])
def test_all_pages_are_read_in_either_kind_of_body(events: bool) -> None:
    rest = exchange({"query": "no JSON-RPC at all"}, {"answer": 1})
    text = cassette(GREETING, rest, page(1, TOOLS[:2], following="p2", events=events), page(2, TOOLS[2:], cursor="p2", events=events))
    found = capture_cassette(text, "c.yaml").capture
    assert (found.complete, found.pages, [tool.name for tool in found.tools]) == (True, 2, ["find", "keep", "drop"])
    assert (found.server_name, found.server_version, found.protocol_version) == ("notes", "3", "2025-11-25")
    assert found.tools[0].wire == TOOLS[0]
    assert is_cassette(text)
    assert not is_cassette("inventory: notes\n")


def test_the_newest_whole_list_counts_and_a_torn_one_after_it_does_not() -> None:
    text = cassette(page(1, TOOLS[:1]), page(2, TOOLS[:2]), page(3, TOOLS[2:], following="lost"))
    found = capture_cassette(text, "c.yaml").capture
    assert (found.complete, [tool.name for tool in found.tools]) == (True, ["find", "keep"])


@pytest.mark.parametrize(
    ("interactions", "reason"),
    [
        ([GREETING], "no-list"),
        ([page(1, TOOLS, following="p2")], "dropped-page"),
        ([page(1, TOOLS, cursor="p2")], "dropped-page"),
        ([page(1, TOOLS[:1], following="a"), page(2, TOOLS[1:2], cursor="a", following="a")], "cursor-loop"),
        ([page(1, TOOLS[:1], following="a"), exchange({"id": 2, "method": "tools/list", "params": {"cursor": "a"}}, {}, status=500)], "no-answer"),
        ([exchange({"id": 1, "method": "tools/list"}, {"id": 9, "result": {"tools": TOOLS}})], "no-answer"),
        ([exchange({"id": 1, "method": "tools/list"}, {"id": 1, "error": {"code": -1, "message": "no"}})], "no-answer"),
    ],
)
def test_a_cassette_without_a_whole_list_is_incomplete_and_removes_nothing(interactions: list[Any], reason: str, tmp_path: Path) -> None:
    text = cassette(*interactions)
    found = capture_cassette(text, "c.yaml").capture
    assert not found.complete
    assert found.reason.startswith(reason)
    (tmp_path / "c.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "old.json").write_text(json.dumps({"tools": TOOLS}), encoding="utf-8")
    out = tmp_path / "out.json"
    assert main(["drift", str(tmp_path / "old.json"), str(tmp_path / "c.yaml"), "--format", "json", "-o", str(out)]) == Exit.INCOMPLETE
    said = json.loads(out.read_text(encoding="utf-8"))
    assert said["verdict"] == "incomplete"
    assert "tool-removed" not in {finding["id"] for finding in said["findings"]}


def test_a_cassette_is_a_side_like_any_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    narrowed = {**SCHEMA, "properties": {"q": {**SCHEMA["properties"]["q"], "maxLength": 3}}}  # type: ignore[dict-item]
    (tmp_path / "old.yaml").write_text(cassette(page(1, TOOLS)), encoding="utf-8")
    (tmp_path / "new.yaml").write_text(cassette(page(7, [{**TOOLS[0], "inputSchema": narrowed}, *TOOLS[1:]], events=True)), encoding="utf-8")
    assert main(["drift", str(tmp_path / "old.yaml"), str(tmp_path / "old.yaml")]) == 0
    assert main(["drift", str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml")]) == Exit.DRIFT
    assert "bound-tightened" in capsys.readouterr().out


def test_a_recording_whose_texts_are_hashes_agrees_with_the_text_itself() -> None:
    def digest(text: str) -> str:
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    schema = {**SCHEMA, "properties": {"q": {"type": "string", "description": digest("What to find.")}}}
    recorded = capture_cassette(cassette(page(1, [{"name": "find", "description": digest("Does find."), "inputSchema": schema}])), "c.yaml").capture
    live = capture_cassette(cassette(page(1, TOOLS[:1])), "l.yaml").capture
    (sealed,), (clear,) = capture_side(recorded, sealed_texts=True).views, capture_side(live).views
    assert sealed.prose == clear.prose
    assert sealed.schema_hash is None
    assert sealed.shape_hash == clear.shape_hash


def test_what_is_no_cassette_is_said_with_its_place() -> None:
    with pytest.raises(BadCassette):
        capture_cassette("interactions: {}\nversion: 1\n", "c.yaml")
    with pytest.raises(BadCassette):
        capture_cassette("interactions: [\n", "c.yaml")
