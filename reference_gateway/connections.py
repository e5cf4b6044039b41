"""The registry of connections: created only when their provider answered, kept in the store, ready again after a restart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import anyio

from reference_gateway.audit import AuditFields, AuditLog, Event, stamp
from reference_gateway.background import Background
from reference_gateway.bodies import ConnectionBody
from reference_gateway.bridge.cognee import CogneeBridge
from reference_gateway.catalog import Catalog, Changes, Discovery, Tool, build, merge
from reference_gateway.clock import Clock, Deadline
from reference_gateway.connection import Connection, Settings
from reference_gateway.declaration import COGNEE_KEY, COGNEE_URL, Secret, auth_headers, check_cognee, check_mcp, check_words, words_for
from reference_gateway.defects import Defects, redirected
from reference_gateway.egress import Egress
from reference_gateway.errors import GatewayError
from reference_gateway.grant import parse as parse_grant
from reference_gateway.ids import Ids
from reference_gateway.log import logger
from reference_gateway.operators import actor
from reference_gateway.provider import CogneeProvider, McpProvider, Provider
from reference_gateway.review import Choice, Review, decide, proposed
from reference_gateway.runs import Run
from reference_gateway.store.base import Store
from reference_gateway.upstream import McpUpstream
from reference_gateway.vault import Vault
from reference_gateway.wire import FETCH_FAILED, UpstreamFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

REAL_TIME_S = 30.0

log = logger("connections")


class Route(NamedTuple):
    """`tool` is None when there is none; then `connection` is where it would have been, if that much is clear, and `name` its name there."""

    connection: Connection | None
    tool: Tool | None
    name: str


class ConnectionUnknown(GatewayError):
    http_status = 404

    def __init__(self, name: str) -> None:
        super().__init__("connection_unknown", "there is no such connection in this tenant", where=name, fix="create it first")


class Connections:
    def __init__(
        self, *, store: Store, audit: AuditLog, vault: Vault, egress: Egress, clock: Clock, defects: Defects, background: Background, ids: Ids
    ) -> None:
        self._store = store
        self._audit = audit
        self._vault = vault
        self._egress = egress
        self._clock = clock
        self._defects = defects
        self._background = background
        self._ids = ids
        self._all: dict[tuple[str, str], Connection] = {}
        self._creating: set[tuple[str, str]] = set()

    def load(self) -> None:
        """At start: every stored connection, with the catalog it had. Nothing is dialled."""
        for doc in self._store.connections():
            settings = Settings.load(doc)
            client = self._provider(settings, self._from_vault(doc["tenant"], settings))
            reviews = tuple(Review.load(each) for each in doc.get("reviews", ()))
            self._all[doc["tenant"], settings.name] = Connection(
                doc["tenant"], settings, client, Catalog.load(doc["catalog"]), doc["permissions"], doc["revoked"], reviews
            )

    def get(self, tenant: str, name: str) -> Connection:
        """Raises ConnectionUnknown."""
        if (connection := self._all.get((tenant, name))) is None:
            raise ConnectionUnknown(name)
        return connection

    def find(self, tenant: str, name: str) -> Connection | None:
        return self._all.get((tenant, name))

    def route(self, run: Run, name: str) -> Route:
        """Where a name that an agent uses leads, by look-up; nothing is split. With a single connection the bare name leads there too."""
        nearest = Route(None, None, name)
        for each in run.connections:
            if (connection := self.find(run.tenant, each)) is None:
                continue
            prefix = connection.exposed("")
            bare = name.removeprefix(prefix)
            if not name.startswith(prefix) and len(run.connections) > 1:
                continue
            tool = connection.catalog.tools.get(bare) or (connection.catalog.tools.get(name) if len(run.connections) == 1 else None)
            if tool is not None and tool.status != "removed":
                return Route(connection, tool, tool.name)
            nearest = Route(connection, None, bare)
        return nearest

    def every(self, tenant: str | None = None) -> list[Connection]:
        return [each for each in self._all.values() if tenant in (None, each.tenant)]

    def public(self, connection: Connection) -> dict[str, Any]:
        return connection.public(mapped=self._egress.is_mapped(connection.settings.host))

    async def create(self, tenant: str, body: ConnectionBody) -> Connection:
        """Discovers before anything is kept. Raises GatewayError with the codes of docs/operator-api.md."""
        key = (tenant, body.name)
        if key in self._all or key in self._creating:
            raise GatewayError(
                "connection_exists", "the tenant has a connection of this name", where=body.name, fix="choose another", http_status=409
            )
        settings = self._settings(body)
        check_words(body.permissions)
        secrets: list[Secret] = [body.credentials.__getitem__]
        client = self._provider(settings, lambda path: secrets[0](path))
        self._creating.add(key)
        try:
            found = await self._discovered(client)
            catalog = build(settings.provider, found, self._defects)
            words = words_for(catalog, body.permissions)
            connection = Connection(tenant, settings, client, catalog, words)
            with self._store.transaction():
                for path, secret in body.credentials.items():
                    self._vault.put(tenant, settings.name, settings.grant.key, path, secret)
                self._store.connection_put(tenant, settings.name, connection.doc())
                self._record(connection, "connection_created", {"transport": settings.transport, "tools": len(catalog.tools)})
                self._record(connection, "discovery", {"discovered": len(found.tools), "pages": found.pages, "dropped": dict(found.dropped)})
            secrets[0] = self._from_vault(tenant, settings)
            self._all[key] = connection
        except BaseException:
            await client.close()
            raise
        finally:
            self._creating.discard(key)
        return connection

    async def delete(self, connection: Connection) -> None:
        await connection.client.close()
        with self._store.transaction():
            self._vault.delete(connection.tenant, connection.name)
            self._store.connection_delete(connection.tenant, connection.name)
            self._record(connection, "connection_deleted", {})
        self._all.pop((connection.tenant, connection.name), None)

    async def refresh(self, connection: Connection) -> tuple[Discovery, Changes]:
        """Discovers again. When that fails the catalog stays as it was. Raises GatewayError."""
        async with connection.refreshing:
            try:
                found = await self._discovered(connection.client)
            except GatewayError as error:
                connection.health = "error"
                self._record(connection, "discovery", {"code": error.code}, outcome="failure", reason=error.code)
                raise
            merged = self._merged(connection, found)
            self._adopt(connection, found, merged)
            return found, merged[1]

    def _merged(self, connection: Connection, found: Discovery) -> tuple[Catalog, Changes]:
        settings = connection.settings
        return merge(settings.provider, connection.catalog, found, quarantine=settings.quarantine, defects=self._defects)

    def _adopt(self, connection: Connection, found: Discovery, merged: tuple[Catalog, Changes]) -> None:
        """Catalog, entries for review and their records: all of it or nothing."""
        catalog, changes = merged
        reviews = proposed(connection.reviews, connection.catalog, catalog, stamp(self._clock.now()), lambda: self._ids.new("rv"))
        counts = {
            "discovered": len(found.tools),
            "pages": found.pages,
            "dropped": dict(found.dropped),
            "added": len(changes.added),
            "changed": len(changes.changed),
            "removed": len(changes.removed),
            "quarantined": changes.quarantined,
        }
        known = {each.id for each in connection.reviews}
        before = connection.catalog, connection.reviews
        connection.catalog, connection.reviews, connection.health = catalog, reviews, "ok"
        with _undone(connection, catalog=before[0], reviews=before[1]), self._store.transaction():
            self._store.connection_put(connection.tenant, connection.name, connection.doc())
            self._record(connection, "discovery", counts)
            for name in changes.removed:
                self._record(connection, "tool_removed", {}, tool=name)
            for each in reviews:
                if each.id not in known:
                    details = {"review": each.id, "cause": each.cause, "facets": list(each.facets)}
                    self._record(connection, "tool_quarantined", details, tool=each.tool, reason="pending_review")

    def review(self, connection: Connection, review: str, choice: Choice, *, by: str, reason: str | None) -> Review:
        """Decides one entry, once. Raises ReviewUnknown and ReviewConflict."""
        before = connection.catalog, connection.reviews
        reviews, catalog, done = decide(
            connection.reviews, connection.catalog, review, choice, by=by, reason=reason, now=stamp(self._clock.now())
        )
        connection.catalog, connection.reviews = catalog, reviews
        with _undone(connection, catalog=before[0], reviews=before[1]), self._store.transaction():
            self._store.connection_put(connection.tenant, connection.name, connection.doc())
            details = {"review": done.id, "cause": done.cause, "facets": list(done.facets)}
            self._record(connection, "tool_reviewed", details, tool=done.tool, reason=done.state, by=by)
        return done

    def set_words(self, connection: Connection, words: Mapping[str, str]) -> None:
        """Raises GatewayError `permission_unknown` or `tool_unknown`; then nothing has changed."""
        check_words(words)
        changed = words_for(connection.catalog, words)
        before, connection.words = connection.words, {**connection.words, **changed}
        with _undone(connection, words=before), self._store.transaction():
            self._store.connection_put(connection.tenant, connection.name, connection.doc())
            for tool, word in changed.items():
                self._record(connection, "permission_changed", {"permission": word, "before": before.get(tool)}, tool=tool)

    def set_agents(self, connection: Connection, agents: Sequence[str] | None) -> None:
        """Who may use the connection from the next call on: None for every agent, an empty list for none."""
        before = connection.settings
        connection.settings = replace(before, agents=tuple(agents) if agents is not None else None)
        with _undone(connection, settings=before), self._store.transaction():
            self._store.connection_put(connection.tenant, connection.name, connection.doc())
            self._record(connection, "agents_changed", {"agents": list(agents) if agents is not None else None})

    def revoke(self, connection: Connection) -> None:
        """From the next call on, every call is refused. Repeating is harmless."""
        if connection.revoked:
            return
        connection.revoked = True
        with _undone(connection, revoked=False), self._store.transaction():
            self._store.connection_put(connection.tenant, connection.name, connection.doc())
            self._record(connection, "grant_revoked", {"grant": connection.settings.grant.kind})

    def credential_version(self, connection: Connection) -> int:
        """Changes whenever any secret of the connection does."""
        return sum(self._vault.version(connection.tenant, connection.name, path) for path in connection.settings.credential_paths)

    def secret(self, connection: Connection) -> str | None:
        """The credential that requests carry. Only the defect that leaks it asks."""
        path = COGNEE_KEY if connection.settings.transport == "cognee_cloud" else connection.settings.auth.get("path")
        return self._from_vault(connection.tenant, connection.settings)(path) if path else None

    async def close(self) -> None:
        for connection in self._all.values():
            await connection.client.close()

    async def _discovered(self, client: Provider) -> Discovery:
        try:
            # On a clock that stands still, a provider that never answers would hold the operator's request for ever.
            with anyio.move_on_after(REAL_TIME_S), Deadline(self._clock, client.discovery_timeout_s):
                return await client.discover()
        except UpstreamFailure as failure:
            raise discovery_error(failure) from failure
        raise GatewayError("provider_unreachable", "the provider did not answer in time", fix="check that it runs", http_status=502)

    def _from_vault(self, tenant: str, settings: Settings) -> Secret:
        return lambda path: self._vault.get(tenant, settings.name, settings.grant.key, path)

    def _settings(self, body: ConnectionBody) -> Settings:
        grant = parse_grant(body.grant if body.grant is not None else {"kind": "organization"})
        host = check_cognee(body, self._egress) if body.transport == "cognee_cloud" else check_mcp(body, self._egress)
        return Settings(
            name=body.name,
            provider=body.provider,
            transport=body.transport,
            url=body.url,
            protocol_version=body.protocol_version,
            grant=grant,
            auth=body.auth.model_dump(),
            credential_paths=tuple(body.credentials),
            quarantine=body.provider == "generic" if body.quarantine is None else body.quarantine,
            tool_timeout_s=body.tool_timeout_s,
            host=host,
            agents=tuple(body.agents) if body.agents is not None else None,
        )

    def _provider(self, settings: Settings, secret: Secret) -> Provider:
        if settings.transport == "cognee_cloud":
            return CogneeProvider(lambda: CogneeBridge(self._egress, secret(COGNEE_URL), secret(COGNEE_KEY)), self._defects)
        url = settings.url or ""
        pin = None if settings.protocol_version == "auto" else settings.protocol_version
        upstream = McpUpstream(
            self._egress.client,
            url,
            lambda: auth_headers(settings.auth, secret),
            self._background,
            pin=pin,
            call_url=redirected(url, self._defects["bypass-tap"]) if "bypass-tap" in self._defects else None,
        )
        return McpProvider(upstream, url, pin, self._defects)

    def _record(
        self,
        connection: Connection,
        event: Event,
        details: dict[str, Any],
        *,
        tool: str | None = None,
        outcome: str = "success",
        reason: str = "",
        by: str | None = None,
    ) -> None:
        fields = {
            "tenant": connection.tenant,
            "actor": f"operator:{by}" if by is not None else actor(),
            "connection": connection.name,
            "provider": connection.settings.provider,
            "tool": tool,
            "event": event,
            "outcome": outcome,
            "decision": "allow",
            "reason": reason or event,
            "details": details,
        }
        self._audit.append(**cast(AuditFields, fields))


@contextmanager
def _undone(connection: Connection, **before: object) -> Iterator[None]:
    """What could not be stored did not happen."""
    try:
        yield
    except GatewayError:
        for name, value in before.items():
            setattr(connection, name, value)
        raise


def discovery_error(failure: UpstreamFailure) -> GatewayError:
    """What the operator is told about a discovery that failed."""
    if failure.status in (401, 403):
        return GatewayError(
            "memory_api_key_rejected",
            f"the provider answered {failure.status}",
            where="credentials",
            fix="check the credential",
            http_status=422,
        )
    code = "provider_unreachable" if failure.reason == FETCH_FAILED else "provider_protocol"
    return GatewayError(code, failure.message, where="url", fix="check the address, and that an MCP server answers there", http_status=502)
