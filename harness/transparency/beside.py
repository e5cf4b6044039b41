"""Further connections beside the glass's own, each with a provider of its own, and one agent session that reaches them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass

from harness.errors import HarnessError, Incomplete
from harness.target.base import ConnectionRequest, RunGrant
from harness.target.joint import AtOnce, Joins
from harness.target.names import Naming
from harness.transparency.client import Agent, agent
from harness.transparency.lab import PATH, Lab, served
from harness.transparency.lab_tools import Wire
from harness.transparency.measure import SECRET, TENANT, Glass, must_live, request_for


@dataclass(frozen=True, slots=True)
class Beside:
    """`labs`: connection → its provider. `naming`: how this session shows tools, where it shows them otherwise than a single connection's."""

    glass: Glass
    labs: Mapping[str, Lab]
    agent: Agent
    naming: Naming | None = None

    def shown(self, connection: str, tool: str) -> str:
        return self.naming.shown(connection, tool) if self.naming is not None else self.glass.gateway.exposed_name(connection, tool)


class Refused(Incomplete):
    """The gateway would not have these connections."""


def reaches_several(glass: Glass) -> bool:
    """Whether one agent session can reach several providers through this gateway."""
    return "several" in glass.seat.target.abilities or isinstance(glass.gateway, Joins)


@asynccontextmanager
async def beside(glass: Glass, tools: Mapping[str, Sequence[Wire]]) -> AsyncIterator[Beside]:
    """Connects them in this order, and disconnects them again.

    Raises Refused when the gateway will not have them, Unreachable when it is gone or lets no session in.
    """
    async with AsyncExitStack() as stack:
        labs = {name: await stack.enter_async_context(served(SECRET, listed)) for name, listed in tools.items()}
        requests = []
        for name, lab in labs.items():
            mount = glass.tap.mount(name, lab.url)
            stack.callback(mount.close)
            requests.append(request_for(glass.seat, mount.url(PATH), name))
        grant, naming = await stack.enter_async_context(_granted(glass, requests))
        async with agent(grant.url, glass.http, grant.token, glass.seat.protocol) as session:
            yield Beside(glass, labs, session, naming)


@asynccontextmanager
async def _granted(glass: Glass, requests: Sequence[ConnectionRequest]) -> AsyncIterator[tuple[RunGrant, Naming | None]]:
    if len(requests) > 1 and "several" not in glass.seat.target.abilities and isinstance(glass.gateway, Joins):
        async with AsyncExitStack() as stack:
            with _refusal(glass):
                joint = await stack.enter_async_context(glass.gateway.joined(TENANT, requests))
            yield joint.grant, joint.naming
        return
    made: list[str] = []
    try:
        with _refusal(glass):
            async with _at_once(glass):
                for request in requests:
                    await glass.gateway.connect(TENANT, request)
                    made.append(request.name)
        yield await glass.gateway.start_run(TENANT, made, task="cases", agent="transparency", subject="user-lab"), None
    finally:
        async with _at_once(glass):
            for name in made:
                await glass.gateway.disconnect(TENANT, name)


@contextmanager
def _refusal(glass: Glass) -> Iterator[None]:
    """What goes wrong in connecting is a refusal, as long as the gateway itself still lives."""
    try:
        yield
    except HarnessError as error:
        must_live(glass)
        raise Refused(error.what, where=error.where, fix=error.fix) from error


def _at_once(glass: Glass) -> AbstractAsyncContextManager[None]:
    return glass.gateway.at_once(TENANT) if isinstance(glass.gateway, AtOnce) else nullcontext()
