"""A stand-in for Mem0's hosted MCP server: eleven tools over one in-memory store per API key.

Like the provider it answers most refusals as results that do not claim to be errors ({"error": …} with isError false);
only arguments that break the schema and unknown tools are error results. Searching and listing without a filter means
the default user, and so does deleting everything: a trap that is kept on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.fake.kit import Challenge, JsonObject, Settings
from harness.fake.kit_mcp import Call, ErrorStyle, Handler, McpProvider, Problem, Refusal, Reply, Tool, error_text
from harness.fake.kit_store import MIN_SCORE, Page, numbered_page, ranked, stamp
from harness.fake.mem0_store import DEFAULT_USER, SCOPES, BadFilter, Event, Mem0Store, Memory

_MAX_PAGE = 1000


def _masked(message: str) -> Reply:
    """An upstream refusal the way this server passes it on: as an ordinary result."""
    return Reply({"error": message, "status": None, "payload": None})


def _scope(args: JsonObject) -> dict[str, str]:
    return {key: args[key] for key in SCOPES if args.get(key)}


def _memory(call: Call[Mem0Store], args: JsonObject) -> Memory:
    found = call.store.memories.get(args["memory_id"])
    if found is None:
        raise Refusal(_masked("Memory not found!"))
    return found


def _filtered(call: Call[Mem0Store], args: JsonObject) -> list[Memory]:
    try:
        return call.store.matching(args["filters"])
    except BadFilter as problem:
        raise Refusal(_masked(f"Invalid filters: {problem}")) from problem


def _numbers(args: JsonObject, default_size: int) -> tuple[int, int]:
    number, size = args["page"], args["page_size"]
    number, size = 1 if number is None else number, default_size if size is None else size
    if number < 1 or not 1 <= size <= _MAX_PAGE:
        raise Refusal(_masked("Invalid page."))
    return number, size


def _listed(page: Page[JsonObject]) -> JsonObject:
    def link(number: int) -> str:
        return f"?page={number}&page_size={page.size}"

    return {
        "count": page.total,
        "next": link(page.number + 1) if page.has_next else None,
        "previous": link(page.number - 1) if page.number > 1 else None,
        "results": list(page.items),
    }


def _add_memory(call: Call[Mem0Store], args: JsonObject) -> Reply | JsonObject:
    texts = [message["content"] for message in args["messages"] or []] or [args["text"]]
    texts = [text for text in texts if text.strip()]
    if not texts:
        return Reply({"error": "text_missing", "detail": "There is nothing to remember."})
    scope = _scope(args) or {"user_id": DEFAULT_USER}
    if args["infer"] is False:
        added = [call.store.insert(text, scope, args["metadata"], call.now) for text in texts]
        call.store.record("ADD", call.now, added)
        return {"results": added}
    event = call.store.enqueue(texts, scope, args["metadata"], call.now, call.ready_at)
    return {"status": "PENDING", "event_id": event.id, "message": "Accepted; ask for the event's status."}


def _search_memories(call: Call[Mem0Store], args: JsonObject) -> JsonObject:
    top_k = 10 if args["top_k"] is None else args["top_k"]
    if top_k < 1:
        raise Refusal(_masked("top_k must be at least 1"))
    least = MIN_SCORE if args["threshold"] is None else args["threshold"]
    candidates = _filtered(call, args)
    if args["rerank"]:  # all it changes here: among equals the newest comes first
        candidates = sorted(candidates, key=lambda memory: memory.updated_at, reverse=True)
    hits = ranked(args["query"], candidates, lambda memory: memory.text, least=least)[:top_k]
    return {"results": [memory.shown() | {"score": round(score, 4)} for score, memory in hits]}


def _get_memories(call: Call[Mem0Store], args: JsonObject) -> JsonObject:
    number, size = _numbers(args, 100)
    return _listed(numbered_page([memory.shown() for memory in _filtered(call, args)], number, size))


def _get_memory(call: Call[Mem0Store], args: JsonObject) -> JsonObject:
    return _memory(call, args).shown()


def _update_memory(call: Call[Mem0Store], args: JsonObject) -> Reply | JsonObject:
    memory = _memory(call, args)
    if not (args["text"] or "").strip() and args["metadata"] is None:
        return Reply({"error": "text_missing", "detail": "Give a new text, new metadata, or both."})
    if (args["text"] or "").strip():
        memory.text = args["text"]
    if args["metadata"] is not None:
        memory.metadata = args["metadata"]
    memory.updated_at = call.now
    call.store.record("UPDATE", call.now, [{"id": memory.id, "memory": memory.text, "event": "UPDATE"}])
    return memory.shown()


def _delete_memory(call: Call[Mem0Store], args: JsonObject) -> JsonObject:
    call.store.remove([_memory(call, args)], call.now)
    return {"message": "The memory is deleted."}


def _delete_all_memories(call: Call[Mem0Store], args: JsonObject) -> JsonObject:
    scope = _scope(args) or {"user_id": DEFAULT_USER}
    return {"message": "The memories are deleted.", "deleted": call.store.remove(call.store.matching({**scope}), call.now)}


def _list_entities(call: Call[Mem0Store], _args: JsonObject) -> JsonObject:
    memories = call.store.memories.values()
    results = [
        {
            "type": key.removesuffix("_id"),
            "name": name,
            "total_memories": sum(memory.scope.get(key) == name for memory in memories),
            "created_at": stamp(created_at),
        }
        for (key, name), created_at in call.store.entities.items()
    ]
    return {"count": len(results), "results": results}


def _delete_entities(call: Call[Mem0Store], args: JsonObject) -> Reply | JsonObject:
    scope = _scope(args)
    if not scope:
        return Reply({"error": "scope_missing", "detail": "Name a user, an agent, an app or a run."})
    if any(pair not in call.store.entities for pair in scope.items()):
        return _masked("Entity not found!")
    held = [m for m in call.store.memories.values() if any(m.scope.get(key) == name for key, name in scope.items())]
    deleted = call.store.remove(held, call.now)
    for pair in scope.items():
        del call.store.entities[pair]
    return {"message": "The entities and their memories are deleted.", "deleted": deleted}


def _list_events(call: Call[Mem0Store], args: JsonObject) -> JsonObject:
    number, size = _numbers(args, 50)
    wanted = args["event_type"]
    newest_first: list[Event] = list(reversed(call.store.events.values()))
    return _listed(numbered_page([event.shown() for event in newest_first if wanted in (None, event.kind)], number, size))


def _get_event_status(call: Call[Mem0Store], args: JsonObject) -> Reply | JsonObject:
    event = call.store.events.get(args["event_id"])
    return _masked("Event not found!") if event is None else event.shown()


def _settled(handler: Handler[Mem0Store]) -> Handler[Mem0Store]:
    """Every tool sees the store as of now."""

    def settled(call: Call[Mem0Store], args: JsonObject) -> Reply | JsonObject:
        call.store.settle(call.now)
        return handler(call, args)

    return settled


def _or_null(kind: str, **more: object) -> JsonObject:
    return {"anyOf": [{"type": kind, **more}, {"type": "null"}], "default": None}


def _takes(*required: str, **properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties} | ({"required": list(required)} if required else {})


_TEXT: JsonObject = {"type": "string"}
_OPEN = _or_null("object", additionalProperties=True)
_PAGED = {"page": _or_null("integer"), "page_size": _or_null("integer")}
_SCOPED = {key: _or_null("string") for key in SCOPES}
_MESSAGE = {"type": "object", "properties": {"role": _TEXT, "content": _TEXT}, "required": ["role", "content"]}
_READ = {"readOnlyHint": True}
_WRITE = {"readOnlyHint": False, "destructiveHint": False}
_DESTROY = {"readOnlyHint": False, "destructiveHint": True}


def _tool(name: str, description: str, schema: JsonObject, handler: Handler[Mem0Store], hints: dict[str, bool]) -> Tool[Mem0Store]:
    return Tool(name, description, schema, _settled(handler), hints)


_TOOLS = (
    _tool(
        "add_memory",
        "Remember a text or a conversation. With infer=false it is kept word for word at once; otherwise facts are drawn from it later.",
        _takes(
            "text",
            text=_TEXT,
            messages=_or_null("array", items=_MESSAGE),
            **_SCOPED,
            metadata=_OPEN,
            infer=_or_null("boolean") | {"default": True},
        ),
        _add_memory,
        _WRITE,
    ),
    _tool(
        "search_memories",
        "Find memories by meaning, within a filter.",
        _takes("query", query=_TEXT, filters=_OPEN, top_k=_or_null("integer"), threshold=_or_null("number"), rerank=_or_null("boolean")),
        _search_memories,
        _READ,
    ),
    _tool("get_memories", "List the memories that a filter lets through, page by page.", _takes(filters=_OPEN, **_PAGED), _get_memories, _READ),
    _tool("get_memory", "Read one memory by its id.", _takes("memory_id", memory_id=_TEXT), _get_memory, _READ),
    _tool(
        "update_memory",
        "Replace a memory's text, its metadata, or both.",
        _takes("memory_id", memory_id=_TEXT, text=_or_null("string"), metadata=_OPEN),
        _update_memory,
        _WRITE,
    ),
    _tool("delete_memory", "Delete one memory for good.", _takes("memory_id", memory_id=_TEXT), _delete_memory, _DESTROY),
    _tool("delete_all_memories", "Delete every memory of the given scope.", _takes(**_SCOPED), _delete_all_memories, _DESTROY),
    _tool("list_entities", "List the users, agents, apps and runs that memories were stored for.", _takes(), _list_entities, _READ),
    _tool("delete_entities", "Delete users, agents, apps or runs together with their memories.", _takes(**_SCOPED), _delete_entities, _DESTROY),
    _tool(
        "list_events",
        "List what was asked of the memory, newest first.",
        _takes(event_type=_or_null("string"), **_PAGED),
        _list_events,
        _READ,
    ),
    _tool(
        "get_event_status",
        "Tell whether an accepted request is done, and with what result.",
        _takes("event_id", event_id=_TEXT),
        _get_event_status,
        _READ,
    ),
)


def _bad_arguments(tool: str, problems: Sequence[Problem]) -> Reply:
    lines = [f"{p.at.lstrip('/').replace('/', '.') or 'arguments'}\n  {p.message} [{p.rule}]" for p in problems]
    count = f"{len(problems)} validation error{'s' if len(problems) > 1 else ''}"
    return error_text("\n".join([f"Error executing tool {tool}: {count} for {tool}Arguments", *lines]))


FAKE: McpProvider[Mem0Store] = McpProvider(
    id="mem0",
    server_name="mem0",
    version="stand-in",
    path="/mcp/",
    instructions="A stand-in for Mem0. Scope every call with user_id, agent_id, app_id or run_id.",
    tools=_TOOLS,
    new_store=Mem0Store,
    challenge=Challenge("mem0", {"error": "invalid_request", "error_description": "no API key"}, {"error": "invalid_token"}),
    errors=ErrorStyle(
        bad_arguments=_bad_arguments,
        unknown_tool=lambda name: error_text(f"Unknown tool: {name}"),
        internal=lambda tool, message: error_text(f"Error executing tool {tool}: {message}"),
    ),
    settings=Settings(index_delay_s=2.0),
    assumed_shapes=frozenset({"add_memory", "search_memories", "update_memory", "list_events", "get_event_status"}),
    page_size=4,
)
