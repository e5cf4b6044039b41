"""A setup in steps. It is the draft connection itself: nothing is kept apart, and nothing secret is kept before it succeeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from reference_gateway.audit import stamp
from reference_gateway.bodies import AuthBody, ConnectionBody, SetupBody, invalid
from reference_gateway.clock import Clock
from reference_gateway.connection import Connection, Settings
from reference_gateway.connections import EMPTY, Connections
from reference_gateway.connectors import Connector, connector
from reference_gateway.declaration import settings_of
from reference_gateway.dialling import Dialler
from reference_gateway.errors import GatewayError
from reference_gateway.experiments import Experiments
from reference_gateway.grant import NOBODY, Grant
from reference_gateway.grant import parse as parse_grant
from reference_gateway.managed import check as check_managed
from reference_gateway.operators import asking
from reference_gateway.provider import Absent

IDENTITY_WITHIN = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Asked:
    """What an authorization is begun for, as the broker needs it. `actor` and `session`: only they may complete it."""

    tenant: str
    connection: str
    grant: Grant
    url: str
    path: str
    scopes: tuple[str, ...]
    actor: str
    session: str
    redirect_uri: str | None


@dataclass(frozen=True, slots=True)
class Authorization:
    """`waiting` for the browser to come back, `denied`, `expired`, or `none` was begun. `problem`: a code of the broker's own."""

    state: Literal["none", "waiting", "denied", "expired", "failed"]
    url: str | None = None
    expires_at: str | None = None
    problem: str | None = None


class Broker(Protocol):
    """The OAuth broker as setups use it. When it has a token it calls `Setups.authorized`."""

    async def begin(self, asked: Asked) -> Authorization:
        """Raises GatewayError; nothing is stored."""
        ...

    def status(self, tenant: str, connection: str) -> Authorization: ...
    def forget(self, tenant: str, connection: str) -> None: ...


class NoBroker:
    """Where none is wired: an authorization cannot be begun, and the setup says so."""

    async def begin(self, asked: Asked) -> Authorization:
        raise GatewayError(
            "oauth_unavailable", "this gateway has no OAuth broker", where="authorize", fix="use a connector with a key", http_status=409
        )

    def status(self, tenant: str, connection: str) -> Authorization:
        return Authorization("none")

    def forget(self, tenant: str, connection: str) -> None:
        return


