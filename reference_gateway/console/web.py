"""What every page of the console shares: the session, the proof that a form is ours, the frame, and headers that allow nothing else."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from reference_gateway.console.api import OperatorApi, Refused, TenantApi
from reference_gateway.console.sessions import COOKIE, Session, Sessions

BASE = "/console"
CAME_BACK = "/oauth/callback"
MAX_FORM = 256 * 1024
STATIC = {"htmx.min.js": "text/javascript; charset=utf-8", "console.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}

HEADERS: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with none at all, browsers send our own forms with the Origin "null"
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

Form = Mapping[str, str]
Page = Callable[["Visit"], Awaitable[Response]]


class Visit:
    """One request of somebody who is signed in. `form` is empty for a GET; `error` is what the last attempt was refused for."""

    def __init__(self, web: Web, request: Request, session: Session, form: Form) -> None:
        self.web = web
        self.request = request
        self.session = session
        self.form = form
        self.api = TenantApi(web.api, session)

    def part(self, name: str) -> str:
        return str(self.request.path_params[name])

    def query(self, name: str) -> str:
        return self.request.query_params.get(name, "")[:200]

    def show(self, template: str, *, refused: Refused | None = None, status: int = 200, **values: Any) -> Response:
        return self.web.render(template, status=status, session=self.session, refused=refused, path=self.request.url.path, **values)

    def go(self, *parts: str, **query: str) -> Response:
        """The page that shows what a form changed. 303, so that a reload repeats nothing."""
        tail = f"?{urlencode(query)}" if query else ""
        return RedirectResponse(f"{BASE}/{'/'.join(parts)}{tail}", status_code=303)


class Web:
    """`public_url`: how browsers reach the gateway from outside, where that is not what its own socket says."""

    def __init__(self, sessions: Sessions, api: OperatorApi, public_url: str | None = None) -> None:
        self.sessions = sessions
        self.api = api
        self.public_url = public_url.rstrip("/") if public_url else None
        self._templates = Environment(
            loader=PackageLoader("reference_gateway.console"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        self._templates.filters["pretty"] = lambda value: json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
        self._static = {name: (files("reference_gateway.console") / "static" / name).read_bytes() for name in STATIC}

    def render(self, template: str, *, status: int = 200, **values: Any) -> Response:
        text = self._templates.get_template(template).render(base=BASE, **values)
        return HTMLResponse(text, status_code=status, headers=dict(HEADERS))

    def page(self, handler: Page) -> Callable[[Request], Awaitable[Response]]:
        """A page for signed-in operators. A form counts only from our own origin and with the session's CSRF token."""

        async def endpoint(request: Request) -> Response:
            session = self.sessions.of(request.cookies.get(COOKIE))
            if session is None:
                return self._signed_out(request)
            form: Form = {}
            if request.method == "POST":
                read = await read_form(request)
                if read is None or not same_origin(request) or not session.proves(read.get("csrf", "")):
                    return self.render("refused.html.j2", status=403, session=session, refused=None, path=request.url.path)
                form = read
            try:
                return await handler(Visit(self, request, session, form))
            except Refused as refused:
                return self._refused(request, session, refused)

        return endpoint

    def returning(self, handler: Page) -> Callable[[Request], Awaitable[Response]]:
        """A page that others send browsers to. Our cookie comes along from our own pages only: the first visit shows one that goes on by itself."""
        signed_in = self.page(handler)

        async def endpoint(request: Request) -> Response:
            if self.sessions.of(request.cookies.get(COOKIE)) is not None or "again" in request.query_params:
                return await signed_in(request)
            return self.render("returning.html.j2", session=None, refused=None, path=request.url.path, on=f"?{request.url.query}&again=1")

        return endpoint

    def _refused(self, request: Request, session: Session, refused: Refused) -> Response:
        if refused.status == 401:  # the operator was removed meanwhile
            self.sessions.end(session)
            return self._signed_out(request)
        return self.render("error.html.j2", status=refused.status, session=session, refused=refused, path=request.url.path)

    def _signed_out(self, request: Request) -> Response:
        if request.headers.get("hx-request"):
            return Response(status_code=401, headers={**HEADERS, "hx-redirect": f"{BASE}/sign-in"})
        return RedirectResponse(f"{BASE}/sign-in", status_code=303)

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._static:
            return Response("not found", 404, dict(HEADERS))
        return Response(self._static[name], media_type=STATIC[name], headers={**HEADERS, "cache-control": "max-age=3600"})


async def read_form(request: Request) -> dict[str, str] | None:
    """The fields of a URL-encoded form, each once; None when it is too large or something else."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM:
            return None
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=100)
    except ValueError:
        return None
    form = dict(pairs)
    return form if len(form) == len(pairs) else None


def same_origin(request: Request) -> bool:
    """Browsers say where a form comes from. One that says nothing is no browser, and has no cookie to abuse."""
    origin = request.headers.get("origin")
    fetched = request.headers.get("sec-fetch-site", "same-origin")
    return fetched in ("same-origin", "none") and origin in (None, f"{request.url.scheme}://{request.headers.get('host', '')}")
