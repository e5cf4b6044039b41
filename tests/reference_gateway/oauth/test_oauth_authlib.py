"""The broker against an authorization server that others wrote: authlib's grants, PKCE, registration, metadata rules and issuer parameter."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from authlib.oauth2.rfc6749 import AuthorizationServer, JsonPayload, JsonRequest, OAuth2Request, grants
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc6750 import BearerTokenGenerator
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from authlib.oauth2.rfc9207 import IssuerParameter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from harness.fake.kit import serve_app

SCOPES = ["openid", "profile", "email", "offline_access"]


class Form(OAuth2Request):  # type: ignore[misc]
    def __init__(self, method: str, url: str, headers: Any, query: dict[str, str], form: dict[str, str]) -> None:
        super().__init__(method, url.replace("http://", "https://"), headers=headers)  # authlib takes TLS for granted
        self.payload = BasicOAuth2Payload({**query, **form})
        self._query, self._form = query, form

    @property
    def args(self) -> dict[str, str]:
        return self._query

    @property
    def form(self) -> dict[str, str]:
        return self._form


class Body(JsonPayload):  # type: ignore[misc]
    def __init__(self, data: Any) -> None:
        self._data = data

    @property
    def data(self) -> Any:
        return self._data


class Located(Response):
    """With `location` as authlib's extensions know it."""

    @property
    def location(self) -> str:
        return self.headers.get("location", "")

    @location.setter
    def location(self, value: str) -> None:
        self.headers["location"] = value


@dataclass
class Client:
    metadata: dict[str, Any]
    client_id: str

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return str(self.metadata["redirect_uris"][0])

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, uri: str) -> bool:
        return uri in self.metadata["redirect_uris"]

    def check_client_secret(self, secret: str) -> bool:
        return False

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == self.metadata["token_endpoint_auth_method"]

    def check_response_type(self, kind: str) -> bool:
        return kind in self.metadata["response_types"]

    def check_grant_type(self, kind: str) -> bool:
        return kind in self.metadata["grant_types"]


@dataclass
class Code:
    client_id: str
    redirect_uri: str
    scope: str
    code_challenge: str
    code_challenge_method: str
    resource: str

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


@dataclass
class Token:
    client_id: str
    scope: str
    access: str
    refresh: str
    revoked: bool = False

    def check_client(self, client: Client) -> bool:
        return client.client_id == self.client_id

    def get_scope(self) -> str:
        return self.scope

    def is_expired(self) -> bool:
        return False

    def is_revoked(self) -> bool:
        return self.revoked


@dataclass
class Stored:
    issuer: str = ""
    clients: dict[str, Client] = field(default_factory=dict)
    codes: dict[str, Code] = field(default_factory=dict)
    tokens: list[Token] = field(default_factory=list)
    resources: list[str] = field(default_factory=list)


def server_of(stored: Stored) -> AuthorizationServer:
    class Server(AuthorizationServer):  # type: ignore[misc]
        def query_client(self, client_id: str) -> Client | None:
            return stored.clients.get(client_id)

        def save_token(self, token: dict[str, Any], request: OAuth2Request) -> None:
            stored.tokens.append(Token(request.client.client_id, token.get("scope", ""), token["access_token"], token["refresh_token"]))
            stored.resources.append(request.form.get("resource", ""))

        def create_oauth2_request(self, request: OAuth2Request) -> OAuth2Request:
            return request

        def create_json_request(self, request: JsonRequest) -> JsonRequest:
            return request

        def handle_response(self, status: int, body: Any, headers: Any) -> Response:
            return Located(json.dumps(body) if isinstance(body, dict) else body, status, dict(headers))

        def send_signal(self, name: str, *args: Any, **more: Any) -> None:
            return

    class Codes(grants.AuthorizationCodeGrant):  # type: ignore[misc]
        TOKEN_ENDPOINT_AUTH_METHODS = ("none",)

        def save_authorization_code(self, code: str, request: OAuth2Request) -> None:
            data = request.payload.data
            stored.codes[code] = Code(
                request.client.client_id, data["redirect_uri"], data["scope"], data["code_challenge"], data["code_challenge_method"], data["resource"]
            )  # fmt: skip

        def query_authorization_code(self, code: str, client: Client) -> Code | None:
            found = stored.codes.get(code)
            return found if found is not None and found.client_id == client.client_id else None

        def delete_authorization_code(self, code: Code) -> None:
            stored.codes = {key: each for key, each in stored.codes.items() if each is not code}

        def authenticate_user(self, code: Code) -> str:
            return "ada"

    class Refreshing(grants.RefreshTokenGrant):  # type: ignore[misc]
        TOKEN_ENDPOINT_AUTH_METHODS = ("none",)
        INCLUDE_NEW_REFRESH_TOKEN = True

        def authenticate_refresh_token(self, token: str) -> Token | None:
            return next((each for each in stored.tokens if each.refresh == token and not each.revoked), None)

        def authenticate_user(self, token: Token) -> str:
            return "ada"

        def revoke_old_credential(self, token: Token) -> None:
            token.revoked = True

    class Registering(ClientRegistrationEndpoint):  # type: ignore[misc]
        def authenticate_token(self, request: JsonRequest) -> str:
            return "open"

        def get_server_metadata(self) -> dict[str, Any]:
            return {"scopes_supported": SCOPES}

        def generate_client_info(self, request: JsonRequest) -> dict[str, Any]:
            return {"client_id": secrets.token_hex(8)}

        def save_client(self, info: dict[str, Any], metadata: dict[str, Any], request: JsonRequest) -> Client:
            client = Client(dict(metadata), info["client_id"])
            stored.clients[client.client_id] = client
            return client

    class Issuing(IssuerParameter):  # type: ignore[misc]
        def get_issuer(self) -> str:
            return stored.issuer

    server = Server(scopes_supported=SCOPES)
    server.register_grant(Codes, [CodeChallenge(required=True)])
    server.register_grant(Refreshing)
    server.register_endpoint(Registering)
    server.register_extension(lambda own: Issuing()(own))
    make = BearerTokenGenerator(lambda **_: secrets.token_urlsafe(24), lambda **_: secrets.token_urlsafe(24), lambda client, kind: 600)
    server.register_token_generator("default", make)
    return server


