"""JSON-RPC as it is on the wire. No SDK models: they drop, default and re-spell what a hash must see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from harness.errors import LoadError
from harness.inventory.jsontext import parse_json

MODERN = ("2026-07-28",)
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
CLIENT_INFO = {"name": "mcp-gateway-acceptance", "version": "0.1.0"}
META = "io.modelcontextprotocol/"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what a server may make us read: counts, bytes, seconds per request."""

    pages: int = 100
    tools: int = 20_000
    response_bytes: int = 8 * 1024 * 1024
    total_bytes: int = 64 * 1024 * 1024
    request_s: float = 30.0


class WireProblem(Exception):
    """The other side did not answer as the protocol asks. `reason` is a kebab-case word, `detail` a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class RpcFailure(WireProblem):
    """A JSON-RPC error answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__("rpc-error", f"JSON-RPC error {code}: {message[:200]}")
        self.code = code


class Wire(Protocol):
    """One conversation. `request` returns the result object; both raise WireProblem, or a HarnessError that ends the capture."""

    async def request(self, method: str, params: Mapping[str, Any] | None) -> Mapping[str, Any]: ...
    async def notify(self, method: str) -> None: ...
    def agree(self, version: str) -> None: ...


def modern_params(params: Mapping[str, Any] | None, version: str) -> dict[str, Any]:
    """Parameters with the per-request envelope of 2026-07-28."""
    meta = {f"{META}protocolVersion": version, f"{META}clientInfo": CLIENT_INFO, f"{META}clientCapabilities": {}}
    return {**(params or {}), "_meta": meta}


def message(method: str, params: Mapping[str, Any] | None, request_id: int | None) -> dict[str, Any]:
    """A request, or a notification when `request_id` is None."""
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if request_id is not None:
        body["id"] = request_id
    if params is not None:
        body["params"] = dict(params)
    return body


def reply_to(request: Mapping[str, Any]) -> dict[str, Any]:
    """Our answer to a server's own request: pings are answered, everything else is declined."""
    if request.get("method") == "ping":
        return {"jsonrpc": "2.0", "id": request.get("id"), "result": {}}
    return {"jsonrpc": "2.0", "id": request.get("id"), "error": {"code": -32601, "message": "only discovery happens here"}}


def decode(text: str | bytes, limit: int) -> Any:
    """Strict JSON. Raises WireProblem."""
    try:
        return parse_json(text, max_bytes=limit)
    except LoadError as error:
        raise WireProblem("malformed", error.what) from error


def answer_in(value: Any, request_id: int | str) -> Mapping[str, Any] | None:
    """The result if `value` answers this request, None if it is some other message. Raises RpcFailure or WireProblem."""
    for item in value if isinstance(value, list) else [value]:
        if not isinstance(item, Mapping) or "method" in item or item.get("id") != request_id or isinstance(item.get("id"), bool):
            continue
        if isinstance(error := item.get("error"), Mapping):
            code = error.get("code")
            raise RpcFailure(code if isinstance(code, int) else 0, str(error.get("message")))
        result = item.get("result")
        if not isinstance(result, Mapping):
            raise WireProblem("malformed", "an answer without a result object")
        return result
    return None


def asks(value: Any) -> list[Mapping[str, Any]]:
    """Requests that the server makes of us."""
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, Mapping) and "method" in item and "id" in item]
