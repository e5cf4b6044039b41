"""One JSON-RPC exchange with a provider over Streamable HTTP: exactly one POST, its answer bounded, every way to fail named.

Written here rather than taken from the SDK's client because an audit must tell apart what that client folds together: a status,
a body that is not JSON, an answer to another id, a body that broke off, a body that is too large. It also reconnects and waits on
its own, where a tool call must be exactly one request.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

from reference_gateway.bounded import TooLarge, read_bounded
from reference_gateway.errors import GatewayError

Json = dict[str, Any]
OnMessage = Callable[[Json], Awaitable[None]]

REMOTE_ERROR = "remote_mcp_error"
REMOTE_STATUS = "mcp_remote_status"
INVALID_JSON = "mcp_remote_invalid_json"
MALFORMED = "remote_mcp_malformed_response"
TOO_LARGE = "mcp_remote_response_too_large"
FETCH_FAILED = "mcp_remote_fetch_failed"

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")


class UpstreamFailure(Exception):
    """The provider gave no usable result. `reason` is the audit's word for it.

    `rpc` holds code, message and data of a JSON-RPC error; `answered` tells whether the answer named our request, so that
    the provider had certainly read it.
    """

    def __init__(self, reason: str, message: str, *, status: int | None = None, rpc: Json | None = None, answered: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.status = status
        self.rpc = rpc
        self.answered = answered


@dataclass(frozen=True, slots=True)
class Reply:
    """`size` is the bytes of the message that carried the result; `headers` those of the HTTP response."""

    result: Json
    size: int
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


async def exchange(http: httpx2.AsyncClient, url: str, message: Json, headers: Mapping[str, str], *, limit: int, on_message: OnMessage) -> Reply:
    """POST one request and return its result. `on_message` gets what else arrives on the same stream.

    Raises UpstreamFailure; cancelling it closes the response.
    """
    status: int | None = None
    try:
        async with http.stream("POST", url, content=encode(message), headers=dict(headers)) as response:
            status = response.status_code
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind == "text/event-stream" and response.status_code == 200:
                return await _from_stream(response, message["id"], limit, on_message)
            return await _from_body(response, kind, message["id"], limit)
    except TooLarge as error:
        raise UpstreamFailure(TOO_LARGE, f"the provider's answer is larger than {limit} bytes", status=status) from error
    except httpx2.RequestError as error:
        raise UpstreamFailure(FETCH_FAILED, f"the provider could not be reached, or broke off ({type(error).__name__})", status=status) from error
    except GatewayError as error:
        raise UpstreamFailure(FETCH_FAILED, error.message, status=status) from error


async def post(http: httpx2.AsyncClient, url: str, message: Json, headers: Mapping[str, str]) -> None:
    """POST a notification or an answer of ours; whatever comes back is not read."""
    try:
        async with http.stream("POST", url, content=encode(message), headers=dict(headers)):
            return
    except (httpx2.RequestError, GatewayError):
        return  # nobody waits for this message, and the provider's silence shows elsewhere


def encode(message: Json) -> bytes:
    """Integers digit for digit; pure ASCII, so that any text the agent sent survives."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode("ascii")


def decode(text: str | bytes) -> Any:
    """JSON that can be passed on: no number that no double carries, no half of a surrogate pair. Raises ValueError."""
    text = text.decode() if isinstance(text, bytes) else text
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_no_constant)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()  # a UnicodeEncodeError is a ValueError
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def deeper_than(value: Any, levels: int) -> bool:
    """Whether containers are nested deeper. Iterative, for depth is what it guards against."""
    layer = [value]
    for _ in range(levels + 1):
        layer = [item for held in layer for item in _members(held)]
        if not layer:
            return False
    return True


def _members(value: Any) -> list[Any]:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [item for item in items if isinstance(item, (dict, list))]


def _finite(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        raise ValueError("a number is too large for a double")
    return number


def _no_constant(literal: str) -> float:
    raise ValueError(f"{literal} is not JSON")


async def _from_stream(response: httpx2.Response, request_id: object, limit: int, on_message: OnMessage) -> Reply:
    strayed = False
    try:
        async for event in httpx2.EventSource(response, max_event_size=limit + 64):
            if event.event != "message" or not event.data:
                continue
            size = len(event.data.encode("utf-8", "surrogatepass"))
            if size > limit:
                raise TooLarge(limit)
            message = _decoded(event.data, response.status_code)
            if not isinstance(message, dict):
                raise UpstreamFailure(MALFORMED, "the provider sent something that is not a JSON-RPC message", status=response.status_code)
            if "method" in message:
                await on_message(message)
            elif _same_id(message.get("id"), request_id):
                return _reply(message, size, response)
            else:
                strayed = True  # only the message with our id counts
    except httpx2.SSEError as error:
        raise TooLarge(limit) from error
    if strayed:
        raise UpstreamFailure(MALFORMED, "the provider answered another request than ours", status=response.status_code)
    raise UpstreamFailure(FETCH_FAILED, "the provider's stream ended without an answer", status=response.status_code)


async def _from_body(response: httpx2.Response, kind: str, request_id: object, limit: int) -> Reply:
    status = response.status_code
    good = 200 <= status < 300
    body = await read_bounded(response, limit)
    if kind != "application/json":
        if not good:
            raise UpstreamFailure(REMOTE_STATUS, f"the provider answered HTTP {status}", status=status)
        if not body:
            raise UpstreamFailure(MALFORMED, f"the provider answered HTTP {status} without a message", status=status)
        raise UpstreamFailure(INVALID_JSON, "the provider's answer is not JSON", status=status)
    try:
        message = _decoded(body, status)
    except UpstreamFailure:
        if good:
            raise
        message = None
    if not good:
        # A JSON-RPC error may travel under any status; then it is the more exact word.
        ours = isinstance(message, dict) and (message.get("id") is None or _same_id(message.get("id"), request_id))
        if ours and isinstance(message, dict) and _rpc_error(message.get("error")) is not None:
            _reply(message, len(body), response)
        raise UpstreamFailure(REMOTE_STATUS, f"the provider answered HTTP {status}", status=status)
    if not isinstance(message, dict) or not _same_id(message.get("id"), request_id):
        raise UpstreamFailure(MALFORMED, "the provider did not answer our request", status=status)
    return _reply(message, len(body), response)


def _decoded(text: str | bytes, status: int) -> Any:
    try:
        return decode(text)
    except ValueError as error:
        raise UpstreamFailure(INVALID_JSON, "the provider's answer is not JSON", status=status) from error


def _same_id(theirs: object, ours: object) -> bool:
    return type(theirs) is type(ours) and theirs == ours


def _rpc_error(error: object) -> Json | None:
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return None
    code = error.get("code")
    if not isinstance(code, int) or isinstance(code, bool):
        return None
    return {"code": code, "message": error["message"], **({"data": error["data"]} if "data" in error else {})}


def _reply(message: Json, size: int, response: httpx2.Response) -> Reply:
    status = response.status_code
    error, result = message.get("error"), message.get("result")
    if error is not None and result is None:
        rpc = _rpc_error(error)
        if rpc is None:
            raise UpstreamFailure(MALFORMED, "the provider's error has no code or message", status=status, answered=True)
        raise UpstreamFailure(REMOTE_ERROR, rpc["message"], status=status, rpc=rpc, answered=message.get("id") is not None)
    if error is not None or not isinstance(result, dict):
        raise UpstreamFailure(MALFORMED, "the provider's answer holds no result", status=status, answered=True)
    return Reply(result, size, status, response.headers)
