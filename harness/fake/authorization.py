"""A stand-in for an authorization server, for one connection: it issues, rotates and withdraws tokens, and notes how it was asked.

It is strict where a real one would be (codes and refresh tokens count once, a redirect must be one that was registered) and only watches
where a client's mistake has to be seen rather than stopped: PKCE, `resource`. Whoever drives it may make it hostile, see `Behaviour`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import html
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any
from urllib.parse import unquote_plus, urlencode

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from harness.clock import Clock
from harness.errors import UsageError
from harness.fake.kit_store import Ids
from harness.registry import suggest

JsonObject = dict[str, Any]
Overtaken = Callable[[], Awaitable[None]]

_QUESTION = (
    '<!doctype html><html lang="en"><title>A stand-in asks</title><h1>May the gateway act for you?</h1>'
    '<p><a href="?{query}&amp;answer=agrees">Allow</a> <a href="?{query}&amp;answer=refuses">Refuse</a></p></html>'
)
RESOURCE_PATH = "/.well-known/oauth-protected-resource"
SERVER_PATH = "/.well-known/oauth-authorization-server"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a scenario may change. Everything else is as the standards have it.

    scopes        what the resource lists; granted as they are asked for
    life_s        seconds that an access token lives; None: not said
    metadata      fields of the server's metadata to replace; null removes one
    resource      fields of the resource's metadata to replace
    registers     whether clients may register themselves
    takes_documents  whether a client may be named by a URL (client ID metadata documents)
    answer_iss    `right`, `wrong` or `none`
    person        `agrees`, `refuses`, or `asked`: a page that waits for somebody to click
    token         fields of the token answer to replace; null removes one
    refuse        error code that the token endpoint answers with; "" for none
    says          text that comes with every error
    html          the endpoint (`metadata`, `token`, `registration`) that answers with a web page
    challenge     the whole WWW-Authenticate header, or "" for none
    demands       scopes that the resource wants for tools/call, beyond a token's own
    """

    scopes: tuple[str, ...] = ()
    life_s: float | None = 3600.0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    resource: Mapping[str, Any] = field(default_factory=dict)
    registers: bool = True
    takes_documents: bool = False
    answer_iss: str = "right"
    person: str = "agrees"
    token: Mapping[str, Any] = field(default_factory=dict)
    refuse: str = ""
    says: str = ""
    html: str = ""
    challenge: str | None = None
    demands: tuple[str, ...] = ()

    def changed(self, settings: Mapping[str, Any]) -> Behaviour:
        """Raises UsageError for a setting that there is not."""
        known = [each.name for each in fields(self)]
        for name in settings:
            if name not in known:
                raise UsageError(f"an authorization server has no setting {name!r}", fix=suggest(name, known))
        given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
        return replace(self, **given)


@dataclass(frozen=True, slots=True)
class Client:
    redirects: tuple[str, ...]
    secret: str | None


@dataclass(frozen=True, slots=True)
class Code:
    client: str
    redirect: str
    challenge: str
    method: str
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Grant:
    """What one consent gave: all tokens of a family end together when one that was spent comes back."""

    family: str
    client: str
    scopes: tuple[str, ...]


