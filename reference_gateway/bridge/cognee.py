"""Cognee Cloud's HTTP API as three reviewed tools, without any process of its own.

One tool call is one request, except a recall that names no dataset: it asks for the names first. Nothing is retried and nothing is
interpreted: a 409 (not indexed yet) is a failed call like any other non-2xx answer.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reference_gateway.bridge.exchange import PROBE_LIMIT, ArgumentsRefused, BridgeError, BridgeResult, failure, parse, send, text_of
from reference_gateway.egress import Egress, UrlRejected, split_url
from reference_gateway.errors import GatewayError

__all__ = [
    "DEFAULT_DATASET",
    "DEFAULT_TOP_K",
    "TOOLS",
    "TRANSPORT",
    "ArgumentsRefused",
    "BridgeError",
    "BridgeResult",
    "CogneeBridge",
    "check_arguments",
    "check_base_url",
]

TRANSPORT = "cognee_cloud"
DEFAULT_DATASET = "agent_memory"
DEFAULT_TOP_K = 15

_DATASETS = "/api/v1/datasets/"
_REMEMBER = "/api/v1/remember"
_ENTRY = "/api/v1/remember/entry"
_RECALL = "/api/v1/recall"
_FORGET = "/api/v1/forget"

_HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.aws\.cognee\.ai")
_TENANT_HOST = re.compile(r"tenant-(?P<tenant>[0-9a-f-]{36})\.")
_API_KEY = re.compile(r"[\x21-\x7e]{1,4096}")


def _tool(name: str, description: str, properties: Mapping[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    if required:
        schema["required"] = list(required)
    return {"name": name, "description": description, "inputSchema": schema}


_TEXT = {"type": "string"}

# The reviewed schemas: their hashes are part of what was agreed, so a word more or less in one is a change of contract.
TOOLS: list[dict[str, Any]] = [
    _tool(
        "remember",
        "Store text in a dataset, or, with session_id, as an entry of that session.",
        {"data": _TEXT, "dataset_name": _TEXT, "session_id": _TEXT, "custom_prompt": _TEXT},
        ("data",),
    ),
    _tool(
        "recall",
        "Search what was remembered: in the named datasets (comma-separated), in a session, or in every dataset.",
        {
            **dict.fromkeys(("query", "search_type", "datasets", "session_id", "system_prompt"), _TEXT),
            "top_k": {"type": "integer", "minimum": 1, "default": DEFAULT_TOP_K},
        },
        ("query",),
    ),
    _tool(
        "forget",
        "Delete one dataset, or, with everything=true, all of them.",
        {"dataset": _TEXT, "everything": {"type": "boolean", "default": False}},
    ),
]


@dataclass(frozen=True, slots=True)
class _Request:
    path: str
    body: Mapping[str, Any]
    """Keyword arguments of the HTTP client: `json`, or `data` and `files`."""


def check_base_url(url: str) -> str:
    """The origin (`https://host`, lower case) of a Cognee Cloud URL: one label under aws.cognee.ai, and nothing after it.

    Raises UrlRejected `cognee_cloud_url_invalid`.
    """
    try:
        scheme, host, port = split_url(url)
    except UrlRejected as refused:
        raise _invalid_url(refused.reason) from refused
    if scheme != "https":
        raise _invalid_url("the scheme is not https")
    if port != 443:
        raise _invalid_url("it names a port")
    if not _HOST.fullmatch(host):
        raise _invalid_url("the host is not one label under aws.cognee.ai")
    path = url.partition("://")[2].partition("/")[2]
    if path or "?" in url:
        raise _invalid_url("it has a path or a query")
    return f"https://{host}"


def _invalid_url(reason: str) -> UrlRejected:
    return UrlRejected("cognee_cloud_url_invalid", reason, where="env.COGNEE_BASE_URL")


def check_arguments(name: str, arguments: Mapping[str, Any]) -> None:
    """What the schema cannot say; pure, so it can be asked before anything is recorded.

    Raises ArgumentsRefused, or BridgeError `tool_not_found`.
    """
    _check_for(name)(arguments)


class CogneeBridge:
    """One connection. Deadlines are the caller's: cancelling a call closes its request and leaves nothing behind.

    Raises UrlRejected for the URL and GatewayError `invalid_field` for a key that no header can carry.
    """

    def __init__(self, egress: Egress, base_url: str, api_key: str) -> None:
        self._egress = egress
        self.origin = check_base_url(base_url)
        if not _API_KEY.fullmatch(api_key):
            raise GatewayError(
                "invalid_field", "the API key is empty or holds characters that a header cannot carry",
                where="env.COGNEE_API_KEY", fix="give the key as Cognee issued it", http_status=422,
            )  # fmt: skip
        self._probe_headers = {"x-api-key": api_key, "accept": "application/json"}
        self._headers = dict(self._probe_headers)
        if tenant := _TENANT_HOST.match(self.origin.removeprefix("https://")):
            self._headers["x-tenant-id"] = tenant["tenant"]

    def endpoint(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Where the call's own request goes, for the intent record. Raises as `check_arguments`."""
        check_arguments(name, arguments)
        paths = {"remember": _ENTRY if "session_id" in arguments else _REMEMBER, "recall": _RECALL, "forget": _FORGET}
        return self.origin + paths[name]

    async def probe(self) -> None:
        """Asks for the datasets, with the key alone. Raises BridgeError; the caller bounds the time."""
        try:
            status, body = await self._send("GET", _DATASETS, self._probe_headers, {}, PROBE_LIMIT)
        except BridgeError as error:
            code = "provider_unreachable" if error.code == "mcp_remote_fetch_failed" else "cognee_access_unverified"
            raise BridgeError(code, error.message, where=self.origin, fix="check the base URL") from error
        if status in (401, 403):
            raise BridgeError(
                "memory_api_key_rejected", f"Cognee answered {status}", where=self.origin, fix="check the API key", status=status
            )
        if not 200 <= status < 300 or not _is_list(body):
            raise BridgeError(
                "cognee_access_unverified",
                f"Cognee answered {status} without a list of datasets",
                where=self.origin,
                fix="check the base URL",
                status=status,
            )

    async def call(self, name: str, arguments: Mapping[str, Any], *, limit: int) -> BridgeResult:
        """One tool call; `limit` bounds each answer in bytes.

        A non-2xx answer is a result with `isError` that holds the status and nothing of the body. Raises ArgumentsRefused before
        anything is sent, and BridgeError when there is no usable answer.
        """
        check_arguments(name, arguments)
        endpoint = self.endpoint(name, arguments)
        if name == "recall" and "datasets" not in arguments and "session_id" not in arguments:
            names, failed = await self._dataset_names(endpoint, limit)
            if failed is not None:
                return failed
            arguments = {**arguments, "datasets": names}
        request = _BUILDERS[name](arguments)
        status, body = await self._send("POST", request.path, self._headers, request.body, limit)
        if not 200 <= status < 300:
            return failure(f"Cognee answered with HTTP status {status}.", status, endpoint)
        return _success(body, status, endpoint)

    async def _dataset_names(self, endpoint: str, limit: int) -> tuple[list[str], BridgeResult | None]:
        status, body = await self._send("GET", _DATASETS, self._headers, {}, limit)
        if not 200 <= status < 300:
            return [], failure(f"Cognee answered with HTTP status {status} when asked for its datasets.", status, endpoint)
        listed = _parse(_text(body, status), status)
        if not isinstance(listed, list) or not all(isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in listed):
            raise BridgeError(
                "remote_mcp_malformed_response", "Cognee's list of datasets is not a list of named datasets", where=endpoint, status=status
            )
        names = [str(item["name"]) for item in listed]
        if not names:
            # Recalling without a filter would search what this list does not show.
            return [], failure("There is no dataset to recall from yet.", status, endpoint)
        return names, None

    async def _send(self, method: str, path: str, headers: Mapping[str, str], body: Mapping[str, Any], limit: int) -> tuple[int, bytes]:
        return await send(self._egress, "Cognee", method, self.origin + path, headers, body, limit)


