"""Tools of the fixture server: what the official server requirement sets call, by the suite's own names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

Json = dict[str, Any]
Context = ServerRequestContext[Any, Any]
Result = types.CallToolResult | types.InputRequiredResult
Tool = Callable[[Context, types.CallToolRequestParams], Awaitable[Result]]

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
NOBODY = -32021
"""MISSING_REQUIRED_CLIENT_CAPABILITY."""

bus = InMemorySubscriptionBus()


# content


def said(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def embedded(uri: str, kind: str, text: str) -> types.EmbeddedResource:
    return types.EmbeddedResource(type="resource", resource=types.TextResourceContents(uri=uri, mime_type=kind, text=text))


IMAGE = types.ImageContent(type="image", data=PIXEL, mime_type="image/png")
AUDIO = types.AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")
PLAIN: Mapping[str, list[Any]] = {
    "test_simple_text": [types.TextContent(type="text", text="This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [AUDIO],
    "test_embedded_resource": [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        types.TextContent(type="text", text="Multiple content types test:"),
        IMAGE,
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
}


# what tools do besides answering


async def failing(ctx: Context, params: types.CallToolRequestParams) -> Result:
    content = [types.TextContent(type="text", text="This tool intentionally returns an error for testing")]
    return types.CallToolResult(content=cast(Any, content), is_error=True)


async def logging(ctx: Context, params: types.CallToolRequestParams) -> Result:
    wanted = ctx.protocol_version != "2026-07-28" or types.LOG_LEVEL_META_KEY in ((ctx.params or {}).get("_meta") or {})
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        note = types.LoggingMessageNotification(params=types.LoggingMessageNotificationParams(level="info", data=text))
        if wanted:
            await ctx.session.send_notification(note, ctx.request_id)
        await asyncio.sleep(0.02)
    return said("done")


async def progressing(ctx: Context, params: types.CallToolRequestParams) -> Result:
    for done in (0, 50, 100):
        await ctx.session.report_progress(done, 100, f"{done} of 100")
        await asyncio.sleep(0.02)
    return said("done")


async def tools_changed(ctx: Context, params: types.CallToolRequestParams) -> Result:
    await bus.publish(ToolsListChanged())
    return said("announced")


async def prompts_changed(ctx: Context, params: types.CallToolRequestParams) -> Result:
    await bus.publish(PromptsListChanged())
    return said("announced")


async def needs_sampling(ctx: Context, params: types.CallToolRequestParams) -> Result:
    able = ctx.session.client_capabilities
    if able is None or able.sampling is None:
        raise MCPError(NOBODY, "this tool needs an agent with sampling", {"requiredCapabilities": {"sampling": {}}})
    return said("the agent can sample")


# asking the agent


def question(text: str, schema: Json) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=text, requested_schema=schema))


def one(name: str, kind: str = "string") -> Json:
    return {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}


def completion(text: str, tokens: int = 100) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=text))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=tokens))


def needs(requests: Mapping[str, Any], state: str | None = None) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=dict(requests), request_state=state)


async def sampling(ctx: Context, params: types.CallToolRequestParams) -> Result:
    text = str((params.arguments or {}).get("prompt", ""))
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=text))
    answer = await ctx.session.create_message([message], max_tokens=100, related_request_id=ctx.request_id)
    return said(f"LLM response: {getattr(answer.content, 'text', '')}")


def eliciting(schema: Json, word: str) -> Tool:
    async def elicit(ctx: Context, params: types.CallToolRequestParams) -> Result:
        text = str((params.arguments or {}).get("message", "Please answer"))
        answer = await ctx.session.elicit_form(text, schema, ctx.request_id)
        return said(f"{word}: action={answer.action}, content={json.dumps(answer.content or {})}")

    return elicit


DEFAULTS: Json = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}


def titled(**options: str) -> list[Json]:
    return [{"const": value, "title": title} for value, title in options.items()]


ENUMS: Json = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": titled(value1="First", value2="Second", value3="Third")},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled(value1="First", value2="Second", value3="Third")}},
    },
}


def answered(params: types.CallToolRequestParams) -> Mapping[str, Any]:
    return params.input_responses or {}


def asking(requests: Callable[[], Mapping[str, Any]], text: str, state: str | None = None) -> Tool:
    """Asks for all of it at once, and is content when all of it is there, with the state that it gave out."""

    async def ask(ctx: Context, params: types.CallToolRequestParams) -> Result:
        if set(requests()) <= set(answered(params)) and params.request_state == state:
            return said(f"{text} {json.dumps(sorted(answered(params)))}")
        return needs(requests(), state)

    return ask


async def in_rounds(ctx: Context, params: types.CallToolRequestParams) -> Result:
    if params.request_state == "round-2" and "step2" in answered(params):
        return said("all rounds are done")
    if params.request_state == "round-1" and "step1" in answered(params):
        return needs({"step2": question("Step 2: a colour?", one("color"))}, "round-2")
    return needs({"step1": question("Step 1: a name?", one("name"))}, "round-1")


async def state_kept(ctx: Context, params: types.CallToolRequestParams) -> Result:
    if params.request_state is None:
        return needs({"confirm": question("Please confirm", one("ok", "boolean"))}, "state-1")
    if params.request_state != "state-1":
        raise MCPError(types.INVALID_PARAMS, "that is not the state that was given out")
    return said("the state is the one that was given out")


async def what_it_can(ctx: Context, params: types.CallToolRequestParams) -> Result:
    able = ctx.session.client_capabilities
    requests: dict[str, Any] = {}
    if able is not None and able.sampling is not None:
        requests["sample"] = completion("Say hello")
    if able is not None and able.elicitation is not None:
        requests["ask"] = question("What is your name?", one("name"))
    return needs(requests, "as-able")


def name_question() -> Mapping[str, Any]:
    return {"user_name": question("What is your name?", one("name"))}


def everything() -> Mapping[str, Any]:
    return {**name_question(), "greeting": completion("Write a greeting", 50), "client_roots": types.ListRootsRequest()}


async def plain(ctx: Context, params: types.CallToolRequestParams) -> Result:
    return types.CallToolResult(content=PLAIN[params.name])


ANY: Json = {"type": "object"}
STRICT: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "place", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
REGION: Json = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


async def nothing(ctx: Context, params: types.CallToolRequestParams) -> Result:
    return said(params.name)


TOOLS: Mapping[str, tuple[Tool, Json]] = {
    **dict.fromkeys(PLAIN, (plain, ANY)),
    "test_error_handling": (failing, ANY),
    "test_tool_with_logging": (logging, ANY),
    "test_logging_tool": (logging, ANY),
    "test_streaming_elicitation": (asking(name_question, "Hello,"), ANY),
    "test_tool_with_progress": (progressing, ANY),
    "test_sampling": (sampling, one("prompt")),
    "test_elicitation": (eliciting(one("response"), "User response"), one("message")),
    "test_elicitation_sep1034_defaults": (eliciting(DEFAULTS, "Elicitation completed"), ANY),
    "test_elicitation_sep1330_enums": (eliciting(ENUMS, "Elicitation completed"), ANY),
    "test_missing_capability": (needs_sampling, ANY),
    "test_trigger_tool_change": (tools_changed, ANY),
    "test_trigger_prompt_change": (prompts_changed, ANY),
    "test_x_mcp_header": (nothing, REGION),
    "json_schema_2020_12_tool": (nothing, STRICT),
    "test_input_required_result_elicitation": (asking(name_question, "Hello,"), ANY),
    "test_input_required_result_sampling": (asking(lambda: {"capital_question": completion("What is the capital of France?")}, "Model said"), ANY),
    "test_input_required_result_list_roots": (asking(lambda: {"client_roots": types.ListRootsRequest()}, "Roots:"), ANY),
    "test_input_required_result_request_state": (
        asking(lambda: {"confirm": question("Please confirm", one("ok", "boolean"))}, "state-ok", "a-state"),
        ANY,
    ),
    "test_input_required_result_multiple_inputs": (asking(everything, "All of it:", "several"), ANY),
    "test_input_required_result_multi_round": (in_rounds, ANY),
    "test_input_required_result_tampered_state": (state_kept, ANY),
    "test_input_required_result_capabilities": (what_it_can, ANY),
}


async def list_tools(ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    tools = [types.Tool(name=name, description=f"{name}, for the conformance suite", input_schema=schema) for name, (_, schema) in TOOLS.items()]
    return types.ListToolsResult(tools=tools, ttl_ms=1000, cache_scope="private")


async def call_tool(ctx: Context, params: types.CallToolRequestParams) -> Result:
    if params.name not in TOOLS:
        raise MCPError(types.INVALID_PARAMS, f"there is no tool {params.name[:100]}")
    return await TOOLS[params.name][0](ctx, params)
