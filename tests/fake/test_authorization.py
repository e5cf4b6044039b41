"""The stand-in of an authorization server is as strict as a real one where a client could get away with something."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from starlette.responses import JSONResponse

from harness.clock import TestClock
from harness.errors import UsageError
from harness.fake.authorization import Behaviour
from harness.fake.authorization_front import Consenting, consenting

REDIRECT = "http://127.0.0.1:8977/cb"
VERIFIER = "v" * 50
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
Json = dict[str, Any]


async def echo(scope: Any, receive: Any, send: Any) -> None:
    await JSONResponse({"shown": dict(scope["headers"]).get(b"authorization", b"").decode()})(scope, receive, send)


class Visitor:
    """A client of few words."""

    def __init__(self, standing: Consenting, clock: TestClock, http: httpx2.AsyncClient, known: list[str]) -> None:
        self.server, self.base, self.clock, self.http, self.known = standing.server, standing.base_url, clock, http, known

    async def registered(self) -> str:
        answer = await self.http.post(f"{self.server.issuer}/register", json={"redirect_uris": [REDIRECT]})
        return str(answer.json()["client_id"])

    async def code(self, client: str, **more: str) -> Json:
        asked = {
            "client_id": client,
            "redirect_uri": REDIRECT,
            "state": "s",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "scope": "a",
        }
        answer = await self.http.get(f"{self.server.issuer}/authorize", params=asked | more)
        return dict(parse_qsl(urlsplit(answer.headers.get("location", "")).query)) | {"status": answer.status_code}

    async def token(self, **form: str) -> Json:
        answer = await self.http.post(f"{self.server.issuer}/token", data=form)
        return answer.json() | {"status": answer.status_code}  # type: ignore[no-any-return]

    async def redeemed(self, client: str, **more: str) -> Json:
        code = (await self.code(client)).get("code", "")
        return await self.token(grant_type="authorization_code", code=code, code_verifier=VERIFIER, redirect_uri=REDIRECT, **more)

    async def opened(self, token: str) -> int:
        return (await self.http.post(f"{self.base}/mcp", json={"method": "tools/call"}, headers={"authorization": f"Bearer {token}"})).status_code


@pytest.fixture
def visit() -> Callable[..., None]:
    def run(work: Callable[[Visitor], Awaitable[None]], **behaviour: Any) -> None:
        async def inside() -> None:
            clock, known = TestClock(), list[str]()
            async with consenting(echo, "inner", clock, Behaviour().changed(behaviour), known.append) as standing:
                plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                async with httpx2.AsyncClient(verify=plain, trust_env=False) as http:
                    await work(Visitor(standing, clock, http, known))

        asyncio.run(inside())

    return run


def test_a_code_counts_once_and_only_with_its_verifier_and_redirect(visit: Callable[..., None]) -> None:
    async def work(visitor: Visitor) -> None:
        client = await visitor.registered()
        code = (await visitor.code(client))["code"]
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER, "redirect_uri": REDIRECT}
        assert (await visitor.token(**form))["status"] == 200
        assert (await visitor.token(**form))["error"] == "invalid_grant"
        for change in ({"code_verifier": "x" * 50}, {"redirect_uri": REDIRECT + "/"}):
            fresh = form | {"code": (await visitor.code(client))["code"]} | change
            assert (await visitor.token(**fresh))["error"] == "invalid_grant"

    visit(work)


def test_a_browser_is_never_sent_where_nobody_registered(visit: Callable[..., None]) -> None:
    async def work(visitor: Visitor) -> None:
        client = await visitor.registered()
        assert (await visitor.code(client, redirect_uri="https://evil.example/cb"))["status"] == 400
        assert (await visitor.code("nobody"))["status"] == 400

    visit(work)


def test_a_spent_refresh_token_ends_the_whole_family(visit: Callable[..., None]) -> None:
    async def work(visitor: Visitor) -> None:
        first = await visitor.redeemed(await visitor.registered())
        second = await visitor.token(grant_type="refresh_token", refresh_token=first["refresh_token"])
        assert await visitor.opened(second["access_token"]) == 200
        assert (await visitor.token(grant_type="refresh_token", refresh_token=first["refresh_token"]))["error"] == "invalid_grant"
        assert await visitor.opened(second["access_token"]) == 401
        assert {first["access_token"], first["refresh_token"], second["access_token"], second["refresh_token"]} == set(visitor.known)
        assert not any(secret in str(visitor.server.seen) for secret in visitor.known)

    visit(work)


def test_a_token_ends_with_its_time_and_with_its_consent(visit: Callable[..., None]) -> None:
    async def work(visitor: Visitor) -> None:
        client = await visitor.registered()
        token = (await visitor.redeemed(client))["access_token"]
        await visitor.clock.advance(59)
        assert await visitor.opened(token) == 200
        await visitor.clock.advance(1)
        assert await visitor.opened(token) == 401
        other = (await visitor.redeemed(client))["access_token"]
        visitor.server.withdraw()
        assert await visitor.opened(other) == 401

    visit(work, life_s=60.0)


def test_the_provider_sees_the_account_s_own_credential(visit: Callable[..., None]) -> None:
    async def work(visitor: Visitor) -> None:
        token = (await visitor.redeemed(await visitor.registered()))["access_token"]
        answer = await visitor.http.post(f"{visitor.base}/mcp", json={"method": "x"}, headers={"authorization": f"Bearer {token}"})
        assert answer.json() == {"shown": "Bearer inner"}
        visitor.server.behaviour = visitor.server.behaviour.changed({"demands": ["b"]})
        assert await visitor.opened(token) == 403

    visit(work)


def test_an_unknown_setting_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError) as caught:
        Behaviour().changed({"lifes": 5})
    assert "life_s" in str(caught.value)
