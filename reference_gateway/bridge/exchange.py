"""What the bridges have in common: one bounded HTTP exchange, its errors in the gateway's words, and answers as CallToolResults.

Nothing is retried, and nothing that a provider or the client says about a failure is repeated: either may quote what was sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from reference_gateway.egress import Egress, TooLarge, read_bounded
from reference_gateway.errors import GatewayError

PROBE_LIMIT = 1_000_000
"""Bytes of a probe's answer."""

_PROBE_REFUSALS = ("memory_api_key_rejected", "cognee_access_unverified", "papr_access_unverified")


class ArgumentsRefused(GatewayError):
    """Arguments that fit the schema and still mean nothing, or too much. Nothing was sent."""

    http_status = 422

    def __init__(self, message: str, fix: str) -> None:
        super().__init__("invalid_arguments", message, where="arguments", fix=fix)


class BridgeError(GatewayError):
    """No usable answer.

    Codes of a probe: `memory_api_key_rejected`, `cognee_access_unverified`, `papr_access_unverified`, `provider_unreachable`; of a
    call: `tool_not_found`, `mcp_remote_fetch_failed`, `mcp_remote_invalid_json`, `mcp_remote_response_too_large`,
    `remote_mcp_malformed_response`.
    """

    http_status = 502

    def __init__(self, code: str, message: str, *, where: str = "", fix: str = "", status: int | None = None) -> None:
        super().__init__(code, message, where=where, fix=fix, http_status=422 if code in _PROBE_REFUSALS else None)
        self.status = status
        """What the provider answered with, if it did."""


@dataclass(frozen=True, slots=True)
class BridgeResult:
    """`result` is a CallToolResult as on the wire; `status` the provider's HTTP status; `endpoint` the URL without query."""

    is_error: bool
    result: dict[str, Any]
    status: int | None
    endpoint: str


async def send(
    egress: Egress, provider: str, method: str, url: str, headers: Mapping[str, str], options: Mapping[str, Any], limit: int
) -> tuple[int, bytes]:
    """Status and decoded body, of at most `limit` bytes; the body of an answer other than 2xx is not read.

    `options` are keyword arguments of the HTTP client (`json`, `params`, `data`, `files`). Raises BridgeError.
    """
    try:
        request = egress.client.build_request(method, url, headers=dict(headers), **options)
        response = await egress.client.send(request, stream=True)
        if not 200 <= response.status_code < 300:
            await response.aclose()
            return response.status_code, b""
        return response.status_code, await read_bounded(response, limit)
    except TooLarge as error:
        raise BridgeError(error.code, error.message, where=url, status=200) from error
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        # The kind of failure only: the client's own texts can quote what was sent.
        raise BridgeError("mcp_remote_fetch_failed", f"{provider} could not be asked ({type(error).__name__})", where=url) from error
    except GatewayError as error:
        raise BridgeError("mcp_remote_fetch_failed", error.message, where=url) from error


def text_of(provider: str, body: bytes, status: int) -> str:
    """Raises BridgeError `mcp_remote_invalid_json`."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise BridgeError("mcp_remote_invalid_json", f"{provider}'s answer is not UTF-8 text", status=status) from error


def parse(provider: str, text: str, status: int) -> Any:
    """Strict JSON whose numbers are finite. Raises BridgeError `mcp_remote_invalid_json`."""
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise BridgeError("mcp_remote_invalid_json", f"{provider}'s answer is not JSON that can be passed on", status=status) from error


def failure(text: str, status: int | None, endpoint: str) -> BridgeResult:
    """A result with `isError` that holds one sentence of ours."""
    return BridgeResult(True, {"content": [{"type": "text", "text": text}], "isError": True}, status, endpoint)


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError("a number overflows")
    return number
