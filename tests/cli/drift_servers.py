"""Real SDK servers on loopback whose tool list a test chooses, over HTTP and over standard input and output."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as t
from mcp.server.lowlevel import Server

from harness.fake.kit import serve_app

FIND = {
    "name": "find_note",
    "description": "Find a note.",
    "inputSchema": {
        "type": "object",
        "properties": {"q": {"type": "string"}, "mode": {"type": "string", "enum": ["exact", "fuzzy"]}},
        "required": ["q"],
    },
}
DROP = {"name": "drop_note", "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}}
TOOLS = [FIND, DROP]
NARROWED = [
    {**FIND, "inputSchema": {**FIND["inputSchema"], "properties": {"q": {"type": "string"}, "mode": {"type": "string", "enum": ["exact"]}}}},  # type: ignore[dict-item]
    DROP,
]

STDIO = """
import asyncio, json, sys
import mcp_types as t
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def main():
    async def list_tools(ctx, params):
        return t.ListToolsResult(tools=[t.Tool.model_validate(w) for w in json.loads(sys.argv[1])], ttl_ms=0, cache_scope="private")
    server = Server("notes", version="1", on_list_tools=list_tools)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

asyncio.run(main())
"""


def app(tools: list[Any]) -> Any:
    """A server of the SDK that lists `tools`."""

    async def list_tools(_ctx: Any, _params: Any) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[t.Tool.model_validate(wire) for wire in tools], ttl_ms=0, cache_scope="private")

    server: Any = Server("notes", version="1", on_list_tools=list_tools)
    return server.streamable_http_app()


def against(served: Any, command: Callable[[str], int]) -> int:
    """Serve the application, and run a command against its MCP URL in a thread."""

    async def both() -> int:
        async with serve_app(served) as base:
            return await asyncio.to_thread(command, f"{base}/mcp")

    return asyncio.run(both())


def tools_file(folder: Path, name: str, tools: list[Any]) -> str:
    path = folder / name
    path.write_text(json.dumps({"tools": tools}, indent=1), encoding="utf-8")
    return str(path)


def stdio_command(folder: Path, tools: list[Any]) -> list[str]:
    script = folder / "server.py"
    script.write_text(STDIO, encoding="utf-8")
    return [sys.executable, str(script), json.dumps(tools)]
