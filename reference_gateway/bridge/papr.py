"""Papr Memory API v1 as seven reviewed tools, without any process of its own.

One tool call is one request. Nothing is retried, and nothing is interpreted but this: Papr can say `error` inside an answer of
status 200, and that is a failed call too. A batch that is `partial` is an answer, whose errors the agent reads for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from reference_gateway.bridge.exchange import PROBE_LIMIT, BridgeError, BridgeResult, failure, parse, send, text_of
from reference_gateway.bridge.papr_rules import ERROR_TRUSTED, Rules
from reference_gateway.bridge.papr_tools import TOOLS
from reference_gateway.egress import Egress, UrlRejected, split_url
from reference_gateway.errors import GatewayError

__all__ = ["CREDENTIALS", "DEFAULT_URL", "TOOLS", "TRANSPORT", "PaprBridge", "Rules", "check_base_url", "the_credential"]

TRANSPORT = "papr_cloud"
DEFAULT_URL = "https://memory.papr.ai"
CLIENT_TYPE = "mcp_gateway"
"""`X-Client-Type`, which Papr requires of every client and whose words it leaves to them."""

_MEMORY = "/v1/memory"
_PROBED = f"{_MEMORY}/00000000-0000-0000-0000-000000000000"
"""A memory that cannot exist: who may ask is told that there is none. It writes nothing, which a search, that Papr logs, would."""

CREDENTIALS: Mapping[str, tuple[str, str]] = {
    "credentials.api_key": ("x-api-key", ""),
    "credentials.session_token": ("x-session-token", ""),
    "credentials.bearer": ("authorization", "Bearer "),
}
"""The three ways in: vault path → header, and what stands before the value. A connection has exactly one."""

_HEADER_VALUE = re.compile(r"[\x21-\x7e]{1,8192}")


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    query: Mapping[str, Any]
    body: Mapping[str, Any] | None


def check_base_url(url: str) -> str:
    """The origin (`https://host`, lower case) of a Papr server: https on its own port, and nothing after the host.

    Papr's document names an `http://` server; a credential never goes there. Raises UrlRejected `url_rejected`.
    """
    scheme, host, port = split_url(url)
    if scheme != "https":
        raise UrlRejected("url_rejected", "the scheme is not https")
    if port != 443:
        raise UrlRejected("url_rejected", "it names a port")
    if url.partition("://")[2].partition("/")[2] or "?" in url:
        raise UrlRejected("url_rejected", "it has a path or a query")
    return f"https://[{host}]" if ":" in host else f"https://{host}"


def the_credential(paths: Collection[str]) -> str:
    """The one path among those given. Raises GatewayError `invalid_field` for none, several, or one that Papr does not know."""
    if len(paths) != 1 or (path := next(iter(paths))) not in CREDENTIALS:
        raise GatewayError(
            "invalid_field",
            "a Papr connection has exactly one credential",
            where="credentials",
            fix=f"give exactly one of: {', '.join(CREDENTIALS)}",
            http_status=422,
        )
    return path


class PaprBridge:
    """One connection. Deadlines are the caller's: cancelling a call closes its request and leaves nothing behind.

    `credential` is a path of CREDENTIALS and its secret. Raises UrlRejected for the URL and GatewayError `invalid_field` for a secret
    that no header can carry.
    """

    def __init__(self, egress: Egress, base_url: str, credential: tuple[str, str], rules: Rules | None = None) -> None:
        self._egress = egress
        self._rules = rules or Rules()
        self.origin = check_base_url(base_url)
        path, secret = credential
        header, before = CREDENTIALS[the_credential((path,))]
        if not _HEADER_VALUE.fullmatch(secret):
            raise GatewayError(
                "invalid_field", "the credential is empty or holds characters that a header cannot carry",
                where=path, fix="give it as Papr issued it", http_status=422,
            )  # fmt: skip
        self._headers = {header: before + secret, "x-client-type": CLIENT_TYPE, "accept": "application/json", "accept-encoding": "gzip"}

    def endpoint(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Where the call's request goes, without query, for the intent record. Raises as `Rules.check`."""
        self._rules.check(name, arguments)
        return self.origin + _BUILDERS[name](arguments).path

    async def probe(self) -> None:
        """Asks for a memory that cannot exist. Raises BridgeError; the caller bounds the time."""
        try:
            status, _ = await self._send(_Request("GET", _PROBED, {}, None), PROBE_LIMIT)
        except BridgeError as error:
            code = "provider_unreachable" if error.code == "mcp_remote_fetch_failed" else "papr_access_unverified"
            raise BridgeError(code, error.message, where=self.origin, fix="check the base URL") from error
        if status in (401, 403):
            raise BridgeError("memory_api_key_rejected", f"Papr answered {status}", where=self.origin, fix="check the credential", status=status)
        if status != 404:
            raise BridgeError(
                "papr_access_unverified",
                f"Papr answered {status} when asked for a memory that cannot exist",
                where=self.origin,
                fix="check the base URL",
                status=status,
            )

    async def call(self, name: str, arguments: Mapping[str, Any], *, limit: int) -> BridgeResult:
        """One tool call; `limit` bounds the answer in bytes, decompressed.

        A non-2xx answer is a result with `isError` that holds the status and nothing of the body. Raises ArgumentsRefused before
        anything is sent, and BridgeError when there is no usable answer.
        """
        endpoint = self.endpoint(name, arguments)
        status, body = await self._send(_BUILDERS[name](arguments), limit)
        if not 200 <= status < 300:
            return failure(f"Papr answered with HTTP status {status}.", status, endpoint)
        text = text_of("Papr", body, status)
        envelope = parse("Papr", text, status)
        if not isinstance(envelope, Mapping):
            raise BridgeError("remote_mcp_malformed_response", "Papr's answer is no object", where=endpoint, status=status)
        # The text is the provider's own, so that no number or order is re-spelled on the way.
        failed = envelope.get("status") == "error" and ERROR_TRUSTED not in self._rules.without
        result = {"content": [{"type": "text", "text": text}], "structuredContent": dict(envelope), "isError": failed}
        return BridgeResult(failed, result, status, endpoint)

    async def _send(self, request: _Request, limit: int) -> tuple[int, bytes]:
        options: dict[str, Any] = {"params": dict(request.query)} if request.query else {}
        if request.body is not None:
            options["json"] = dict(request.body)
        return await send(self._egress, "Papr", request.method, self.origin + request.path, self._headers, options, limit)


