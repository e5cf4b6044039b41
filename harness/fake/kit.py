"""What every stand-in shares: accounts and their consent, the contract, the credential gate, and serving on loopback.

The MCP surface is in kit_mcp, ids, pages and search in kit_store.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Generic, Literal, Protocol, TypeVar

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

import harness.fake
from harness.clock import Clock
from harness.errors import PortInUse, Unreachable, UsageError
from harness.registry import Registry, discover_plugins, suggest

S = TypeVar("S")
JsonObject = dict[str, Any]

ANY_TOOL = "*"
_STOP_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class Consent:
    """What the holder of a credential agreed to. `tags` None means all of them; only providers with tags look at it."""

    access: Literal["read", "read_write"] = "read_write"
    tags: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Account:
    """A credential that is accepted, and the empty store behind it. Different credentials never see one another's data.

    `clock`: this account's own time, where it must move without moving the others'; else the serving clock.
    """

    credential: str
    name: str
    consent: Consent = Consent()
    clock: Clock | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Knobs of one account; a provider may add its own by subclassing. Seconds are seconds of the serving clock.

    index_delay_s       what is written from now on becomes ready this much later
    latency_s           tool (or "*") → wait before the tool takes effect
    answer_latency_s    tool (or "*") → wait after the effect, before the answer: a caller who gives up does not know the outcome
    fail                tool (or "*") → message of an internal error, in the provider's own shape
    """

    index_delay_s: float = 0.0
    latency_s: Mapping[str, float] = field(default_factory=dict)
    answer_latency_s: Mapping[str, float] = field(default_factory=dict)
    fail: Mapping[str, str] = field(default_factory=dict)

    def of(self, table: Mapping[str, S], tool: str) -> S | None:
        """The entry for `tool`, else the one for all tools."""
        return table.get(tool, table.get(ANY_TOOL))


@dataclass(frozen=True, slots=True)
class Entry(Generic[S]):
    account: Account
    store: S
    settings: Any  # a Settings, or the provider's subclass of it


class AccountBook(Generic[S]):
    """Credential → account, store and settings. The one mutable thing a stand-in holds."""

    def __init__(self, provider_id: str, new_store: Callable[[Account], S], defaults: Settings | None = None) -> None:
        self._provider_id = provider_id
        self._new_store = new_store
        self._defaults = defaults or Settings()
        self._entries: dict[str, Entry[S]] = {}

    def admit(self, account: Account) -> None:
        """Accept the credential from now on. Admitting it again replaces its consent and keeps its store."""
        known = self._entries.get(account.credential)
        store = known.store if known else self._new_store(account)
        self._entries[account.credential] = Entry(account, store, known.settings if known else self._defaults)

    def revoke(self, credential: str) -> None:
        """Forget the credential and its store; unknown ones are ignored."""
        self._entries.pop(credential, None)

    def configure(self, credential: str, **settings: object) -> None:
        """Replace settings by name. Raises UsageError for an unknown credential or setting."""
        entry = self._entries.get(credential)
        if entry is None:
            raise UsageError("settings for a credential that was not admitted", where=f"fake {self._provider_id}", fix="admit the account first")
        known = [f.name for f in fields(self._defaults)]
        for name in settings:
            if name not in known:
                raise UsageError(f"unknown setting {name!r}", where=f"fake {self._provider_id}", fix=suggest(name, known))
        self._entries[credential] = replace(entry, settings=replace(entry.settings, **settings))

    def find(self, credential: str | None) -> Entry[S] | None:
        return self._entries.get(credential) if credential is not None else None


class FakeApp(Protocol):
    """A stand-in that is built but not yet served. `path` is "/mcp", "/mcp/", "/" or "" and starts with a slash if not empty."""

    @property
    def app(self) -> ASGIApp: ...
    @property
    def path(self) -> str: ...
    def admit(self, account: Account) -> None: ...
    def revoke(self, credential: str) -> None: ...
    def configure(self, credential: str, **settings: object) -> None: ...


class FakeProvider(Protocol):
    """What a provider's module declares as FAKE. `assumed_shapes` names the tools whose schema nobody outside has seen."""

    @property
    def id(self) -> str: ...
    @property
    def assumed_shapes(self) -> frozenset[str]: ...
    def build(self, clock: Clock) -> FakeApp: ...


