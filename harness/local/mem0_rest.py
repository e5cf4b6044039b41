"""A stand-in of Mem0's REST API, as far as its own MCP server calls it. What it keeps, it keeps in memory.

Found out by running the server: every request carries `Authorization: Token KEY`; a key is proven by `GET /v1/ping/` first.
Texts are kept word for word, after a short delay: at the provider, too, an accepted write is not yet a memory.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from harness.clock import Clock
from harness.fake.kit import Account, JsonObject
from harness.fake.kit_store import numbered_page, ranked, stamp
from harness.fake.mem0_store import SCOPES, BadFilter, Mem0Store, Memory

INDEX_DELAY_S = 0.3
MAX_PAGE = 1000
Handler = Callable[[Request], Awaitable[Response]]


class ApiError(Exception):
    """Answered as `{"detail": …}` with this status; the vendor's client reads the reason there."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


class Mem0Rest:
    """One account behind one key. `app` is ASGI, to be served on loopback."""

    def __init__(self, key: str, clock: Clock, *, index_delay_s: float = INDEX_DELAY_S) -> None:
        self._key = key
        self._clock = clock
        self._delay = timedelta(seconds=index_delay_s)
        self._store = Mem0Store(Account(key, "mem0"))
        self.app = Starlette(
            routes=[
                self._route("/v1/ping/", self._ping, "GET"),
                self._route("/v3/memories/add/", self._add, "POST"),
                self._route("/v3/memories/search/", self._search, "POST"),
                self._route("/v3/memories/", self._list, "POST"),
                self._route("/v1/memories/", self._delete_all, "DELETE"),
                self._route("/v1/memories/{memory_id}/", self._get, "GET"),
                self._route("/v1/memories/{memory_id}/", self._update, "PUT"),
                self._route("/v1/memories/{memory_id}/", self._delete, "DELETE"),
                self._route("/v1/entities/", self._entities, "GET"),
                self._route("/v2/entities/{kind}/{name}/", self._delete_entity, "DELETE"),
            ]
        )

    def _route(self, path: str, handler: Handler, method: str) -> Route:
        async def guarded(request: Request) -> Response:
            try:
                if request.headers.get("authorization") != f"Token {self._key}":
                    raise ApiError(401, "Given token not valid for any token type")
                self._store.settle(self._clock.now())
                return await handler(request)
            except ApiError as problem:
                return JSONResponse({"detail": problem.detail}, problem.status)

        return Route(path, guarded, methods=[method])

    async def _ping(self, _: Request) -> Response:
        return JSONResponse({"status": "ok", "org_id": "org-stand-in", "project_id": "proj-stand-in", "user_email": None})

    async def _add(self, request: Request) -> Response:
        body = await _body(request)
        messages = body.get("messages")
        if not isinstance(messages, list) or any(not isinstance(m, dict) or not isinstance(m.get("content"), str) for m in messages):
            raise ApiError(400, "messages must be a list of {role, content}")
        texts = [m["content"] for m in messages if m["content"].strip()]
        scope = _scope(body)
        if not texts or not scope:
            raise ApiError(400, "a text and one of user_id, agent_id, app_id, run_id are needed")
        now = self._clock.now()
        event = self._store.enqueue(texts, scope, body.get("metadata"), now, now + self._delay)
        return JSONResponse({"message": "Accepted.", "status": "PENDING", "event_id": event.id})

    async def _search(self, request: Request) -> Response:
        body = await _body(request)
        query = body.get("query")
        if not isinstance(query, str) or not query.strip():
            raise ApiError(400, "query must be a text")
        limit = body.get("top_k", body.get("limit", 10))
        if not isinstance(limit, int) or limit < 1:
            raise ApiError(400, "limit must be a positive integer")
        hits = ranked(query, self._matching(body), lambda memory: memory.text)[:limit]
        return JSONResponse({"results": [memory.shown() | {"score": round(score, 4)} for score, memory in hits]})

    async def _list(self, request: Request) -> Response:
        found = self._matching(await _body(request))
        number, size = _number(request, "page", 1), _number(request, "page_size", 100)
        page = numbered_page([memory.shown() for memory in found], number, min(size, MAX_PAGE))
        after = f"/v3/memories/?page={number + 1}&page_size={page.size}" if page.has_next else None
        before = f"/v3/memories/?page={number - 1}&page_size={page.size}" if number > 1 else None
        return JSONResponse({"count": page.total, "next": after, "previous": before, "results": list(page.items)})

    async def _get(self, request: Request) -> Response:
        return JSONResponse(self._memory(request).shown())

    async def _update(self, request: Request) -> Response:
        memory, body = self._memory(request), await _body(request)
        text = body.get("text")
        if not isinstance(text, str) or not text.strip():
            raise ApiError(400, "text must not be empty")
        memory.text, memory.updated_at = text, self._clock.now()
        return JSONResponse(memory.shown())

    async def _delete(self, request: Request) -> Response:
        self._store.remove([self._memory(request)], self._clock.now())
        return JSONResponse({"message": "Memory deleted successfully!"})

    async def _delete_all(self, request: Request) -> Response:
        scope = _scope(dict(request.query_params))
        if not scope:
            raise ApiError(400, "one of user_id, agent_id, app_id, run_id is needed")
        self._store.remove(self._store.matching({**scope}), self._clock.now())
        return JSONResponse({"message": "Memories deleted successfully!"})

    async def _entities(self, _: Request) -> Response:
        held = list(self._store.memories.values())
        results = [
            {
                "type": key.removesuffix("_id"),
                "name": name,
                "total_memories": sum(memory.scope.get(key) == name for memory in held),
                "created_at": stamp(created_at),
            }
            for (key, name), created_at in self._store.entities.items()
        ]
        return JSONResponse({"count": len(results), "next": None, "previous": None, "results": results})

    async def _delete_entity(self, request: Request) -> Response:
        entity = (f"{request.path_params['kind']}_id", request.path_params["name"])
        if entity not in self._store.entities:
            raise ApiError(404, "Entity not found!")
        self._store.remove([m for m in self._store.memories.values() if m.scope.get(entity[0]) == entity[1]], self._clock.now())
        del self._store.entities[entity]
        return JSONResponse({"message": "Entity deleted successfully!"})

    def _memory(self, request: Request) -> Memory:
        found = self._store.memories.get(request.path_params["memory_id"])
        if found is None:
            raise ApiError(404, "Memory not found!")
        return found

    def _matching(self, body: JsonObject) -> list[Memory]:
        try:
            return self._store.matching(body.get("filters"))
        except BadFilter as problem:
            raise ApiError(400, f"Invalid filters: {problem}") from problem


async def _body(request: Request) -> JsonObject:
    try:
        body: Any = json.loads(await request.body())
    except ValueError:
        raise ApiError(400, "the body is not JSON") from None
    if not isinstance(body, dict):
        raise ApiError(400, "the body is not an object")
    return body


def _scope(values: JsonObject) -> dict[str, str]:
    return {key: str(values[key]) for key in SCOPES if values.get(key)}


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isdecimal() or int(text) < 1:
        raise ApiError(400, f"{name} must be a positive integer")
    return int(text)
