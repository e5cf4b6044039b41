"""One JSON-RPC exchange with a provider over Streamable HTTP: exactly one POST, its answer bounded, every way to fail named.

Written here rather than taken from the SDK's client because an audit must tell apart what that client folds together: a status,
a body that is not JSON, an answer to another id, a body that broke off, a body that is too large. It also reconnects and waits on
its own, where a tool call must be exactly one request.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from reference_gateway.bounded import TooLarge, gathered
from reference_gateway.errors import GatewayError
from reference_gateway.events import Mark, events
from reference_gateway.lines import LineBroken, Requests, Response
from reference_gateway.packing import packed

Json = dict[str, Any]
OnMessage = Callable[[Json], Awaitable[None]]

REMOTE_ERROR = "remote_mcp_error"
REMOTE_STATUS = "mcp_remote_status"
INVALID_JSON = "mcp_remote_invalid_json"
MALFORMED = "remote_mcp_malformed_response"
TOO_LARGE = "mcp_remote_response_too_large"
FETCH_FAILED = "mcp_remote_fetch_failed"

MAX_RESUMED = 8
MAX_RETRY_S = 10.0
"""How often a stream is taken up again, and how long we let ourselves be told to wait; the call's own deadline comes first."""

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


async def exchange(http: Requests, url: str, message: Json, headers: Mapping[str, str], *, limit: int, on_message: OnMessage) -> Reply:
    """POST one request and return its result. `on_message` gets what else arrives on the same stream.

    Raises UpstreamFailure; cancelling it cuts the connection.
    """
    response: Response | None = None
    try:
        response = await http.request("POST", url, headers, encode(message))
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream" and response.status == 200:
            mark = Mark()
            for _ in range(MAX_RESUMED):
                if (reply := await _from_stream(response, message["id"], limit, on_message, mark)) is not None:
                    return reply
                # The other side let go of the stream and will go on elsewhere (SEP-1699). Asking for the rest is not asking again.
                response.close()
                await asyncio.sleep(min(mark.retry_s, MAX_RETRY_S))
                response = await http.request("GET", url, _resuming(headers, mark))
                if response.status != 200:
                    break
            raise UpstreamFailure(FETCH_FAILED, "the provider's stream ended without an answer", status=response.status)
        return await _from_body(response, kind, message["id"], limit)
    except TooLarge as error:
        _cut(response)
        raise UpstreamFailure(TOO_LARGE, f"the provider's answer is larger than {limit} bytes", status=_status(response)) from error
    except LineBroken as error:
        raise UpstreamFailure(FETCH_FAILED, "the provider could not be reached, or broke off", status=_status(response)) from error
    except GatewayError as error:
        raise UpstreamFailure(FETCH_FAILED, error.message, status=_status(response)) from error
    except asyncio.CancelledError:
        _cut(response)
        raise
    finally:
        if response is not None:
            response.close()


def _resuming(headers: Mapping[str, str], mark: Mark) -> dict[str, str]:
    kept = {name: value for name, value in headers.items() if name.lower() not in ("content-type", "accept")}
    return {**kept, "accept": "text/event-stream", "last-event-id": mark.id or ""}


def _status(response: Response | None) -> int | None:
    return response.status if response is not None else None


def _cut(response: Response | None) -> None:
    if response is not None:
        response.cut()


async def post(http: Requests, url: str, message: Json, headers: Mapping[str, str]) -> None:
    """POST a notification or an answer of ours; whatever comes back is not read."""
    try:
        (await http.request("POST", url, headers, encode(message))).close()
    except (LineBroken, GatewayError):
        return  # nobody waits for this message, and the provider's silence shows elsewhere


def encode(message: Json) -> bytes:
    """Integers digit for digit; any text the agent sent survives. Raises ValueError for a number that JSON does not carry."""
    text = packed(message)
    if b"null" in text:  # where orjson found no number in one, it wrote this, and so hid it
        json.dumps(message, allow_nan=False)
    return text


def decode(text: str | bytes) -> Any:
    """JSON that can be passed on: no number that no double carries, no half of a surrogate pair. Raises ValueError."""
    text = text.decode() if isinstance(text, bytes) else text
    try:
        value = _DECODER.decode(text)
        if ("\\u" in text or not text.isascii()) and _SURROGATE.search(text):
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


_DECODER = json.JSONDecoder(parse_float=_finite, parse_constant=_no_constant)


async def _from_stream(response: Response, request_id: object, limit: int, on_message: OnMessage, mark: Mark) -> Reply | None:
    """None for a stream that ended before the answer, and that can be taken up again."""
    strayed = False
    async for text in events(response, limit, mark):
        message = _decoded(text, response.status)
        if not isinstance(message, dict):
            raise UpstreamFailure(MALFORMED, "the provider sent something that is not a JSON-RPC message", status=response.status)
        if "method" in message:
            await on_message(message)
        elif _same_id(message.get("id"), request_id):
            return _reply(message, len(text), response)
        else:
            strayed = True  # only the message with our id counts
    if strayed:
        raise UpstreamFailure(MALFORMED, "the provider answered another request than ours", status=response.status)
    if mark.id is None:
        raise UpstreamFailure(FETCH_FAILED, "the provider's stream ended without an answer", status=response.status)
    return None


async def _from_body(response: Response, kind: str, request_id: object, limit: int) -> Reply:
    status = response.status
    good = 200 <= status < 300
    body = await gathered(response, limit)
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


def _reply(message: Json, size: int, response: Response) -> Reply:
    status = response.status
    error, result = message.get("error"), message.get("result")
    if error is not None and result is None:
        rpc = _rpc_error(error)
        if rpc is None:
            raise UpstreamFailure(MALFORMED, "the provider's error has no code or message", status=status, answered=True)
        raise UpstreamFailure(REMOTE_ERROR, rpc["message"], status=status, rpc=rpc, answered=message.get("id") is not None)
    if error is not None or not isinstance(result, dict):
        raise UpstreamFailure(MALFORMED, "the provider's answer holds no result", status=status, answered=True)
    return Reply(result, size, status, response.headers)
