"""Stand-in for Papr Memory API v1, as far as its document describes seven of its operations; where it contradicts itself, as decided here:

a search without a user is the authenticated user's; deleting all with a credential alone deletes the developer's own memories; content is
counted in bytes of UTF-8. It answers from memory by shared words and runs no model. Statuses of errors are those of the vendor's published
description of the same version; their texts are our own. It is HTTP on loopback, and the gateway reaches it as https through the tap.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Generic, Literal, TypeVar

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from harness.clock import Clock
from harness.fake.kit import Account, AccountBook, Entry, JsonObject, Settings, bearer
from harness.fake.kit_store import Ids
from harness.fake.papr_bodies import (
    MOST_CONTENT_BYTES,
    AddQuery,
    Batch,
    Body,
    DeleteAllQuery,
    DeleteQuery,
    Item,
    Nothing,
    Search,
    SearchQuery,
    Update,
)
from harness.fake.papr_store import Memory, Store, User
from harness.fake.papr_webhook import Unfit, Webhooks

B = TypeVar("B", bound=Body)
Q = TypeVar("Q", bound=Body)

_MOST_BYTES: Final = 10_000_000
_COMPRESSED_FROM: Final = 1025
"""Larger than 1 KB is compressed, when asked for."""


@dataclass(frozen=True, slots=True)
class PaprSettings(Settings):
    """The operations that latency and failures are keyed by are the seven tools of the bridge.

    accepts        in which of the three ways this account's credential is presented; in another header it is unknown
    expires_in_s   seconds from now until the credential is no longer accepted
    failing_items  indices of a batch that fail by themselves, whatever they hold
    answers        tool → JSON that is sent with status 200 in place of the true answer; effects still happen
    """

    accepts: Literal["api_key", "session_token", "bearer"] = "api_key"
    expires_in_s: float | None = None
    failing_items: tuple[int, ...] = ()
    answers: Mapping[str, Any] = field(default_factory=dict)


class Refused(Exception):
    """Answered with the envelope of an error."""

    def __init__(self, code: int, error: str, details: Any = None) -> None:
        super().__init__(error)
        self.code = code
        self.error = error
        self.details = details


@dataclass(frozen=True, slots=True)
class Asked(Generic[B, Q]):
    """One authenticated request, typed. `memory_id` is "" where the path has none."""

    store: Store
    settings: PaprSettings
    now: datetime
    body: B
    query: Q
    memory_id: str
    webhooks: Webhooks

    @property
    def delay(self) -> timedelta:
        return timedelta(seconds=self.settings.index_delay_s)

    def memory(self, organization: str | None = None, namespace: str | None = None) -> Memory:
        found = self.store.find(self.memory_id, organization, namespace)
        if found is None:
            raise Refused(404, "Memory not found")
        return found


def _sized(content: str) -> str:
    """400 for a blank content, 413 for one that is too long."""
    if not content.strip():
        raise Refused(400, "content must not be blank", {"field": "content"})
    size = len(content.encode())
    if size > MOST_CONTENT_BYTES:
        raise Refused(413, f"content has {size} bytes, more than {MOST_CONTENT_BYTES}", {"max_content_length": MOST_CONTENT_BYTES})
    return content


def _user_of(store: Store, item: Item, user_id: str | None = None, external: str | None = None) -> User:
    """The request's users before the item's own, and those before its metadata's."""
    metadata = item.metadata
    ways = ((user_id, external), (item.user_id, item.external_user_id), (metadata.user_id, metadata.external_user_id) if metadata else (None, None))
    user = store.user(*next((way for way in ways if way != (None, None)), (None, None)), make=True)
    assert user is not None  # it was to be made
    return user


async def _add(request: Asked[Item, AddQuery]) -> JsonObject:
    _sized(request.body.content)
    graph = not request.query.skip_background_processing
    memory = request.store.add(request.body, _user_of(request.store, request.body), request.now, request.delay, graph=graph)
    return {"code": 200, "status": "success", "data": [memory.added()], "error": None, "details": None}


