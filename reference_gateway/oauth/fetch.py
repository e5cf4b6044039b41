"""One guarded request to an authorization server or for its metadata: no redirect, bounded, within a deadline, JSON or nothing."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, urlencode

import anyio
import httpx2

from reference_gateway.bounded import read_bounded
from reference_gateway.clock import Clock, Deadline
from reference_gateway.egress import Egress
from reference_gateway.errors import GatewayError
from reference_gateway.oauth.errors import OAuthError
from reference_gateway.wire import decode, deeper_than

BODY_LIMIT = 262_144
"""Bytes of any one document."""
DEPTH = 16
DEADLINE_S = 20.0
REAL_TIME_S = 20.0

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fetched:
    """`document` is None unless the body was one JSON object under a JSON content type."""

    status: int
    document: Json | None

    @property
    def good(self) -> bool:
        return self.status in (200, 201) and self.document is not None


class Unanswered(OAuthError):
    """No answer, or none that may be read. Whether the other side did what was asked is not known."""

    http_status = 502

    def __init__(self, message: str, where: str) -> None:
        super().__init__("oauth_unreachable", message, where=where, fix="try again, and check the provider's address")


class Fetcher:
    """`where` in errors is the endpoint's kind (`token`, `registration`, …), never its address."""

    def __init__(self, egress: Egress, clock: Clock) -> None:
        self._egress = egress
        self._clock = clock

    def check(self, url: object, kind: str) -> str:
        """The URL, if it may be used as this endpoint. Raises OAuthError `oauth_<kind>_endpoint_rejected`."""
        try:
            if not isinstance(url, str):
                raise GatewayError("url_rejected", "it is not a text")
            self._egress.check_url(url)
        except GatewayError as error:
            raise OAuthError(
                f"oauth_{kind}_endpoint_rejected", f"the {kind} endpoint may not be used: {error.message}", where=kind, fix="ask the provider"
            ) from error
        return url

    async def get(self, url: str, kind: str) -> Fetched:
        return await self._send("GET", url, kind, {"accept": "application/json"}, None)

    async def post_json(self, url: str, kind: str, document: Json) -> Fetched:
        body = json.dumps(document, separators=(",", ":")).encode("ascii")
        return await self._send("POST", url, kind, {"accept": "application/json", "content-type": "application/json"}, body)

    async def post_form(self, url: str, kind: str, fields: Mapping[str, str], basic: tuple[str, str] | None = None) -> Fetched:
        headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
        if basic is not None:  # RFC 6749 §2.3.1: each part is form-encoded before the two are joined
            pair = ":".join(quote_plus(part) for part in basic)
            headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        return await self._send("POST", url, kind, headers, urlencode(fields).encode("ascii"))

    async def _send(self, method: str, url: str, kind: str, headers: Mapping[str, str], body: bytes | None) -> Fetched:
        self.check(url, kind)
        try:
            # The deadline is the clock's; the second one is for a clock that stands still.
            with anyio.move_on_after(REAL_TIME_S), Deadline(self._clock, DEADLINE_S):
                # Asked once in a while: a connection kept since the last consent may be gone by now, and a code counts only once.
                async with self._egress.client.stream(method, url, headers={**headers, "connection": "close"}, content=body) as response:
                    raw = await read_bounded(response, BODY_LIMIT)
                    return Fetched(response.status_code, _document(response.headers.get("content-type", ""), raw))
        except httpx2.RequestError as error:
            raise Unanswered(f"the {kind} endpoint could not be reached, or broke off ({type(error).__name__})", kind) from error
        except GatewayError as error:
            raise Unanswered(f"the {kind} endpoint's answer cannot be read: {error.message}", kind) from error
        raise Unanswered(f"the {kind} endpoint did not answer in time", kind)


_JSON = re.compile(r"application/(?:json|[a-z0-9.-]+\+json)")


def _document(kind: str, raw: bytes) -> Json | None:
    if not _JSON.fullmatch(kind.partition(";")[0].strip().lower()):
        return None
    try:
        value = decode(raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) and not deeper_than(value, DEPTH) else None
