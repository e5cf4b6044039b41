"""The one plain HTTP route of the Supermemory stand-in: putting the file that a prepared upload waits for."""

from __future__ import annotations

from datetime import timedelta

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from harness.clock import Clock
from harness.fake.kit import AccountBook, bearer
from harness.fake.supermemory_store import SupermemoryStore

PREFIX = "/v1/uploads/"
_LIMIT = 1_000_000


def uploads(book: AccountBook[SupermemoryStore], clock: Clock) -> ASGIApp:
    """PUT /v1/uploads/<ticket> with a UTF-8 body and the same bearer token that prepared it: 201 and the queued document."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await (await _put(Request(scope, receive), book, clock))(scope, receive, send)

    return app


async def _put(request: Request, book: AccountBook[SupermemoryStore], clock: Clock) -> Response:
    path = request.url.path
    if not path.startswith(PREFIX):
        return JSONResponse({"error": "Not found"}, 404)
    entry = book.find(bearer(request.headers))
    if entry is None:
        return JSONResponse({"error": "Unauthorized"}, 401, {"WWW-Authenticate": 'Bearer realm="supermemory"'})
    if request.method != "PUT":
        return JSONResponse({"error": "Method not allowed"}, 405, {"Allow": "PUT"})
    body = await request.body()
    if len(body) > _LIMIT:
        return JSONResponse({"error": "File too large"}, 413)
    try:
        content = body.decode()
    except UnicodeDecodeError:
        return JSONResponse({"error": "Only text files are taken"}, 415)
    now = clock.now()
    ticket = entry.store.uploads.pop(path.removeprefix(PREFIX), None)
    if ticket is None or ticket.expires_at <= now:
        return JSONResponse({"error": "Upload not found"}, 404)
    document = entry.store.save(content, ticket.tag, now, now + timedelta(seconds=entry.settings.index_delay_s))
    return JSONResponse(document.summary(now), 201)