# what the schema cannot say


def _check_remember(arguments: Mapping[str, Any]) -> None:
    if not isinstance(arguments.get("data"), str):
        raise ArgumentsRefused("data is missing", "give the text to remember")
    _check_session(arguments)
    if "session_id" in arguments and "custom_prompt" in arguments:
        raise ArgumentsRefused("a session entry takes no custom_prompt", "leave out session_id or custom_prompt")


def _check_recall(arguments: Mapping[str, Any]) -> None:
    if not isinstance(arguments.get("query"), str):
        raise ArgumentsRefused("query is missing", "give the text to search for")
    _check_session(arguments)
    if "datasets" in arguments and not _names(arguments["datasets"]):
        # Dropping the blanks would leave no filter, and so search everything.
        raise ArgumentsRefused("datasets names no dataset", "name one or more datasets, or leave datasets out")


def _check_session(arguments: Mapping[str, Any]) -> None:
    if "session_id" in arguments and not str(arguments["session_id"]).strip():
        raise ArgumentsRefused("session_id is blank", "name the session, or leave session_id out")


def _check_forget(arguments: Mapping[str, Any]) -> None:
    everything = arguments.get("everything") is True
    named = isinstance(arguments.get("dataset"), str) and bool(arguments["dataset"].strip())
    if everything and "dataset" in arguments:
        raise ArgumentsRefused("dataset together with everything=true would delete everything", "give one of them")
    if not everything and not named:
        raise ArgumentsRefused("neither a dataset nor everything=true is given", "name the dataset to delete")


