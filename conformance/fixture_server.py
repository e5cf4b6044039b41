"""A small MCP server that offers what the official server requirement sets ask for, on loopback, built with the SDK.

`python -m conformance.fixture_server` prints `{"url"}` when it is ready and ends when its standard input does. Its tools are in
fixture_tools.py; here are its resources, prompts and completions.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
from collections.abc import Mapping
from typing import Any, cast

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError

from conformance.fixture_tools import PIXEL, Context, answered, bus, call_tool, embedded, list_tools, needs, one, question

RESOURCES: Mapping[str, tuple[str, str]] = {
    "test://static-text": ("text/plain", "This is the content of the static text resource."),
    "test://static-binary": ("image/png", PIXEL),
    "test://watched-resource": ("text/plain", "Watched resource content"),
}
TEMPLATE = "test://template/{id}/data"
PROMPTS: Mapping[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def list_resources(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    resources = [types.Resource(uri=uri, name=uri.rpartition("/")[2], mime_type=kind) for uri, (kind, _) in RESOURCES.items()]
    return types.ListResourcesResult(resources=resources, ttl_ms=1000, cache_scope="private")


async def list_templates(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template=TEMPLATE, name="template", mime_type="application/json")
    return types.ListResourceTemplatesResult(resource_templates=[template], ttl_ms=1000, cache_scope="private")


async def read(ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = str(params.uri)
    content: Any
    if filled := re.fullmatch(r"test://template/([^/]+)/data", uri):
        data = {"id": filled[1], "templateTest": True, "data": f"Data for ID: {filled[1]}"}
        content = types.TextResourceContents(uri=uri, mime_type="application/json", text=json.dumps(data))
    elif uri not in RESOURCES:
        missing = types.INVALID_PARAMS if ctx.protocol_version == "2026-07-28" else -32002
        raise MCPError(missing, "Resource not found", {"uri": uri})
    elif RESOURCES[uri][0] == "image/png":
        content = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=RESOURCES[uri][1])
    else:
        content = types.TextResourceContents(uri=uri, mime_type=RESOURCES[uri][0], text=RESOURCES[uri][1])
    return types.ReadResourceResult(contents=[content], ttl_ms=1000, cache_scope="private")


async def list_prompts(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    prompts = [
        types.Prompt(name=name, description=name, arguments=[types.PromptArgument(name=each, required=True) for each in arguments])
        for name, arguments in PROMPTS.items()
    ]
    return types.ListPromptsResult(prompts=prompts, ttl_ms=1000, cache_scope="private")


async def get_prompt(ctx: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    content: list[Any]
    match params.name:
        case "test_simple_prompt":
            content = [types.TextContent(type="text", text="This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            text = f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"
            content = [types.TextContent(type="text", text=text)]
        case "test_prompt_with_embedded_resource":
            inside = embedded(str(given.get("resourceUri")), "text/plain", "Embedded resource content for testing.")
            content = [inside, types.TextContent(type="text", text="Please process the embedded resource above.")]
        case "test_prompt_with_image":
            image = types.ImageContent(type="image", data=PIXEL, mime_type="image/png")
            content = [image, types.TextContent(type="text", text="Please analyze the image above.")]
        case "test_input_required_result_prompt":
            if "user_context" not in answered(cast(Any, params)):
                return needs({"user_context": question("What context should the prompt use?", one("context"))})
            content = [types.TextContent(type="text", text="Use the context that was given.")]
        case _:
            raise MCPError(types.INVALID_PARAMS, "there is no such prompt")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=each) for each in content])


async def complete(ctx: Context, params: types.CompleteRequestParams) -> types.CompleteResult:
    options = ["paris", "park", "party"] if params.argument.value in ("", "par") else []
    return types.CompleteResult(completion=types.Completion(values=options, total=len(options), has_more=False))


async def accept(ctx: Context, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


def server() -> Server[Any]:
    made: Server[Any] = Server(
        "conformance-fixture",
        version="1.0.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_set_logging_level=accept,
        on_subscribe_resource=accept,
        on_unsubscribe_resource=accept,
        on_subscriptions_listen=ListenHandler(bus),
    )
    return made


async def main() -> None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(server().streamable_http_app(), http="h11", ws="none", log_level="error", timeout_graceful_shutdown=1)
    serving = uvicorn.Server(config)
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(0, lambda: None if os.read(0, 65536) else gone.set())
    running = asyncio.ensure_future(serving.serve(sockets=[listener]))
    while not serving.started and not running.done():
        await asyncio.sleep(0.01)
    sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"}) + "\n")
    sys.stdout.flush()
    await gone.wait()
    loop.remove_reader(0)
    serving.should_exit = True
    await running


if __name__ == "__main__":
    asyncio.run(main())
