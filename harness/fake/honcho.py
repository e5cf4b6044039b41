"""Stand-in for Honcho's MCP server: forty tools over workspaces, peers, sessions, messages, conclusions and scopes.

Messages are stored and found at once. What is derived from them later waits in the queue, for ever unless the account
is configured with an `index_delay_s`: the deriver is a service of its own, and a Honcho without one is a common state.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.fake import honcho_call, honcho_knowledge, honcho_places, honcho_schema, honcho_scopes, honcho_sessions
from harness.fake.honcho_store import Memory, Refused
from harness.fake.kit import Account, Challenge, JsonObject, Settings
from harness.fake.kit_mcp import Call, ErrorStyle, McpProvider, Problem, Reply, Tool, error_text
from harness.fake.kit_store import Ids


@dataclass(frozen=True, slots=True)
class HonchoSettings(Settings):
    """index_delay_s  from queueing background work to its being done
    workspace_id   the workspace of calls that name none, as if the connection sent X-Honcho-Workspace-ID
    """

    index_delay_s: float = math.inf
    workspace_id: str | None = None


_HANDLERS: Final[dict[str, honcho_call.Handler]] = {
    **honcho_places.HANDLERS,
    **honcho_sessions.HANDLERS,
    **honcho_knowledge.HANDLERS,
    **honcho_scopes.HANDLERS,
}


def _answer(call: Call[Memory], arguments: JsonObject) -> Reply:
    """Opens the workspace that the call names, which makes it if it is new, and runs the tool."""
    try:
        named = None if call.tool == "list_workspaces" else arguments.get("workspace_id", call.settings.workspace_id)
        opened = None if named is None else call.store.workspace(named, call.now)
        seen = honcho_call.Call(call.store, arguments, call.now, call.settings.index_delay_s, opened)
        result = _HANDLERS[call.tool](seen)
    except Refused as refusal:
        return error_text(str(refusal))
    return Reply(text=result if isinstance(result, str) else json.dumps(result, ensure_ascii=False))


def _bad_arguments(tool: str, problems: Sequence[Problem]) -> Reply:
    listed = "; ".join(f"{one.at.lstrip('/').replace('/', '.') or '(root)'}: {one.message}" for one in problems)
    return error_text(f"MCP error -32602: Arguments of {tool} do not fit its schema: {listed}")


def _new_store(account: Account) -> Memory:
    return Memory(Ids("honcho", account.credential))


FAKE: Final = McpProvider(
    id="honcho",
    server_name="honcho",
    version="1.0.0",
    path="/mcp",
    instructions="Memory of conversations: make a workspace, peers and a session, add messages, and ask about them later.",
    tools=tuple(Tool(name, description, schema, _answer) for name, (description, schema) in honcho_schema.TOOLS.items()),
    new_store=_new_store,
    challenge=Challenge("honcho", {"error": "missing bearer token"}, {"error": "invalid bearer token"}, scopes=()),
    errors=ErrorStyle(
        bad_arguments=_bad_arguments,
        unknown_tool=lambda name: error_text(f"MCP error -32602: Tool {name} not found"),
        internal=lambda _tool, message: error_text(message),
    ),
    settings=HonchoSettings(),
    assumed_shapes=honcho_schema.ASSUMED_SHAPES,
    page_size=25,
)
