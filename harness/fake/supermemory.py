"""A stand-in for Supermemory's hosted MCP server: sixteen tools over one in-memory store per sign-in.

What a sign-in may do is a property of its consent: the container tags it opens, and whether it may write. Outside it the
provider answers 403 as an error result. A saved text is a document that is queued first; only once it is done does it
stand behind a memory that searches find. Some annotations claim less than the tools do, as they do at the provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp.shared.exceptions import MCPError

from harness.fake import supermemory_schema as schema
from harness.fake.kit import Challenge, JsonObject, Settings
from harness.fake.kit_mcp import INVALID_PARAMS, Call, ErrorStyle, Handler, McpProvider, Problem, Refusal, Reply, Tool, error_text
from harness.fake.kit_store import Page, numbered_page, ranked, stamp
from harness.fake.supermemory_store import Document, SupermemoryStore
from harness.fake.supermemory_upload import PREFIX, uploads

_RECENT = 5

SmCall = Call[SupermemoryStore]


def _refused(status: int, message: str) -> Refusal:
    return Refusal(error_text(f"Error: {status} {message}"))


def _may_see(call: SmCall, tag: str) -> None:
    tags = call.account.consent.tags
    if tags is not None and tag not in tags:
        raise _refused(403, f"Forbidden: this connection's consent does not include the container tag {tag!r}")


def _may_write(call: SmCall) -> None:
    if call.account.consent.access == "read":
        raise _refused(403, "Forbidden: this connection's consent is read-only")


def _tags(call: SmCall, args: JsonObject) -> list[str]:
    """The tags a question is about: the one it names, or all that the consent opens."""
    if "containerTag" not in args:
        return call.store.tags(call.account.consent)
    _may_see(call, args["containerTag"])
    return [args["containerTag"]]


def _tag(call: SmCall, args: JsonObject) -> str:
    """The tag something is put into."""
    tag = args.get("containerTag", call.store.working_tag(call.account.consent))
    if tag is None:
        raise _refused(403, "Forbidden: this connection's consent includes no container tag")
    _may_see(call, tag)
    return str(tag)


def _view(call: SmCall, args: JsonObject) -> None:
    if "viewId" in args and args["viewId"] not in call.store.views:
        raise _refused(400, "This view is not open")


def _pagination(page: Page[Any]) -> JsonObject:
    return {"currentPage": page.number, "limit": page.size, "totalItems": page.total, "totalPages": page.pages}


def _save(call: SmCall, args: JsonObject) -> JsonObject:
    _may_write(call)
    tag = _tag(call, args)
    if not args["content"].strip():
        raise _refused(400, "There is no content to save")
    document = call.store.save(args["content"], tag, call.now, call.ready_at)
    return {"id": document.id, "status": "done" if document.done(call.now) else "queued", "containerTag": tag}


def _forget(call: SmCall, args: JsonObject) -> JsonObject:
    _may_write(call)
    document = call.store.forget(args["content"], _tags(call, args), call.now)
    if document is None:
        raise _refused(404, "No memory says exactly that")
    return {"id": document.memory_id, "documentId": document.id, "forgotten": True, "containerTag": document.tag}


def _add_memory(call: SmCall, args: JsonObject) -> JsonObject:
    return _save(call, args) if args["action"] == "save" else _forget(call, args)


def _save_memory(call: SmCall, args: JsonObject) -> JsonObject:
    _view(call, args)
    return _save(call, args)


def _search_memory(call: SmCall, args: JsonObject) -> JsonObject:
    hits = ranked(args["query"], call.store.memories(_tags(call, args), call.now), lambda document: document.content)
    return {"results": [document.memory() | {"similarity": round(score, 4)} for score, document in hits], "total": len(hits)}


def _get_document(call: SmCall, args: JsonObject) -> JsonObject:
    document = call.store.documents.get(args["documentId"])
    if document is None:
        raise _refused(404, "Document not found")
    _may_see(call, document.tag)
    return document.summary(call.now) | {"content": document.content}


def _list_documents(call: SmCall, args: JsonObject) -> JsonObject:
    page = numbered_page(call.store.within(_tags(call, args)), args["page"], args["limit"])
    return {"documents": [document.summary(call.now) for document in page.items], "pagination": _pagination(page)}


def _list_memories(call: SmCall, args: JsonObject) -> JsonObject:
    page = numbered_page(call.store.memories(_tags(call, args), call.now), args["page"], args["limit"])
    return {"memories": [document.memory() for document in page.items], "pagination": _pagination(page)}


def _get_profile(call: SmCall, args: JsonObject) -> JsonObject:
    """What lasts, and what is recent: the newest few memories are the recent ones."""
    texts = [document.content for document in call.store.memories(_tags(call, args), call.now)]
    return {"containerTag": args.get("containerTag"), "profile": {"static": texts[_RECENT:], "dynamic": texts[:_RECENT]}}


def _spaces(call: SmCall) -> list[JsonObject]:
    def space(tag: str) -> JsonObject:
        return {
            "containerTag": tag,
            "documentCount": len(call.store.within([tag])),
            "memoryCount": len(call.store.memories([tag], call.now)),
            "active": tag == call.store.working_tag(call.account.consent),
        }

    return [space(tag) for tag in call.store.tags(call.account.consent)]


def _list_spaces(call: SmCall, _args: JsonObject) -> JsonObject:
    return {"spaces": _spaces(call)}


def _who_am_i(call: SmCall, _args: JsonObject) -> JsonObject:
    consent = call.account.consent
    tags = None if consent.tags is None else list(consent.tags)
    return {
        "userId": call.store.user_id,
        "name": call.account.name,
        "scope": {"type": "full" if tags is None else "scoped", "containerTags": tags},
        "permission": "read" if consent.access == "read" else "write",
        "activeTag": call.store.working_tag(consent),
    }


def _select_space(call: SmCall, _args: JsonObject) -> JsonObject:
    return {"viewId": call.store.open_view(), "spaces": _spaces(call)}


def _set_active_tag(call: SmCall, args: JsonObject) -> JsonObject:
    _view(call, args)
    _may_see(call, args["containerTag"])
    call.store.active_tag = args["containerTag"]
    return {"activeTag": args["containerTag"]}


def _guided_save(call: SmCall, args: JsonObject) -> JsonObject:
    return {"viewId": call.store.open_view(), "prefill": args.get("prefill", ""), "spaces": _spaces(call)}


def _upload_file(call: SmCall, _args: JsonObject) -> JsonObject:
    return {"viewId": call.store.open_view(), "accepts": ["text/plain", "text/markdown"], "spaces": _spaces(call)}


def _prepare_file_upload(call: SmCall, args: JsonObject) -> JsonObject:
    _may_write(call)
    upload = call.store.open_upload(_tag(call, args), call.now)
    return {
        "uploadId": upload.id,
        "method": "PUT",
        "path": PREFIX + upload.id,
        "containerTag": upload.tag,
        "expiresAt": stamp(upload.expires_at),
    }


def _memory_graph(call: SmCall, args: JsonObject) -> JsonObject:
    tags = _tags(call, args)
    counts = {"documentCount": len(call.store.within(tags)), "memoryCount": len(call.store.memories(tags, call.now))}
    return {"viewId": call.store.open_view(), "containerTag": args.get("containerTag"), **counts}


def _fetch_graph_data(call: SmCall, args: JsonObject) -> JsonObject:
    page = numbered_page(call.store.within(_tags(call, args)), args["page"], args["limit"])

    def drawn(document: Document) -> JsonObject:
        remembered = document.done(call.now) and not document.forgotten
        return document.summary(call.now) | {"memories": [document.memory()] if remembered else []}

    return {"documents": [drawn(document) for document in page.items], "pagination": _pagination(page)}


_READ = {"readOnlyHint": True}
_WRITE = {"readOnlyHint": False, "destructiveHint": False}
_DESTROY = {"readOnlyHint": False, "destructiveHint": True}
_WIDGET_ONLY: JsonObject = {"ui": {"visibility": ["app"]}}


def _tool(
    name: str,
    description: str,
    takes: JsonObject,
    handler: Handler[SupermemoryStore],
    hints: dict[str, bool],
    meta: JsonObject | None = None,
) -> Tool[SupermemoryStore]:
    return Tool(name, description, takes, handler, hints, output_schema={"type": "object"}, meta=meta)


_TOOLS = (
    _tool("add_memory", "Save a text, or forget the memory that says exactly that.", schema.ADD, _add_memory, _DESTROY),
    _tool("search_memory", "Find memories by meaning.", schema.SEARCH, _search_memory, _READ),
    _tool("get_document", "Read one document in full.", schema.DOCUMENT, _get_document, _READ),
    _tool("list_documents", "List documents with their state, newest first.", schema.LISTING, _list_documents, _READ),
    _tool("list_memories", "List memories, newest first.", schema.LISTING, _list_memories, _READ),
    _tool("get_profile", "Tell what is known about the user.", schema.TAG, _get_profile, _READ),
    _tool("list_spaces", "List the spaces this connection opens.", schema.NOTHING, _list_spaces, _READ),
    _tool("who_am_i", "Tell who is signed in, for which tags, and whether writing is allowed.", schema.NOTHING, _who_am_i, _READ),
    _tool("select-space", "Open a picker for the space to work in.", schema.NOTHING, _select_space, _READ),
    _tool("set-active-tag", "Work in this container tag from now on.", schema.ACTIVE_TAG, _set_active_tag, _WRITE),
    _tool("guided-save", "Open a form to save something, filled in beforehand if wanted.", schema.PREFILL, _guided_save, _READ),
    _tool("save-memory", "Save what the form holds.", schema.WIDGET_SAVE, _save_memory, _WRITE, _WIDGET_ONLY),
    _tool("upload-file", "Open a picker for a file to upload.", schema.NOTHING, _upload_file, _READ),
    _tool("prepare-file-upload", "Get a place to put one file.", schema.NOTHING, _prepare_file_upload, _WRITE),
    _tool("memory-graph", "Open a picture of the memories.", schema.TAG, _memory_graph, _READ),
    _tool("fetch-graph-data", "Fetch what the picture shows.", schema.GRAPH_DATA, _fetch_graph_data, _READ, _WIDGET_ONLY),
)


def _bad_arguments(tool: str, problems: Sequence[Problem]) -> Reply:
    listed = "; ".join(f"{p.message} at {p.at or '/'}" for p in problems)
    return error_text(f"MCP error {INVALID_PARAMS}: invalid arguments for {tool}: {listed}")


def _unknown_tool(name: str) -> Reply:
    raise MCPError(INVALID_PARAMS, f"Tool {name} not found")


FAKE: McpProvider[SupermemoryStore] = McpProvider(
    id="supermemory",
    server_name="supermemory",
    version="stand-in",
    path="/mcp",
    instructions="A stand-in for Supermemory. What was just saved is queued; it can be recalled once its document is done.",
    tools=_TOOLS,
    new_store=SupermemoryStore,
    challenge=Challenge(
        "supermemory",
        {"error": "Unauthorized"},
        {"error": "Unauthorized"},
        scopes=("openid", "profile", "email", "offline_access"),
        issuer_path="/api/auth",
    ),
    errors=ErrorStyle(bad_arguments=_bad_arguments, unknown_tool=_unknown_tool, internal=lambda _tool, message: error_text(f"Error: {message}")),
    settings=Settings(index_delay_s=5.0),
    page_size=6,
    beside=uploads,
)
