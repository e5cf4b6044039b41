"""The server requirement sets, run against the gateway with a small server of ours behind it: what crosses a gateway, and what is lost."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2

from conformance.installed import Suite
from conformance.token_front import fronted

REVISIONS = ("2025-11-25", "2026-07-28")
BASELINE = "server-baseline.yaml"
OFFERS = ["resources", "prompts", "completion", "logging", "subscriptions", "sampling", "elicitation", "roots"]
TENANT = "conformance"
READY_S = 60.0

Json = dict[str, Any]


async def run(suite: Suite) -> bool:
    """Whether every scored scenario of both sets passed, or stands in the baseline with its reason; and whether the record tells of it."""
    good = True
    async with started() as (url, operator):
        for revision in REVISIONS:
            good = await suite.run("server", revision, BASELINE, "--url", url) and good
        records = await audited(operator)
    sys.stdout.write(f"the gateway recorded {records['tools']} tool calls and {records['passed']} requests that it passed on\n")
    return good and records["tools"] > 0 and records["passed"] > 0


@asynccontextmanager
async def started() -> AsyncIterator[tuple[str, httpx2.AsyncClient]]:
    """The address for the suite, which carries no token, and the operator's door."""
    token = secrets.token_hex(24)
    async with AsyncExitStack() as stack:
        fixture = await stack.enter_async_context(child("conformance.fixture_server"))
        gateway = await stack.enter_async_context(child("reference_gateway", "--allow-loopback", GATEWAY_OPERATOR_TOKEN=token))
        operator = await stack.enter_async_context(
            httpx2.AsyncClient(base_url=gateway["operator"], headers={"authorization": f"Bearer {token}"}, trust_env=False, timeout=30)
        )
        await done(operator, "/tenants", {"tenant": TENANT})
        connection = {"name": "fixture", "provider": "generic", "transport": "mcp_http", "url": fixture["url"], "offers": OFFERS}
        await done(operator, f"/tenants/{TENANT}/connections", connection)
        made = await done(operator, f"/tenants/{TENANT}/runs", {"connections": ["fixture"], "task": "suite", "agent": "suite", "ttl_s": 3600})
        yield await stack.enter_async_context(fronted(gateway["mcp"], made["token"])), operator


@asynccontextmanager
async def child(module: str, *arguments: str, **environment: str) -> AsyncIterator[Json]:
    """A process of ours, which says in one line of JSON that it is ready and ends with its standard input."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", module, *arguments, stdin=pipe, stdout=pipe, env={"PATH": "", **environment})
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(READY_S):
            line = await process.stdout.readline()
        yield json.loads(line)
    finally:
        process.stdin.close()
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def done(operator: httpx2.AsyncClient, path: str, body: Json) -> Json:
    answer = await operator.post(path.removeprefix("/"), json=body)
    answer.raise_for_status()
    found: Json = answer.json()
    return found


async def audited(operator: httpx2.AsyncClient) -> dict[str, int]:
    counts, after = {"tools": 0, "passed": 0}, 0
    while True:
        page = (await operator.get(f"tenants/{TENANT}/audit", params={"after": after})).json()["records"]
        if not page:
            return counts
        counts["tools"] += sum(record["event"] == "call_started" for record in page)
        counts["passed"] += sum(record["event"] == "passed_on" for record in page)
        after = page[-1]["seq"]
