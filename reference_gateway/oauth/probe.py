"""Knocking at a provider's door: the challenge it gives to strangers, and whether it takes a token. The answer's body is not read."""

from __future__ import annotations

import anyio
import httpx2

from reference_gateway.clock import Clock, Deadline
from reference_gateway.egress import Egress
from reference_gateway.oauth.challenge import Challenge, bearer_challenge
from reference_gateway.oauth.errors import OAuthError
from reference_gateway.oauth.fetch import DEADLINE_S, REAL_TIME_S, Unanswered
from reference_gateway.wire import encode

# Asks for nothing and opens nothing: whoever lets us in says that there is no session, or answers.
_KNOCK = encode({"jsonrpc": "2.0", "id": "knock", "method": "ping"})
_HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json", "connection": "close"}


async def knock(egress: Egress, clock: Clock, url: str) -> Challenge | None:
    """The Bearer challenge of a provider that turns strangers away; None when it names none. Raises OAuthError `oauth_challenge_unusable`."""
    response = await _send(egress, clock, url, _HEADERS)
    challenge = bearer_challenge(response.headers.get_list("www-authenticate"))
    if response.status_code == 401 and challenge is None and response.headers.get("www-authenticate"):
        raise OAuthError(
            "oauth_challenge_unusable", "the provider's challenge is none that a bearer token answers", where="provider", fix="ask the provider",
            http_status=502,
        )  # fmt: skip
    return challenge


async def lets_in(egress: Egress, clock: Clock, url: str, token: str) -> bool:
    """Whether the provider answers the token with anything but 401 and 403."""
    response = await _send(egress, clock, url, {**_HEADERS, "authorization": f"Bearer {token}"})
    return response.status_code not in (401, 403)


async def _send(egress: Egress, clock: Clock, url: str, headers: dict[str, str]) -> httpx2.Response:
    try:
        with anyio.move_on_after(REAL_TIME_S), Deadline(clock, DEADLINE_S):
            async with egress.client.stream("POST", url, headers=headers, content=_KNOCK) as response:
                return response
    except httpx2.RequestError as error:
        raise Unanswered(f"the provider could not be reached, or broke off ({type(error).__name__})", "provider") from error
    raise Unanswered("the provider did not answer in time", "provider")
