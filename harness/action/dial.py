"""`dial: URL` or `dial: [URL, ...]`: an operator gives the gateway a provider's address, and listeners on loopback tell where it would go.

Every address that a name leads to has a listener of its own, and the gateway's laboratory leads its connections there: no address is
ever dialled, and yet it is witnessed which one would have been.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.outer import Lead, Outer, outer


class Params(Frozen):
    """`names`: host to what it resolves to, one list of addresses after another, the last one for ever."""

    target: str | tuple[str, ...]
    names: Mapping[str, tuple[tuple[str, ...], ...]] = {}


class Dial(Verb[Params]):
    id = "dial"
    summary = "an operator gives the gateway a provider's address; listeners on loopback witness which address it would dial"
    params = Params
    mutates = True
    needs = frozenset({"mapped"})
    example = "dial: https://mcp.example.com/mcp\nnames: {mcp.example.com: [[10.0.0.1]]}"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        gateway = outer(stage.target)
        urls = [params.target] if isinstance(params.target, str) else params.target
        tried = [await _try(gateway, stage.tenant, url, params.names) for url in urls]
        stage.control("dial", tried, phase=phase, step=step.id)
        return Done(answer={"tried": tried})


ACTION = Dial()


async def _try(gateway: Outer, tenant: str, url: str, names: Mapping[str, Sequence[Sequence[str]]]) -> dict[str, Any]:
    host, port = _place(url)
    known = [address for answers in names.values() for answer in answers for address in answer]
    reached: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        witnessed = dict.fromkeys([*known, *([host] if _is_address(host) else []), "127.0.0.1"])
        leads = [Lead(address, port, await stack.enter_async_context(_listener(address, reached))) for address in witnessed]
        await gateway.script(names, leads)
        try:
            answer = await gateway.try_connection(tenant, url)
        finally:
            await gateway.script({}, [])
    return {"url": url, "names": {name: [list(a) for a in answers] for name, answers in names.items()}, **answer, "dialled": reached}


@asynccontextmanager
async def _listener(address: str, reached: dict[str, int]) -> AsyncIterator[int]:
    """Counts who comes, and sends everybody away; yields its port."""

    def came(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached[address] = reached.get(address, 0) + 1
        writer.close()

    server = await asyncio.start_server(came, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


def _place(url: str) -> tuple[str, int]:
    """Host and port as a lenient reader sees them; the gateway is the strict one."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or ""), (parts.port or 443)
    except ValueError:
        return "", 443


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
