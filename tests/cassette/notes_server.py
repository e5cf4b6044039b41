"""Keeps notes in its memory, asks back, and tells that its list changed; in both eras. As a program it speaks on standard input and output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import mcp_types as t
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

TEXT = {"type": "string"}
FORM: dict[str, Any] = {"type": "object", "properties": {"word": TEXT}}


class Notes:
    def __init__(self) -> None:
        self.notes: dict[str, str] = {}
        self.changed = False
        self.bus = InMemorySubscriptionBus()

    def server(self) -> Server[Any]:
        listen = ListenHandler(self.bus)
        return Server("notes on stdio", version="3", on_list_tools=self._list, on_call_tool=self._call, on_subscriptions_listen=listen)

    async def _list(self, ctx: Any, params: Any) -> t.ListToolsResult:
        tools = [
            t.Tool(name="add_note", input_schema={"type": "object", "properties": {"text": TEXT}, "required": ["text"]}),
            t.Tool(name="search_notes", input_schema={"type": "object", "properties": {"query": TEXT}, "required": ["query"]}),
            *(t.Tool(name=name, input_schema={"type": "object"}) for name in ("ask", "change", *(["fresh"] if self.changed else []))),
        ]
        return t.ListToolsResult(tools=tools, ttl_ms=0, cache_scope="private")

    async def _call(self, ctx: Any, params: Any) -> t.CallToolResult | t.InputRequiredResult:
        key, arguments = os.environ.get("NOTES_KEY", ""), params.arguments or {}
        sys.stderr.write(f"called {params.name} with {key}\n")
        sys.stderr.flush()
        if params.name == "add_note":
            number = f"note-{len(self.notes) + 1}"
            self.notes[number] = arguments["text"]
            return answer({"id": number, "kept_with": key})
        if params.name == "change":
            self.changed = True
            await self.bus.publish(ToolsListChanged())
            return answer({"changed": True})
        if params.name == "ask":
            if not params.input_responses:
                asks = t.ElicitRequest(params=t.ElicitRequestFormParams(message="Which word?", requested_schema=FORM))
                return t.InputRequiredResult(input_requests={"which": asks}, request_state="state-1")
            return answer({"word": params.input_responses["which"].content["word"], "state": params.request_state})
        await ctx.session.report_progress(1, 2, "half way")
        return answer({"results": [{"id": number, "text": text} for number, text in self.notes.items() if arguments["query"] in text]})


def answer(found: dict[str, Any]) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(type="text", text=json.dumps(found))], structured_content=found)


async def main() -> None:
    server = Notes().server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