_CHECKS: Mapping[str, Callable[[Mapping[str, Any]], None]] = {"remember": _check_remember, "recall": _check_recall, "forget": _check_forget}


def _check_for(name: str) -> Callable[[Mapping[str, Any]], None]:
    if name not in _CHECKS:
        raise BridgeError("tool_not_found", "the bridge has no such tool", where=name[:100], fix=f"use one of: {', '.join(_CHECKS)}")
    return _CHECKS[name]


def _names(datasets: Any) -> list[str]:
    texts = datasets.split(",") if isinstance(datasets, str) else datasets if isinstance(datasets, list) else []
    return [name for text in texts if (name := text.strip())]


# requests


def _remember(arguments: Mapping[str, Any]) -> _Request:
    data = arguments["data"]
    dataset = arguments.get("dataset_name") or DEFAULT_DATASET
    if "session_id" in arguments:
        entry = {"type": "qa", "question": "", "answer": data, "context": ""}
        return _Request(_ENTRY, {"json": {"entry": entry, "dataset_name": dataset, "session_id": arguments["session_id"]}})
    content = data.encode()
    fields = {"datasetName": dataset}
    if "custom_prompt" in arguments:
        fields["custom_prompt"] = arguments["custom_prompt"]
    name = f"memory_{hashlib.sha256(content).hexdigest()}.txt"
    return _Request(_REMEMBER, {"data": fields, "files": {"data": (name, content, "text/plain")}})


def _recall(arguments: Mapping[str, Any]) -> _Request:
    search_type = arguments.get("search_type")
    body: dict[str, Any] = {
        "query": arguments["query"],
        "top_k": arguments.get("top_k", DEFAULT_TOP_K),
        "search_type": search_type.upper() if isinstance(search_type, str) and search_type else None,
    }
    if "datasets" in arguments:
        body["datasets"] = _names(arguments["datasets"])
    body.update({key: arguments[key] for key in ("session_id", "system_prompt") if key in arguments})
    return _Request(_RECALL, {"json": body})


def _forget(arguments: Mapping[str, Any]) -> _Request:
    body: dict[str, Any] = {"everything": arguments.get("everything") is True}
    if "dataset" in arguments:
        body["dataset"] = arguments["dataset"]
    return _Request(_FORGET, {"json": body})


_BUILDERS: Mapping[str, Callable[[Mapping[str, Any]], _Request]] = {"remember": _remember, "recall": _recall, "forget": _forget}


# answers


def _parse(text: str, status: int) -> Any:
    return parse("Cognee", text, status)


def _text(body: bytes, status: int) -> str:
    return text_of("Cognee", body, status)


def _is_list(body: bytes) -> bool:
    try:
        return isinstance(_parse(_text(body, 200), 200), list)
    except BridgeError:
        return False


def _success(body: bytes, status: int, endpoint: str) -> BridgeResult:
    # The text is the provider's own, so that no number or order is re-spelled on the way.
    text = _text(body, status) if body.strip() else '{"status":"success"}'
    value = _parse(text, status)
    result = {"content": [{"type": "text", "text": text}], "structuredContent": {"result": value}, "isError": False}
    return BridgeResult(False, result, status, endpoint)