# requests


def _parts(arguments: Mapping[str, Any], *query: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what goes into the query, what goes into the body)."""
    named = {name: arguments[name] for name in query if name in arguments}
    return named, {name: value for name, value in arguments.items() if name not in query and name != "memory_id"}


def _one(arguments: Mapping[str, Any]) -> str:
    return f"{_MEMORY}/{quote(arguments['memory_id'], safe='')}"


def _add(arguments: Mapping[str, Any]) -> _Request:
    return _Request("POST", _MEMORY, *_parts(arguments, "skip_background_processing"))


def _update(arguments: Mapping[str, Any]) -> _Request:
    return _Request("PUT", _one(arguments), *_parts(arguments))


def _delete(arguments: Mapping[str, Any]) -> _Request:
    return _Request("DELETE", _one(arguments), _parts(arguments, "skip_parse")[0], None)


def _get(arguments: Mapping[str, Any]) -> _Request:
    return _Request("GET", _one(arguments), {}, None)


def _batch(arguments: Mapping[str, Any]) -> _Request:
    return _Request("POST", f"{_MEMORY}/batch", *_parts(arguments, "skip_background_processing"))


def _delete_all(arguments: Mapping[str, Any]) -> _Request:
    return _Request("DELETE", f"{_MEMORY}/all", _parts(arguments, "user_id", "external_user_id", "skip_parse")[0], None)


def _search(arguments: Mapping[str, Any]) -> _Request:
    return _Request("POST", f"{_MEMORY}/search", *_parts(arguments, "max_memories", "max_nodes"))


_BUILDERS: Mapping[str, Callable[[Mapping[str, Any]], _Request]] = {
    "add_memory": _add,
    "update_memory": _update,
    "delete_memory": _delete,
    "get_memory": _get,
    "add_memory_batch": _batch,
    "delete_all_memories": _delete_all,
    "search_memory": _search,
}