class AuthorizationServer:
    """`issuer` and `resource_url` are known once everything is served. `know` is told every secret as it is made."""

    def __init__(self, clock: Clock, behaviour: Behaviour, ids: Ids, know: Callable[[str], None]) -> None:
        self._ids = ids
        self.behaviour = behaviour
        self.issuer = ""
        self.resource_url = ""
        self.seen: list[JsonObject] = []
        """Each request in order, without any secret of it."""
        self.overtaken: Overtaken | None = None
        """What happens elsewhere while the next renewal is under way; that renewal is then refused."""
        self._clock = clock
        self._know = know
        self._clients: dict[str, Client] = {}
        self._codes: dict[str, Code] = {}
        self._access: dict[str, tuple[Grant, float | None]] = {}
        self._refresh: dict[str, Grant] = {}
        self._spent: dict[str, str] = {}
        self._ended: set[str] = set()

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route(RESOURCE_PATH, self._show_resource),
                Route(SERVER_PATH, self._show_metadata),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/register", self._register, methods=["POST"]),
            ]
        )

    # what the resource asks

    def grant_of(self, token: str | None) -> Grant | None:
        """Of an access token that holds now."""
        found = self._access.get(token or "")
        if found is None or found[0].family in self._ended:
            return None
        grant, ends = found
        return grant if ends is None or self._clock.now().timestamp() < ends else None

    def withdraw(self) -> None:
        """The person takes back every consent."""
        self._ended |= {grant.family for grant, _ in self._access.values()} | {grant.family for grant in self._refresh.values()}

    # endpoints

    async def _show_resource(self, request: Request) -> Response:
        self.seen.append({"at": "resource"})
        told = {"resource": self.resource_url, "authorization_servers": [self.issuer], "scopes_supported": list(self.behaviour.scopes)}
        return JSONResponse(_replaced(told, self.behaviour.resource))

    async def _show_metadata(self, request: Request) -> Response:
        self.seen.append({"at": "metadata"})
        if self.behaviour.html == "metadata":
            return self._page()
        told = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self.behaviour.takes_documents,
            "scopes_supported": list(self.behaviour.scopes),
            **({"registration_endpoint": f"{self.issuer}/register"} if self.behaviour.registers else {}),
        }
        return JSONResponse(_replaced(told, self.behaviour.metadata))

    async def _register(self, request: Request) -> Response:
        if self.behaviour.html == "registration":
            return self._page()
        asked = await request.json()
        redirects = tuple(asked.get("redirect_uris", ()))
        self.seen.append(
            {"at": "registration", "redirects": len(redirects), "auth": asked.get("token_endpoint_auth_method"), "name": asked.get("client_name")}
        )
        name = f"client-{self._ids.short('client', 12)}"
        self._clients[name] = Client(redirects, None)
        return JSONResponse({**asked, "client_id": name}, 201)

    async def _authorize(self, request: Request) -> Response:
        asked = request.query_params
        name, redirect = asked.get("client_id", ""), asked.get("redirect_uri", "")
        client = self._clients.get(name) or (Client((redirect,), None) if name.startswith("https://") and self.behaviour.takes_documents else None)
        if client is None or redirect not in client.redirects:
            self.seen.append({"at": "authorize", "redirect": "not registered"})
            return JSONResponse({"error": "invalid_request"}, 400)  # never sent anywhere: that might be an attacker's address
        scopes = tuple(asked.get("scope", "").split())
        self.seen.append(
            {
                "at": "authorize",
                "redirect": "exact",
                "pkce": asked.get("code_challenge_method", "none"),
                "resource": self._compared(asked.get("resource")),
                "scopes": list(scopes),
                "state_length": len(asked.get("state", "")),
                "client": "document" if name.startswith("https://") else "registered",
            }
        )
        person = asked.get("answer", "asked") if self.behaviour.person == "asked" else self.behaviour.person
        if person == "asked":
            return HTMLResponse(_QUESTION.format(query=html.escape(str(asked))))
        told = {"state": asked.get("state", "")} | self._iss()
        if person == "refuses":
            told |= {"error": "access_denied", "error_description": self.behaviour.says}
        else:
            code = self._ids.short("code", 43)
            self._codes[code] = Code(name, redirect, asked.get("code_challenge", ""), asked.get("code_challenge_method", "plain"), scopes)
            told |= {"code": code}
        return RedirectResponse(f"{redirect}{'&' if '?' in redirect else '?'}{urlencode(told)}", 302)

    async def _token(self, request: Request) -> Response:
        form = {str(key): str(value) for key, value in (await request.form()).items()}
        kind = form.get("grant_type", "")
        self.seen.append({"at": "token", "grant": kind, "resource": self._compared(form.get("resource")), "auth": _auth_of(request, form)})
        if self.behaviour.html == "token":
            return self._page()
        if kind == "refresh_token" and self.overtaken is not None:
            overtaken, self.overtaken = self.overtaken, None
            await overtaken()
            return self._error("invalid_grant")
        if self.behaviour.refuse:
            return self._error(self.behaviour.refuse)
        grant = self._redeemed(form) if kind == "authorization_code" else self._renewed(form) if kind == "refresh_token" else None
        return (
            self._issued(grant)
            if grant is not None
            else self._error("invalid_grant" if kind in ("authorization_code", "refresh_token") else "unsupported_grant_type")
        )

    def _redeemed(self, form: Mapping[str, str]) -> Grant | None:
        code = self._codes.pop(form.get("code", ""), None)
        verifier = form.get("code_verifier", "")
        made = verifier if code is not None and code.method == "plain" else _s256(verifier)
        if code is None or made != code.challenge or form.get("redirect_uri") != code.redirect:
            return None
        return Grant(self._ids.short("family"), code.client, code.scopes)

    def _renewed(self, form: Mapping[str, str]) -> Grant | None:
        token = form.get("refresh_token", "")
        if token in self._spent:
            self._ended.add(self._spent[token])  # RFC 9700: it was stolen, or its owner lost count; either way the family ends
            return None
        grant = self._refresh.pop(token, None)
        if grant is None or grant.family in self._ended:
            return None
        self._spent[token] = grant.family
        return grant

    def consented(self, client: str, scopes: tuple[str, ...]) -> JsonObject:
        """The token answer of a consent that was given without us: for whoever needs tokens and no browser."""
        return self._told(Grant(self._ids.short("family"), client, scopes))

    def _issued(self, grant: Grant) -> Response:
        return JSONResponse(_replaced(self._told(grant), self.behaviour.token), headers={"cache-control": "no-store"})

    def _told(self, grant: Grant) -> JsonObject:
        access, refresh, life = self._ids.short("access", 43), self._ids.short("refresh", 43), self.behaviour.life_s
        self._know(access)
        self._know(refresh)
        told: JsonObject = {"access_token": access, "token_type": "Bearer", "refresh_token": refresh, "scope": " ".join(grant.scopes)}
        if life is not None:
            told["expires_in"] = life
        if not grant.scopes:
            del told["scope"]
        self._access[access] = (grant, None if life is None else self._clock.now().timestamp() + life)
        self._refresh[refresh] = grant
        return told

    def _error(self, code: str) -> Response:
        return JSONResponse({"error": code, "error_description": self.behaviour.says}, 400)

    def _page(self) -> Response:
        return HTMLResponse(f"<!doctype html><title>Sign in</title><p>{self.behaviour.says or 'Please sign in.'}</p>")

    def _iss(self) -> dict[str, str]:
        return {"right": {"iss": self.issuer}, "wrong": {"iss": "https://other.example"}}.get(self.behaviour.answer_iss, {})

    def _compared(self, resource: str | None) -> str:
        return "missing" if resource is None else "right" if resource == self.resource_url else "wrong"


def _auth_of(request: Request, form: Mapping[str, str]) -> str:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        try:
            name = unquote_plus(base64.b64decode(given).decode().partition(":")[0])
        except (binascii.Error, UnicodeDecodeError):
            return "unreadable"
        return "client_secret_basic" if name else "unreadable"
    return "client_secret_post" if "client_secret" in form else "none"


def _s256(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _replaced(told: JsonObject, changes: Mapping[str, Any]) -> JsonObject:
    return {name: value for name, value in {**told, **changes}.items() if value is not None or name not in changes}