async def _update(request: Asked[Update, Nothing]) -> JsonObject:
    memory = request.memory(request.body.organization_id, request.body.namespace_id)
    if request.body.content is not None:
        _sized(request.body.content)
    request.store.change(memory, request.body, request.now, request.delay)
    done = {"pinecone": True, "neo4j": True, "parse": True}
    return {"code": 200, "status": "success", "memory_items": [memory.updated()], "message": "Memory updated", "status_obj": done, "error": None}


async def _delete(request: Asked[Nothing, DeleteQuery]) -> JsonObject:
    memory = request.memory()
    del request.store.memories[memory.id]
    gone = {"pinecone": True, "neo4j": True, "parse": not request.query.skip_parse, "qdrant": True}
    ids = {"memoryId": memory.id, "objectId": memory.object_id}
    return {"code": 200, "status": "success", "message": "Memory deleted", "error": None, **ids, "deletion_status": gone, "details": None}


async def _get(request: Asked[Nothing, Nothing]) -> JsonObject:
    data = {"memories": [request.memory().shown()], "nodes": []}
    return {"code": 200, "status": "success", "data": data, "error": None, "details": None, "search_id": None}


async def _batch(request: Asked[Batch, AddQuery]) -> JsonObject:
    """What cannot be stored is told by index; the rest is stored. Nothing is, where the webhook may not be dialled."""
    body, store = request.body, request.store
    address = ""
    if body.webhook_url is not None:
        try:
            address = await request.webhooks.judge(body.webhook_url)
        except Unfit as unfit:
            raise Refused(400, f"webhook_url is refused: {unfit}", {"field": "webhook_url"}) from None
    stored: list[Memory] = []
    errors: list[JsonObject] = []
    for index, item in enumerate(body.memories):
        try:
            if index in request.settings.failing_items:
                raise Refused(500, "the memory could not be stored")
            _sized(item.content)
        except Refused as refused:
            errors.append({"index": index, "error": refused.error, "code": refused.code, "status": "error", "details": refused.details})
            continue
        whole = item.model_copy(update=_inherited(body, item))
        user = _user_of(store, item, body.user_id, body.external_user_id)
        stored.append(store.add(whole, user, request.now, request.delay, graph=not request.query.skip_background_processing))
    answer = _totals(stored, errors, "stored")
    if body.webhook_url is not None:
        told = {key: answer[key] for key in ("status", "total_processed", "total_successful", "total_failed")}
        store.deliveries.append(await request.webhooks.deliver(body.webhook_url, address, body.webhook_secret, told))
    return answer


def _inherited(body: Batch, item: Item) -> dict[str, Any]:
    names = ("organization_id", "namespace_id", "graph_generation")
    return {name: getattr(body, name) for name in names if getattr(item, name) is None and getattr(body, name) is not None}


def _totals(done: list[Memory], errors: list[JsonObject], what: str) -> JsonObject:
    status = "success" if not errors else "partial" if done else "error"
    sizes = [len(memory.content.encode()) for memory in done]
    kept = [len(json.dumps(memory.shown(), ensure_ascii=False).encode()) for memory in done]
    return {
        "code": {"success": 200, "partial": 207, "error": 400}[status],
        "status": status,
        "message": f"{len(done)} of {len(done) + len(errors)} memories {what}",
        "error": None if done or not errors else "no memory could be stored",
        "details": None,
        "successful": [{"code": 200, "status": "success", "data": [memory.added()], "error": None, "details": None} for memory in done],
        "errors": errors,
        "total_processed": len(done) + len(errors),
        "total_successful": len(done),
        "total_failed": len(errors),
        "total_content_size": sum(sizes),
        "total_storage_size": sum(kept),
    }


