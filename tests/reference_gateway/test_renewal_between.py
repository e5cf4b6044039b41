"""A call waits for its connection's token to be renewed; what is decided meanwhile holds for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from harness.clock import TestClock as AuthorizationClock
from harness.fake.authorization import AuthorizationServer, Behaviour
from harness.fake.authorization_front import Front
from harness.fake.kit_store import Ids

from .conftest import SECRET, SUCCESS, TLS, Bench, Provider, Served, denied, gateway_served

REDIRECT = "http://127.0.0.1:8977/oauth/callback"
DUE_S = 3600 - 30
"""When the token has half a minute left, so that it is renewed before a call."""


class Gate:
    """ASGI: what comes for `path` waits, once `shut` is set, until `opened` is."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app = app
        self._path = path
        self.shut = threading.Event()
        self.reached = threading.Event()
        self.opened = threading.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == self._path and self.shut.is_set():
            self.reached.set()
            await asyncio.to_thread(self.opened.wait, 20)
        await self._app(scope, receive, send)


@dataclass
class Consented:
    bench: Bench
    gate: Gate


@contextmanager
def consented() -> Iterator[Consented]:
    """A connection `notes` whose provider takes tokens of an authorization server, which may be made to wait with the next one."""
    clock = AuthorizationClock(datetime(2026, 1, 1, tzinfo=UTC))
    server = AuthorizationServer(clock, Behaviour(scopes=("graph:read",)), Ids("authorization", "x"), lambda secret: None)
    provider, gate = Provider(), Gate(server.app(), "/token")
    with ExitStack() as stack:
        server.issuer = f"http://127.0.0.1:{stack.enter_context(Served(gate)).port}"
        provider.port = stack.enter_context(Served(Front(provider.app(), SECRET, server))).port
        server.resource_url = provider.url
        stack.callback(gate.opened.set)
        operator = stack.enter_context(gateway_served())
        bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
        bench.op("POST", "/setups", {"connector": "zep", "name": "notes", "endpoint": provider.url, "quarantine": False})
        asked = bench.op("POST", "/setups/notes/authorize", {"redirect_uri": REDIRECT})
        with httpx2.Client(verify=TLS, trust_env=False) as browser:
            came_back = dict(parse_qsl(urlsplit(browser.get(asked["authorization_url"]).headers["location"]).query))
        given = {name: came_back[name] for name in ("state", "code", "iss") if name in came_back}
        bench.op("POST", "/oauth/callback", {"redirect_uri": REDIRECT, **given})
        assert bench.op("GET", "/connections/notes")["status"] == "active"
        yield Consented(bench, gate)


MEANWHILE: dict[str, tuple[Callable[[Bench, str], Any], str]] = {
    "switched off": (lambda bench, run: bench.permit(add_note="off"), "tool_off"),
    "revoked": (lambda bench, run: bench.op("POST", "/connections/notes/revoke"), "grant_revoked"),
    "the run ended": (lambda bench, run: bench.op("POST", f"/runs/{run}/end"), "run_ended"),
    "forbidden": (lambda bench, run: bench.op("PUT", "/policies", {"policies": [{"id": "x", "permission": "off"}]}), "policy_block"),
    "nothing": (lambda bench, run: None, ""),
}


@pytest.mark.parametrize("what", MEANWHILE)
def test_what_is_decided_while_a_token_is_renewed_holds_for_the_call_that_waits_for_it(what: str) -> None:
    act, reason = MEANWHILE[what]
    with consented() as consent, ThreadPoolExecutor() as pool:
        bench, gate = consent.bench, consent.gate
        run, token = bench.run(ttl_s=3600)
        bench.advance(DUE_S)
        gate.shut.set()
        calling = pool.submit(bench.call, token, "add_note", {"text": "x"})
        assert gate.reached.wait(15)
        act(bench, run)
        gate.opened.set()
        meta = calling.result(20)["_meta"]
        assert bench.trail(run) == (denied(reason) if reason else SUCCESS)
        assert (meta["gateway/outcome"], meta.get("gateway/reason", "")) == ("denied" if reason else "success", reason)
        assert len(bench.provider.calls) == (0 if reason else 1)
        assert sum(record["event"] == "token_renewed" for record in bench.records()) == 1
