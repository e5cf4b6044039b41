"""In and out. The token is tried on the operator API, which alone knows what it opens."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from reference_gateway.console.api import Refused
from reference_gateway.console.sessions import COOKIE, LIFETIME_S
from reference_gateway.console.web import BASE, Visit, Web, read_form, same_origin


class SignIn:
    def __init__(self, web: Web) -> None:
        self._web = web

    async def page(self, request: Request) -> Response:
        return self._web.render("sign_in.html.j2", session=None, refused=None, path=request.url.path, tenant="")

    async def enter(self, request: Request) -> Response:
        form = await read_form(request)
        if form is None or not same_origin(request):
            return self._web.render("refused.html.j2", status=403, session=None, refused=None, path=request.url.path)
        tenant, token = form.get("tenant", "").strip(), form.get("token", "").strip()
        try:
            me = await self._web.api.call(_sendable(token), "GET", f"/tenants/{quote(tenant or '-', safe='')}/me")
        except Refused:
            # One answer for a wrong token, a wrong tenant and one that does not exist: nothing can be found out by trying.
            refused = Refused(403, {"code": "sign_in_refused", "message": "this token does not open this tenant", "fix": "check both"})
            return self._web.render("sign_in.html.j2", status=403, session=None, refused=refused, path=request.url.path, tenant=tenant[:100])
        session = self._web.sessions.begin(tenant, token, str(me["operator"] or "operator"), str(me["role"]))
        answer = RedirectResponse(f"{BASE}/", status_code=303)
        answer.set_cookie(
            COOKIE, session.key, max_age=int(LIFETIME_S), path=BASE, httponly=True, samesite="strict", secure=request.url.scheme == "https"
        )
        return answer

    async def leave(self, visit: Visit) -> Response:
        self._web.sessions.end(visit.session)
        answer = RedirectResponse(f"{BASE}/sign-in", status_code=303)
        answer.delete_cookie(COOKIE, path=BASE)
        return answer


def _sendable(token: str) -> str:
    """A header holds visible ASCII; anything else is no token of ours."""
    return token if token and all("!" <= char <= "~" for char in token) else "-"
