"""`harness drift` and `harness discover`, over real loopback servers and files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from harness.cli.headers import headers_from
from harness.cli.main import main
from harness.errors import CredentialsMissing, Exit, UsageError
from harness.fake.kit import serve_app

TOOLS = [
    {"name": "find_note", "description": "x", "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}},
    {"name": "drop_note", "description": "y", "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}}},
]


def server(*, secret: str = "", pages: tuple[tuple[int, int, str | None], ...] = ((0, 2, None),)) -> Starlette:
    """A small MCP server of the handshake era; `pages`: slice of the tools and the next cursor, in order of being asked."""
    asked = {"pages": 0}

    async def answer(request: Request) -> Response:
        if secret and request.headers.get("authorization") != secret:
            return Response(status_code=401, headers={"WWW-Authenticate": "Bearer"})
        body = await request.json()
        if "id" not in body:
            return Response(status_code=202)
        if body["method"] == "initialize":
            about = {"name": "notes", "version": "1"}
            result: dict[str, object] = {"protocolVersion": body["params"]["protocolVersion"], "capabilities": {}, "serverInfo": about}
        elif body["method"] == "tools/list":
            start, end, cursor = pages[min(asked["pages"], len(pages) - 1)]
            asked["pages"] += 1
            result = {"tools": TOOLS[start:end], **({"nextCursor": cursor} if cursor is not None else {})}
        else:
            return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32601, "message": "no such method"}})
        return JSONResponse({"jsonrpc": "2.0", "id": body["id"], "result": result})

    return Starlette(routes=[Route("/mcp", answer, methods=["POST"])])


def against(app: Starlette, command: Callable[[str], int]) -> int:
    """Serve the app, and run a command against its URL in a thread."""

    async def both() -> int:
        async with serve_app(app) as base:
            return await asyncio.to_thread(command, f"{base}/mcp")

    return asyncio.run(both())


def tools_file(folder: Path, name: str, tools: list[dict[str, object]]) -> str:
    path = folder / name
    path.write_text(json.dumps({"tools": tools}), encoding="utf-8")
    return str(path)


def test_discover_lists_every_page(capsys: pytest.CaptureFixture[str]) -> None:
    app = server(pages=((0, 1, ""), (1, 2, None)))
    assert against(app, lambda url: main(["discover", url])) == 0
    table = capsys.readouterr().out
    assert "find_note" in table
    assert "drop_note  destructive" in table
    assert "2 tools on 2 pages of notes 1" in table


def test_a_short_list_is_incomplete_also_when_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = server(pages=((0, 1, "again"), (1, 2, "again")))
    assert against(app, lambda url: main(["discover", url, "--json"])) == Exit.INCOMPLETE
    text = capsys.readouterr().out
    (tmp_path / "short.json").write_text(text, encoding="utf-8")
    assert json.loads(text)["complete"] is False
    whole = tools_file(tmp_path, "whole.json", TOOLS)
    assert main(["drift", whole, str(tmp_path / "short.json")]) == Exit.INCOMPLETE
    assert "INCOMPLETE" in capsys.readouterr().out


def test_credentials_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("NOTES_AUTHORIZATION", "Bearer notes-secret-1")
    header = ["--header-env", "Authorization=NOTES_AUTHORIZATION"]
    assert against(server(secret="Bearer notes-secret-1"), lambda url: main(["discover", url, *header])) == 0
    assert against(server(secret="Bearer another"), lambda url: main(["discover", url, *header])) == Exit.CREDENTIALS
    assert "notes-secret-1" not in "".join(capsys.readouterr())


def test_headers_from_the_environment() -> None:
    assert headers_from(["X-Key=K", "Y=K"], {"K": "v=1"}) == {"X-Key": "v=1", "Y": "v=1"}
    with pytest.raises(CredentialsMissing, match="K is not set"):
        headers_from(["X=K"], {"K": ""})
    for bad in ("X", "=K", "X="):
        with pytest.raises(UsageError, match="NAME=VARIABLE"):
            headers_from([bad], {"K": "v"})


def test_discover_what_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert against(Starlette(), lambda url: main(["discover", url])) in (Exit.UNREACHABLE, Exit.USAGE)
    assert main(["discover", str(tmp_path / "missing.json")]) == Exit.USAGE
    assert main(["discover", "one", "two"]) == Exit.USAGE
    assert "Traceback" not in capsys.readouterr().err


def test_drift_of_a_list_with_itself_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = tools_file(tmp_path, "same.json", TOOLS)
    assert against(server(), lambda url: main(["drift", same, url])) == 0
    assert "same: 0 findings" in capsys.readouterr().out
    assert main(["drift", "mem0", "mem0"]) == 0


def test_drift_above_the_threshold_is_6(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = tools_file(tmp_path, "old.json", TOOLS)
    changed = json.loads(json.dumps(TOOLS))
    changed[0]["inputSchema"]["required"] = ["q", "scope"]
    changed[0]["inputSchema"]["properties"]["scope"] = {"type": "string"}
    assert main(["drift", old, tools_file(tmp_path, "new.json", changed), "--json"]) == Exit.DRIFT
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "drift/v1"
    assert data["exit_code"] == 6
    assert data["failing"] >= 1
    assert {finding["tool"] for finding in data["findings"]} == {"find_note"}


def test_the_threshold_is_the_users(tmp_path: Path) -> None:
    old = tools_file(tmp_path, "old.json", TOOLS)
    changed = json.loads(json.dumps(TOOLS))
    changed[0]["description"] = "another text"
    new = tools_file(tmp_path, "new.json", changed)
    assert main(["drift", old, new]) == 0
    assert main(["drift", old, new, "--fail-on", "text"]) == Exit.DRIFT
    assert main(["drift", old, new, "--fail-on", "txt"]) == Exit.USAGE


def test_others_words_do_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nasty = [{"name": "find\x1b[2J\u202e", "inputSchema": {"type": "object", "properties": {"\x07": {}}}}]
    main(["discover", tools_file(tmp_path, "nasty.json", nasty)])
    main(["drift", tools_file(tmp_path, "old.json", TOOLS), tools_file(tmp_path, "nasty.json", nasty)])
    said = "".join(capsys.readouterr())
    assert not set("\x1b\x07\u202e") & set(said)
    assert "find\\x1b[2J\\u202e" in said