def bearer(headers: Headers) -> str | None:
    """The token of an `Authorization: Bearer` header, else None."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


@dataclass(frozen=True, slots=True)
class Challenge:
    """How a provider turns away a stranger. With `scopes`, an OAuth one: the header points at RFC 9728 metadata, which is served too."""

    realm: str
    missing: JsonObject
    invalid: JsonObject
    scopes: tuple[str, ...] | None = None
    issuer_path: str = ""


_NOT_FOUND = JSONResponse({"error": "not_found"}, 404)


class Gate:
    """ASGI: checks the credential on `path` (with or without a final slash) and passes on to the app's own "/mcp".

    Other paths go to `beside`, which looks after its own credentials, or are not found.
    """

    def __init__(self, inner: ASGIApp, book: AccountBook[Any], path: str, challenge: Challenge, beside: ASGIApp | None = None) -> None:
        self._inner = inner
        self._beside = beside
        self._book = book
        self._path = path.rstrip("/")
        self._challenge = challenge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = Headers(scope=scope)
        base = f"{scope['scheme']}://{headers.get('host', '')}"
        path = scope["path"].rstrip("/")
        if path != self._path:
            await (self._metadata(base, path) or self._beside or _NOT_FOUND)(scope, receive, send)
            return
        credential = bearer(headers)
        if self._book.find(credential) is None:
            await self._refusal(base, credential)(scope, receive, send)
            return
        await self._inner({**scope, "path": "/mcp", "raw_path": b"/mcp"}, receive, send)

    def _metadata_path(self) -> str:
        return f"/.well-known/oauth-protected-resource{self._path}"

    def _metadata(self, base: str, path: str) -> JSONResponse | None:
        scopes = self._challenge.scopes
        if scopes is None or path not in (self._metadata_path(), "/.well-known/oauth-protected-resource"):
            return None
        return JSONResponse(
            {
                "resource": base + self._path,
                "authorization_servers": [base + self._challenge.issuer_path],
                "scopes_supported": list(scopes),
                "bearer_methods_supported": ["header"],
            }
        )

    def _refusal(self, base: str, credential: str | None) -> JSONResponse:
        parts = [f'realm="{self._challenge.realm}"']
        if credential is not None:
            parts.append('error="invalid_token"')
        if self._challenge.scopes is not None:
            parts.append(f'resource_metadata="{base}{self._metadata_path()}"')
        body = self._challenge.missing if credential is None else self._challenge.invalid
        return JSONResponse(body, 401, {"WWW-Authenticate": "Bearer " + ", ".join(parts)})


@cache
def providers() -> Registry[FakeProvider]:
    """Every stand-in of this folder, by id."""
    return discover_plugins(harness.fake, "FAKE", "fake")


@dataclass(frozen=True, slots=True)
class RunningFake:
    """A served stand-in: `mcp_url` = `base_url` + `path`."""

    id: str
    base_url: str
    path: str
    built: FakeApp

    @property
    def mcp_url(self) -> str:
        return self.base_url + self.path

    def admit(self, account: Account) -> None:
        self.built.admit(account)

    def revoke(self, credential: str) -> None:
        self.built.revoke(credential)

    def configure(self, credential: str, **settings: object) -> None:
        self.built.configure(credential, **settings)


@asynccontextmanager
async def serve(provider_id: str, clock: Clock, *, port: int = 0) -> AsyncIterator[RunningFake]:
    """Run one stand-in inside this event loop; port 0 lets the system choose. Raises UsageError, PortInUse or Unreachable."""
    built = providers().need(provider_id).build(clock)
    async with serve_app(built.app, port=port) as base_url:
        yield RunningFake(provider_id, base_url, built.path, built)


@asynccontextmanager
async def serve_app(app: ASGIApp, *, port: int = 0) -> AsyncIterator[str]:
    """Any ASGI application on 127.0.0.1, for as long as the block lasts; yields its base URL."""
    # Named as TCP, or asyncio leaves Nagle on, and an answer sent in two parts waits 40 ms for the delayed acknowledgement of the first.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise PortInUse(f"port {port} cannot be bound: {error.strerror}", where=f"127.0.0.1:{port}", fix="leave the port out") from error
    base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    served = _leaving(app, lambda: server.leave.is_set())
    server = _Server(uvicorn.Config(served, http="h11", ws="none", lifespan="on", log_level="warning", access_log=False))
    task = asyncio.create_task(server._serve([listener]))  # serve() would take over the process's signal handlers
    ready = asyncio.create_task(server.ready.wait())
    try:
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task  # says why it did not start
        yield base_url
    finally:
        ready.cancel()
        server.leave.set()
        if server.ready.is_set():
            await task
        listener.close()


def _leaving(app: ASGIApp, leaving: Callable[[], bool]) -> ASGIApp:
    """The app, whose calls still parked when the stand-in is stopped end without a word: they are cancelled, nothing broke."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            if not leaving():
                raise

    return served


class _Server(uvicorn.Server):
    """uvicorn without its polling: events say when it is ready and when to leave."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self.leave = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit as ended:  # what uvicorn does when the application's own start-up fails
            raise Unreachable("the stand-in did not start", fix="the error that was logged just before says why") from ended

    async def main_loop(self) -> None:
        await self.on_tick(0)
        self.ready.set()
        await self.leave.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Hang up first, so that standing streams and parked calls end by themselves; cancel what is left."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await self.lifespan.shutdown()
        tasks = set(self.server_state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_STOP_GRACE_S)
            for task in late:
                task.cancel()