def app_of(stored: Stored) -> Starlette:
    server = server_of(stored)

    async def form(request: Request) -> Form:
        fields = {str(key): str(value) for key, value in (await request.form()).items()} if request.method == "POST" else {}
        return Form(request.method, str(request.url), request.headers, dict(request.query_params), fields)

    async def metadata(request: Request) -> Response:
        told = {
            "issuer": stored.issuer,
            "authorization_endpoint": f"{stored.issuer}/authorize",
            "token_endpoint": f"{stored.issuer}/token",
            "registration_endpoint": f"{stored.issuer}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
            "scopes_supported": SCOPES,
        }
        secure = {key: value.replace("http://", "https://") if isinstance(value, str) else value for key, value in told.items()}
        AuthorizationServerMetadata({**secure, "issuer": "https://as.example"}).validate()
        return JSONResponse(told)

    async def authorize(request: Request) -> Response:
        asked = await form(request)
        grant = server.get_consent_grant(asked, "ada")
        return server.create_authorization_response(asked, "ada", grant)  # type: ignore[no-any-return]

    async def token(request: Request) -> Response:
        return server.create_token_response(await form(request))  # type: ignore[no-any-return]

    async def register(request: Request) -> Response:
        asked = JsonRequest("POST", str(request.url).replace("http://", "https://"), headers=request.headers)
        asked.payload = Body(await request.json())
        return server.create_endpoint_response("client_registration", asked)  # type: ignore[no-any-return]

    async def resource(request: Request) -> Response:
        return JSONResponse({"resource": f"{stored.issuer}/mcp", "authorization_servers": [stored.issuer], "scopes_supported": SCOPES})

    async def mcp(request: Request) -> Response:
        shown = request.headers.get("authorization", "").removeprefix("Bearer ")
        if any(each.access == shown and not each.revoked for each in stored.tokens):
            return JSONResponse({})
        return JSONResponse({}, 401, {"WWW-Authenticate": f'Bearer resource_metadata="{stored.issuer}/prm"'})

    return Starlette(
        routes=[
            Route("/.well-known/oauth-authorization-server", metadata),
            Route("/prm", resource),
            Route("/authorize", authorize),
            Route("/token", token, methods=["POST"]),
            Route("/register", register, methods=["POST"]),
            Route("/mcp", mcp, methods=["POST"]),
        ]
    )


@pytest.fixture
def against_authlib(tmp_path: Path, brokered_bench: Any) -> Callable[[Any], None]:
    def run(work: Any) -> None:
        async def inside() -> None:
            stored = Stored()
            async with serve_app(app_of(stored)) as base:
                stored.issuer = base
                async with brokered_bench(f"{base}/mcp") as bench:
                    await work(bench, stored)

        asyncio.run(inside())

    return run


def test_a_whole_life_with_supermemory_s_scopes(against_authlib: Callable[[Any], None]) -> None:
    async def work(bench: Any, stored: Stored) -> None:
        held = await bench.consent(scopes=tuple(SCOPES))
        (client,) = stored.clients.values()
        assert (client.metadata["redirect_uris"], client.metadata["token_endpoint_auth_method"]) == ([bench.redirect], "none")
        assert held.consent.tokens.scopes == tuple(SCOPES)
        assert await bench.request() == 200
        await bench.clock.advance(545)
        assert await asyncio.gather(*(bench.request() for _ in range(8))) == [200] * 8
        assert (len(stored.tokens), stored.resources) == (2, [f"{stored.issuer}/mcp"] * 2)
        again = await bench.consent(scopes=tuple(SCOPES))
        assert (again.consent.client, len(stored.clients)) == (held.consent.client, 1)

    against_authlib(work)


def test_what_authlib_refuses_is_told_by_code(against_authlib: Callable[[Any], None]) -> None:
    async def work(bench: Any, stored: Stored) -> None:
        answer = await bench.answer(await bench.begin(scopes=("openid",)))
        stored.codes.clear()  # it has run out
        assert await bench.code_of(bench.broker.complete("t1", bench.asker, answer)) == "oauth_token_exchange_failed"
        assert bench.held is None
        held = await bench.consent(scopes=("openid",))
        for each in stored.tokens:
            each.revoked = True
        assert await bench.code_of(bench.broker.refresher.renewed(bench.place, held.generation)) == "oauth_reauthorization_required"
        assert bench.access().ready() == "oauth_reauthorization_required"

    against_authlib(work)