async def _delete_all(request: Asked[Nothing, DeleteAllQuery]) -> JsonObject:
    """404 when the user has none; a user that nobody knows has none."""
    gone = request.store.of(request.store.user(request.query.user_id, request.query.external_user_id, make=False))
    if not gone:
        raise Refused(404, "No memories found for user")
    for memory in gone:
        del request.store.memories[memory.id]
    return _totals(gone, [], "deleted")


async def _search(request: Asked[Search, SearchQuery]) -> JsonObject:
    if not request.body.query.strip():
        raise Refused(400, "query must not be blank", {"field": "query"})
    data = request.store.search(request.body, request.query, request.now)
    return {"code": 200, "status": "success", "data": data, "error": None, "details": None, "search_id": request.store.ids.short("search", 12)}


@dataclass(frozen=True, slots=True)
class _Served:
    """`client_type`: whether the document requires `X-Client-Type` here; of search it says nothing."""

    method: str
    path: str
    name: str
    body: type[Body]
    query: type[Body]
    act: Callable[[Asked[Any, Any]], Awaitable[JsonObject]]
    client_type: bool = True


# Fixed paths stand before the one with an id in it, which they would fit.
_OPERATIONS: Final = (
    _Served("POST", "/v1/memory", "add_memory", Item, AddQuery, _add),
    _Served("POST", "/v1/memory/batch", "add_memory_batch", Batch, AddQuery, _batch),
    _Served("DELETE", "/v1/memory/all", "delete_all_memories", Nothing, DeleteAllQuery, _delete_all),
    _Served("POST", "/v1/memory/search", "search_memory", Search, SearchQuery, _search, client_type=False),
    _Served("GET", "/v1/memory/{memory_id}", "get_memory", Nothing, Nothing, _get),
    _Served("PUT", "/v1/memory/{memory_id}", "update_memory", Update, Nothing, _update),
    _Served("DELETE", "/v1/memory/{memory_id}", "delete_memory", Nothing, DeleteQuery, _delete),
)


class PaprFake:
    """A built stand-in; satisfies kit.FakeApp. `webhooks` is what batch notices leave by; by default nothing is dialled."""

    path = ""

    def __init__(self, clock: Clock, webhooks: Webhooks | None = None) -> None:
        self._clock = clock
        self._webhooks = webhooks or Webhooks()
        self._book: AccountBook[Store] = AccountBook("papr", _new_store, PaprSettings())
        self._ends: dict[str, datetime] = {}
        routes = [Route(one.path, self._endpoint(one), methods=[one.method]) for one in _OPERATIONS]
        handlers = {HTTPException: _http_refused, Refused: _refused}
        gzip = Middleware(GZipMiddleware, minimum_size=_COMPRESSED_FROM)
        self._app = Starlette(routes=routes, exception_handlers=handlers, middleware=[gzip])

    @property
    def app(self) -> ASGIApp:
        return self._app

    def admit(self, account: Account) -> None:
        self._book.admit(account)

    def revoke(self, credential: str) -> None:
        self._book.revoke(credential)
        self._ends.pop(credential, None)

    def configure(self, credential: str, **settings: object) -> None:
        """As AccountBook.configure; lists from YAML become tuples, and an expiry begins to run now."""
        self._book.configure(credential, **{name: tuple(v) if isinstance(v, list) else v for name, v in settings.items()})
        entry = self._book.find(credential)
        if entry is not None and entry.settings.expires_in_s is not None and "expires_in_s" in settings:
            self._ends[credential] = (entry.account.clock or self._clock).now() + timedelta(seconds=entry.settings.expires_in_s)

    def deliveries(self, credential: str) -> list[Any]:
        """Every batch notice of this account, in order."""
        entry = self._book.find(credential)
        return list(entry.store.deliveries) if entry else []

    def _endpoint(self, served: _Served) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            entry = self._caller(request)
            if served.client_type and not request.headers.get("x-client-type", "").strip():
                raise Refused(400, "the X-Client-Type header is required")
            return await self._answer(entry, served, request)

        return endpoint

    def _caller(self, request: Request) -> Entry[Store]:
        """Every credential that is presented must be good, and all of one account. 401 otherwise, whatever was wrong."""
        presented = {
            "api_key": request.headers.get("x-api-key"),
            "session_token": request.headers.get("x-session-token"),
            "bearer": bearer(request.headers) if "authorization" in request.headers else None,
        }
        if "authorization" in request.headers and presented["bearer"] is None:
            presented["bearer"] = ""
        found = [self._known(way, value) for way, value in presented.items() if value is not None]
        if not found or any(entry is not found[0] for entry in found) or found[0] is None:
            raise Refused(401, "Missing or invalid authentication")
        return found[0]

    def _known(self, way: str, credential: str) -> Entry[Store] | None:
        entry = self._book.find(credential)
        if entry is None or entry.settings.accepts != way:
            return None
        ends = self._ends.get(credential)
        return None if ends is not None and (entry.account.clock or self._clock).now() >= ends else entry

    async def _answer(self, entry: Entry[Store], served: _Served, request: Request) -> Response:
        settings: PaprSettings = entry.settings
        clock = entry.account.clock or self._clock
        body, query = await _read(request, served.body), _typed(served.query, dict(request.query_params), "query")
        await _wait(clock, settings.of(settings.latency_s, served.name))
        if (broken := settings.of(settings.fail, served.name)) is not None:
            raise Refused(500, broken)
        memory_id = request.path_params.get("memory_id", "")
        answer = await served.act(Asked(entry.store, settings, clock.now(), body, query, memory_id, self._webhooks))
        await _wait(clock, settings.of(settings.answer_latency_s, served.name))
        return JSONResponse(settings.answers[served.name]) if served.name in settings.answers else JSONResponse(answer, answer["code"])


