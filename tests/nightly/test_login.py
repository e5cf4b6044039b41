"""Signing in through the gateway's broker, and a live run on what it keeps; the provider and its authorization server play one real host."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from harness.clock import SystemClock
from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan, target_for
from harness.engine.run import run_plan
from harness.engine.vocabulary import manifests
from harness.errors import CredentialsMissing, Incomplete, UsageError
from harness.fake.authorization import AuthorizationServer, Behaviour
from harness.fake.authorization_front import Front
from harness.fake.kit import Account, serve, serve_app
from harness.fake.kit_store import Ids
from harness.live.options import LiveOptions, signed_in
from harness.model.verdict import Results
from harness.nightly.login import login
from harness.scenario.files import data_root
from tests.live.conftest import in_loop

HOST = "https://api.getzep.com"
KEY = "zep-account-behind-consent"


@dataclass
class Zep:
    """Everything that Zep's one host serves, on loopback."""

    base: str
    server: AuthorizationServer
    secrets: list[str] = field(default_factory=list)

    async def agree(self, url: str) -> None:
        """What a person does in a browser: open the address, and be sent back."""
        asked = urlsplit(url)
        assert f"{asked.scheme}://{asked.netloc}" == HOST
        async with httpx2.AsyncClient(trust_env=False, verify=False) as browser:
            sent = await browser.get(f"{self.base}{asked.path}?{asked.query}")
            await browser.get(sent.headers["location"])


async def zep(stack: AsyncExitStack, **behaviour: Any) -> Zep:
    clock = SystemClock()
    fake = await stack.enter_async_context(serve("zep", clock))
    fake.admit(Account(KEY, "you"))
    fake.configure(KEY, index_delay_s=60.0)
    secrets: list[str] = []
    server = AuthorizationServer(clock, Behaviour(scopes=("graph:read", "graph:write"), **behaviour), Ids("authorization", KEY), secrets.append)
    server.issuer, server.resource_url = HOST, f"{HOST}/mcp"
    own = server.app()
    front: ASGIApp = Front(fake.built.app, KEY, server)
    whole = Starlette(routes=[*own.routes, Route("/mcp", front, methods=["GET", "POST", "DELETE"]), Mount("/", front)])
    return Zep(await stack.enter_async_context(serve_app(whole)), server, secrets)


async def sign_in(there: Zep, home: Path, *, wait_s: float = 60.0, comes_back: bool = True) -> Mapping[str, Any]:
    told: list[asyncio.Task[None]] = []

    def tell(url: str) -> None:
        if comes_back:
            told.append(asyncio.ensure_future(there.agree(url)))

    options = LiveOptions(rehearse={"zep": there.base}, home=home)
    return await login(manifests(data_root())["zep"], options, target_for("reference"), SystemClock(), tell, wait_s=wait_s)


def test_a_sign_in_opens_live_runs_and_its_tokens_stay_in_the_vault(tmp_path: Path) -> None:
    home = tmp_path / "home"

    async def scene(stack: AsyncExitStack) -> tuple[Results, Zep]:
        there = await zep(stack)
        done = await sign_in(there, home)
        assert done["state"] == "authorized"
        live = LiveOptions(allow_write=True, rehearse={"zep": there.base}, home=home)
        plan = make_plan(["MEM-4"], level="live", protocol="2026-07-28", live=live, paths=list(data_root().glob("scenarios/memory/MEM-4.yaml")))
        await run_plan(plan, jobs=1, evidence=tmp_path / "run" / "evidence.jsonl", run_id="20261201T000000Z-abcdef", live=live)
        return judge(read_evidence(tmp_path / "run" / "evidence.jsonl")), there

    results, there = in_loop(scene)
    (verdict,) = results.verdicts
    assert verdict.outcome == "pass", verdict.findings
    assert verdict.level == "fake"
    assert "zep" in signed_in(home)
    assert len(there.secrets) >= 2
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert [secret for secret in there.secrets if secret.encode() in written] == []


def test_refused_consent_is_exit_3_and_signs_nobody_in(tmp_path: Path) -> None:
    async def scene(stack: AsyncExitStack) -> None:
        with pytest.raises(CredentialsMissing) as caught:
            await sign_in(await zep(stack, person="refuses"), tmp_path)
        assert "refused" in caught.value.what

    in_loop(scene)
    assert dict(signed_in(tmp_path)) == {}


def test_nobody_comes_back(tmp_path: Path) -> None:
    async def scene(stack: AsyncExitStack) -> None:
        with pytest.raises(Incomplete):
            await sign_in(await zep(stack), tmp_path, wait_s=0.05, comes_back=False)

    in_loop(scene)
    assert dict(signed_in(tmp_path)) == {}


def test_a_provider_with_a_key_needs_no_sign_in(tmp_path: Path) -> None:
    manifest = manifests(data_root())["mem0"]
    with pytest.raises(UsageError):
        asyncio.run(login(manifest, LiveOptions(home=tmp_path), target_for("reference"), SystemClock(), print))
