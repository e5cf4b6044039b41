"""Signing in at a provider: the gateway's own OAuth broker does it, and its vault keeps what comes of it.

We hand the person an address, catch the browser when it comes back to loopback, and hand what it brought to the gateway. No token ever
passes through here.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from harness.clock import Clock
from harness.errors import CredentialsMissing, HarnessError, Incomplete, Untestable, UsageError
from harness.fake.kit import serve_app
from harness.live.endpoint import host_of
from harness.live.home import TENANT, note_signed_in, prepare
from harness.live.options import LiveOptions
from harness.model.exchange import Sequencer
from harness.model.manifest import Manifest
from harness.tap.server import Tap
from harness.target.base import LaunchOptions, Target

WAIT_S = 600.0
PATH = "/callback"
BROUGHT = ("state", "code", "iss", "error", "error_description", "error_uri")
SUBJECT = f"user-{TENANT}"
"""Whose personal grant it is; live runs act for the same person."""

Tell = Callable[[str], None]


class Operated(Protocol):
    """A gateway whose operator API we may call directly."""

    async def ask(self, method: str, path: str, body: Any = None, *, timeout: float = 15.0) -> Any: ...


@dataclass
class Returned:
    """The browser, once it came back."""

    query: asyncio.Future[Mapping[str, str]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    async def arrived(self, request: Request) -> Response:
        if not self.query.done():
            self.query.set_result({key: request.query_params[key] for key in BROUGHT if key in request.query_params})
        return PlainTextResponse("You may close this window and go back to the terminal.")


@asynccontextmanager
async def callback() -> AsyncIterator[tuple[str, Returned]]:
    """A listener on loopback, on a port that the system chooses (RFC 8252), for as long as the block lasts."""
    returned = Returned()
    async with serve_app(Starlette(routes=[Route(PATH, returned.arrived, methods=["GET"])])) as base:
        yield base + PATH, returned


async def login(manifest: Manifest, options: LiveOptions, target: Target, clock: Clock, tell: Tell, *, wait_s: float = WAIT_S) -> Mapping[str, Any]:
    """Raises UsageError for a provider that needs no signing in, CredentialsMissing when consent was refused, Incomplete when nobody came back."""
    if manifest.auth.scheme != "oauth":
        names = " and ".join(manifest.auth.env)
        raise UsageError(f"{manifest.id} is not signed in to: it takes {names}", where="PROVIDER", fix="set them in the environment or in .env")
    prepare(options.home)
    async with AsyncExitStack() as stack:
        launch = LaunchOptions(work_dir=options.home, allow_loopback=False, store=options.home)
        if manifest.id in options.rehearse:
            tap = await stack.enter_async_context(Tap(clock, Sequencer()))
            tap.mount(manifest.id, options.rehearse[manifest.id], host=host_of(manifest))
            launch = LaunchOptions(
                work_dir=options.home, allow_loopback=False, store=options.home, mapped={host_of(manifest): tap.tls_address}, ca_file=tap.ca_file
            )
        gateway = await stack.enter_async_context(target.launch(launch))
        if not hasattr(gateway, "ask"):
            raise Untestable(f"target {target.id} has no broker to sign in with", where="--target", fix="use --target reference")
        found = await _through_browser(gateway, manifest, tell, wait_s)
    note_signed_in(options.home, manifest.id, clock.now().isoformat())
    return found


async def _through_browser(gateway: Any, manifest: Manifest, tell: Tell, wait_s: float) -> Mapping[str, Any]:
    operated: Operated = gateway
    base = f"/tenants/{TENANT}"
    await operated.ask("POST", "/tenants", {"tenant": TENANT})
    await _set_up(operated, base, manifest)
    session = secrets.token_hex(16)
    async with callback() as (redirect_uri, returned):
        begun = await operated.ask("POST", f"{base}/setups/{manifest.id}/authorize", {"session": session, "redirect_uri": redirect_uri}, timeout=60.0)
        url = begun.get("authorization_url")
        if not url:
            raise Incomplete(f"the gateway gave no address to consent at: {begun.get('problem')}", where=manifest.id, fix="see gateway.log")
        tell(str(url))
        try:
            async with asyncio.timeout(wait_s):
                query = await returned.query
        except TimeoutError:
            raise Incomplete(f"nobody came back within {wait_s:g} s", where=manifest.id, fix="run harness login again") from None
    try:
        done = await operated.ask("POST", f"{base}/oauth/callback", {**query, "redirect_uri": redirect_uri, "session": session}, timeout=60.0)
    except HarnessError as error:
        if query.get("error"):
            raise CredentialsMissing(
                f"consent was refused ({query['error']})", where=manifest.id, fix="run harness login again, and agree"
            ) from error
        raise
    return dict(done)


async def _set_up(operated: Operated, base: str, manifest: Manifest) -> None:
    """The connection, as a draft; one that is there already is authorized again."""
    body = {"connector": manifest.id, "name": manifest.id, "grant": {"kind": "personal", "subject": SUBJECT}}
    try:
        await operated.ask("POST", f"{base}/setups", body)
    except HarnessError as error:
        if getattr(error, "code", "") != "connection_exists":
            raise