class Setups:
    """Every method raises GatewayError with the codes of docs/operator-api.md."""

    def __init__(self, *, connections: Connections, dialler: Dialler, experiments: Experiments, clock: Clock, broker: Broker | None = None) -> None:
        self._connections = connections
        self._dialler = dialler
        self._experiments = experiments
        self._clock = clock
        self.broker: Broker = broker or NoBroker()

    def begin(self, tenant: str, body: SetupBody) -> Connection:
        self._experiments.require(tenant, body.connector)
        kind = connector(body.connector)
        with self._connections.reserved(tenant, body.name):
            settings = self._draft(kind, body)
            setup = {"connector": kind.id, "began_at": stamp(self._clock.now()), "problem": None}
            made = Connection(tenant, settings, Absent(), EMPTY, {}, status="draft", was_active=False, setup=setup)
            self._connections.add(made, "setup_started", {"connector": kind.id, "transport": kind.transport})
        return made

    def identify(self, connection: Connection, subject: str) -> None:
        """Whose the personal grant is. Once known it does not change."""
        self._unfinished(connection)
        if connection.settings.grant != NOBODY:
            raise GatewayError(
                "state_conflict", "the setup does not ask whose it is", where="subject", fix="go on with its next step", http_status=409
            )
        grant = parse_grant({"kind": "personal", "subject": subject})
        with self._connections.changing(connection, "setup_started", {"identity": "resolved"}, "settings", "setup"):
            connection.settings = replace(connection.settings, grant=grant)
            connection.setup = {**connection.setup, "problem": None}

    async def submit(self, connection: Connection, values: Mapping[str, str], endpoint: str | None = None) -> None:
        """Tries the values; they are kept only if the provider lets us in with them. May be repeated until it does."""
        kind = self._unfinished(connection)
        self._identified(connection)
        if kind.auth == "oauth":
            raise invalid("this connector is authorized in a browser", "values", "use authorize")
        try:
            _check_values(kind, values)
            await self._let_in(connection, kind, values, endpoint)
        except GatewayError as error:
            self._refused(connection, error)
            raise

    async def authorize(self, connection: Connection, session: str | None, redirect_uri: str | None) -> None:
        """Where the operator's browser has to go. Also for a connection that was active: then it is authorized again."""
        kind = connector(str(connection.setup.get("connector", connection.settings.provider)))
        if not connection.was_active:
            self._unfinished(connection)
            self._identified(connection)
        if kind.auth != "oauth":
            raise invalid("this connector takes a credential, not an authorization", "authorize", "use credentials")
        own = connection.settings
        actor = asking().name or "operator"
        asked = Asked(
            connection.tenant, own.name, own.grant, own.url or "", kind.fields[0].path, kind.scopes, actor, session or actor, redirect_uri
        )  # fmt: skip
        await self.broker.begin(asked)

    async def authorized(self, connection: Connection, values: Mapping[str, str]) -> None:
        """The broker has a token for it. As with a key, nothing is kept before discovery has worked with it."""
        kind = self._unfinished(connection)
        try:
            await self._let_in(connection, kind, values, None)
        except GatewayError as error:
            self._refused(connection, error)
            raise

    def view(self, connection: Connection) -> dict[str, Any]:
        """The answer of every route of a setup; no secret is within reach of it."""
        kind = connector(str(connection.setup.get("connector", connection.settings.provider)))
        begun = self.broker.status(connection.tenant, connection.name)
        steps = self._steps(connection, kind, begun)
        current = next((step for step, state in steps if state != "done"), "done")
        return {
            "connection": connection.name,
            "connector": kind.id,
            "status": connection.status,
            "step": current,
            "steps": [{"step": step, "state": state} for step, state in steps],
            "problem": self._problem(connection, begun),
            "authorization_url": begun.url if begun.state == "waiting" else None,
            "expires_at": begun.expires_at if begun.state == "waiting" else None,
            "credentials": self._connections.versions(connection),
        }

    def _steps(self, connection: Connection, kind: Connector, begun: Authorization) -> list[tuple[str, str]]:
        steps: list[tuple[str, str]] = []
        if connection.settings.grant.kind == "personal":
            unknown = "failed" if self._too_late(connection) else "waiting"
            steps.append(("identity", unknown if connection.settings.grant == NOBODY else "done"))
        failed = connection.setup.get("problem") is not None or begun.state in ("denied", "expired", "failed")
        last = "authorization" if kind.auth == "oauth" else "credentials"
        steps.append((last, "done" if connection.was_active else "failed" if failed else "waiting"))
        return steps

    def _problem(self, connection: Connection, begun: Authorization) -> dict[str, str] | None:
        if connection.was_active:
            return None
        if self._too_late(connection):
            return _told(
                "identity_unresolved", "whose connection this is has not been resolved for 10 minutes", "name the person, or delete the draft"
            )
        if begun.state == "denied":
            return _told(begun.problem or "oauth_authorization_denied", "the provider did not grant the authorization", "authorize again")
        if begun.state == "expired":
            return _told("oauth_state_expired", "nobody came back from the provider in time", "authorize again")
        if begun.state == "failed" and begun.problem is not None:
            return _told(begun.problem, "the authorization could not be completed", "authorize again")
        problem: dict[str, str] | None = connection.setup.get("problem")
        return problem

    def _too_late(self, connection: Connection) -> bool:
        if connection.settings.grant != NOBODY:
            return False
        return self._clock.now() >= datetime.fromisoformat(connection.setup["began_at"]) + IDENTITY_WITHIN

    def _draft(self, kind: Connector, body: SetupBody) -> Settings:
        url = body.endpoint if body.endpoint is not None else kind.endpoint
        if kind.endpoint is None and body.endpoint is not None:
            raise invalid("this connector's address is one of its credentials", "endpoint", "leave it out")
        if url is not None:
            self._dialler.egress.check_url(url)
        check_managed(kind.id, body.managed)
        return Settings(
            name=body.name,
            provider=kind.id,
            transport=kind.transport,
            url=url if kind.transport == "mcp_http" else body.endpoint,
            protocol_version=body.protocol_version,
            grant=_grant(body.grant),
            auth={"scheme": "none", "path": None, "header": None},
            credential_paths=(),
            quarantine=bool(body.quarantine),
            tool_timeout_s=None,
            host="",
            managed=dict(body.managed),
        )

    async def _let_in(self, connection: Connection, kind: Connector, values: Mapping[str, str], endpoint: str | None) -> None:
        own = connection.settings
        if endpoint is not None and kind.endpoint is None:
            raise invalid("this connector's address is one of its credentials", "endpoint", "leave it out")
        scheme = "none" if own.transport != "mcp_http" else "oauth" if kind.auth == "oauth" else kind.scheme
        body = ConnectionBody.model_validate(
            {
                "name": own.name,
                "provider": own.provider,
                "transport": own.transport,
                "url": endpoint if endpoint is not None else own.url,
                "protocol_version": own.protocol_version,
                "grant": own.grant.document(),
                "auth": AuthBody(scheme=scheme, path=None if scheme == "none" else kind.fields[0].path),
                "credentials": dict(values),
                "quarantine": own.quarantine,
                "managed": dict(own.managed),
            }
        )
        settings = settings_of(body, self._dialler.egress, self._dialler.templates)
        async with connection.refreshing:
            self._unfinished(connection)  # another attempt may have succeeded while this one waited for its turn
            await self._connections.let_in(connection, settings, values)

    def _unfinished(self, connection: Connection) -> Connector:
        """The connector of a draft that may go on now."""
        if connection.status != "draft":
            raise GatewayError(
                "state_conflict",
                f"the connection is {connection.status}",
                where=connection.name,
                fix="rotate or reconnect it instead",
                http_status=409,
            )
        kind = connector(str(connection.setup.get("connector", connection.settings.provider)))
        self._experiments.require(connection.tenant, kind.id)
        return kind

    def _identified(self, connection: Connection) -> None:
        if connection.settings.grant == NOBODY:
            raise GatewayError(
                "identity_unresolved", "it is not known yet whose connection this is", where="identity", fix="name its subject first", http_status=409
            )

    def _refused(self, connection: Connection, error: GatewayError) -> None:
        """What is kept of a failed attempt: the code and our own words. Not the values, and nothing of the provider's."""
        if connection.status != "draft":
            return
        problem = _told(error.code, error.message, error.fix)
        with self._connections.changing(connection, "setup_refused", {"code": error.code}, "setup"):
            connection.setup = {**connection.setup, "problem": problem}


def _told(code: str, message: str, fix: str) -> dict[str, str]:
    return {"code": code, "message": message, "fix": fix}


def _grant(given: object) -> Grant:
    if given is None:
        return Grant("organization")
    if isinstance(given, Mapping) and dict(given) == {"kind": "personal"}:
        return NOBODY
    return parse_grant(given)


def _check_values(kind: Connector, values: Mapping[str, str]) -> None:
    for path in values:
        if path not in kind.paths:
            raise GatewayError(
                "unknown_field", "the connector asks for no such value", where=f"values.{path}"[:200], fix="see its fields", http_status=422
            )
    if kind.choose == "one" and len(values) != 1:
        raise invalid("exactly one of the connector's values is wanted", "values", f"give one of: {', '.join(kind.paths)}")
    if kind.choose == "all" and (missing := next((path for path in kind.paths if path not in values), None)):
        raise invalid("a value is missing", f"values.{missing}", "give it")
