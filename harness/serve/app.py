"""The pages of `harness serve`: GET only, for one Host, for requests that come from nowhere else.

A page of another site in the same browser could otherwise read reports through a name that it rebinds to loopback; so the Host must be
the address that was printed, and an Origin, where a browser sends one, must be it too.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from harness.errors import Exit, HarnessError
from harness.history.store import NAME, History
from harness.report.inert import one_line
from harness.serve.shelf import SHOWN, Shelf

Next = Callable[[Request], Awaitable[Response]]
HISTORY_ROWS = 200

QUIET: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


def application(shelf: Shelf, hosts: frozenset[str]) -> Starlette:
    """`hosts`: the values of Host that are answered, such as `127.0.0.1:8080`."""
    pages = Pages(shelf)

    async def guard(request: Request, go_on: Next) -> Response:
        origin = request.headers.get("origin")
        if request.headers.get("host", "") not in hosts or (origin is not None and origin not in {f"http://{host}" for host in hosts}):
            return PlainTextResponse("This address is for the person at this machine. Open the one that `harness serve` printed.\n", 403, dict(QUIET))
        response = await go_on(request)
        for name, value in QUIET.items():
            response.headers[name] = value
        return response

    routes = [
        Route("/", pages.index, methods=["GET"]),
        Route("/history", pages.history, methods=["GET"]),
        Route("/runs/{run}/{file}", pages.file, methods=["GET"]),
    ]
    return Starlette(routes=routes, middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)])


class Pages:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        folder = files("harness.report") / "templates"
        self._style = (folder / "report.css").read_text("utf-8")
        environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
        environment.filters["line"] = one_line
        self._template = environment.from_string((files("harness.serve") / "index.html.j2").read_text("utf-8"))

    async def index(self, _: Request) -> Response:
        runs = [(run, self._answer(run.exit_code)) for run in self._shelf.runs()]
        return self._page(title="Runs", runs=runs, rows=None, trouble="")

    async def history(self, _: Request) -> Response:
        rows: list[Any] = []
        trouble = ""
        try:
            with History(self._shelf.folder / NAME, read_only=True) as history:
                rows = history.items(limit=HISTORY_ROWS)
        except HarnessError as error:
            trouble = str(error)
        return self._page(title="History", runs=None, rows=rows, trouble=trouble)

    async def file(self, request: Request) -> Response:
        file = request.path_params["file"]
        path = self._shelf.path(request.path_params["run"], file)
        if path is None:
            return PlainTextResponse("There is no such file here.\n", 404)
        # The pages bring their own, stricter policy; the rest is data and must not be run whatever it holds.
        headers = {} if file.endswith(".html") else {"content-security-policy": "default-src 'none'; sandbox"}
        return FileResponse(path, media_type=SHOWN[file], headers=headers)

    def _answer(self, exit_code: int | None) -> str:
        if exit_code is None:
            return "unknown"
        return "accepted" if exit_code == Exit.OK else f"not accepted ({exit_code})"

    def _page(self, **values: Any) -> HTMLResponse:
        digest = base64.b64encode(hashlib.sha256(self._style.encode()).digest()).decode("ascii")
        text = self._template.render(style=Markup(self._style), folder=self._shelf.folder.name, **values)  # our own file, no input
        policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        return HTMLResponse(text, headers={"content-security-policy": policy})