def _new_store(account: Account) -> Store:
    ids = Ids("papr", account.credential)
    return Store(ids, User(ids.short("user", 10)))


async def _read(request: Request, model: type[Body]) -> Body:
    if model is Nothing:
        return Nothing()
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "use application/json")
    raw = await request.body()
    if len(raw) > _MOST_BYTES:
        raise Refused(413, "the request is too large")
    try:
        parsed = json.loads(raw)
        json.dumps(parsed, ensure_ascii=False, allow_nan=False).encode()  # half a character, or no number, could not be answered with
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON") from None
    return _typed(model, parsed, "body")


def _typed(model: type[Body], value: Any, where: str) -> Body:
    """422 with the places that do not fit, and never their values."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problems = [{"loc": [where, *map(str, e["loc"])], "msg": e["msg"]} for e in error.errors(include_url=False, include_input=False)]
        raise Refused(422, f"{problems[0]['loc'][-1]}: {problems[0]['msg']}", problems[:20]) from None


async def _wait(clock: Clock, seconds: float | None) -> None:
    if seconds:
        await clock.sleep(seconds)


def _envelope(code: int, error: str, details: Any, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"code": code, "status": "error", "data": None, "error": error, "details": details}, code, headers)


async def _refused(_: Request, problem: Exception) -> Response:
    if not isinstance(problem, Refused):  # Starlette's signature is wider than what it registers
        raise problem
    return _envelope(problem.code, problem.error, problem.details)


async def _http_refused(_: Request, problem: Exception) -> Response:
    if not isinstance(problem, HTTPException):
        raise problem
    return _envelope(problem.status_code, str(problem.detail), None, problem.headers)


class PaprProvider:
    """FAKE of Papr. It is no MCP server: its tools are those of the gateway's bridge, so no shape is assumed here."""

    id = "papr"
    assumed_shapes: frozenset[str] = frozenset()

    def build(self, clock: Clock) -> PaprFake:
        return PaprFake(clock)


FAKE = PaprProvider()
