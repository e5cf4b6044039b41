"""The registry of connections: created only when their provider answered, kept in the store, ready again after a restart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from reference_gateway.audit import AuditFields, AuditLog, Event, stamp
from reference_gateway.bodies import ConnectionBody
from reference_gateway.catalog import Catalog, Changes, Discovery, Tool, build, merge
from reference_gateway.clock import Clock
from reference_gateway.connection import Connection, Settings, Status, undone
from reference_gateway.connectors import CONNECTORS, paths_of
from reference_gateway.declaration import COGNEE_KEY, check_words, settings_of, words_for
from reference_gateway.defects import Defects
from reference_gateway.dialling import Dialler
from reference_gateway.errors import GatewayError
from reference_gateway.experiments import Experiments
from reference_gateway.grant import audience_of
from reference_gateway.ids import Ids
from reference_gateway.log import logger
from reference_gateway.operators import actor
from reference_gateway.provider import Absent
from reference_gateway.review import Choice, Review, decide, proposed
from reference_gateway.runs import Run
from reference_gateway.store.base import Store
from reference_gateway.vault import Vault, VaultError

if TYPE_CHECKING:
    from collections.abc import Iterator

LET_IN = ("settings", "client", "catalog", "words", "status", "was_active", "setup", "slots")
"""What changes of a connection when its provider lets it in for the first time."""

EMPTY = Catalog({}, 0, {}, None, None)
"""Of a connection that nobody has let in yet."""

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
        self,
        *,
        store: Store,
        audit: AuditLog,
        vault: Vault,
        dialler: Dialler,
        experiments: Experiments,
        clock: Clock,
        defects: Defects,
        ids: Ids,
    ) -> None:
        self._store = store
        self._audit = audit
        self._vault = vault
        self._dialler = dialler
        self._experiments = experiments
        self._clock = clock
        self._defects = defects
        self._ids = ids
        self._all: dict[tuple[str, str], Connection] = {}
        self._creating: set[tuple[str, str]] = set()
        self.gone: Callable[[Connection], None] = lambda connection: None
        """Told of each connection that is deleted or archived, so that nobody goes on with it under its name."""

    def load(self) -> None:
        """At start: every stored connection, with the catalog it had. Nothing is dialled."""
        for doc in self._store.connections():
            tenant, settings = doc["tenant"], Settings.load(doc)
            connection = Connection.load(doc, settings, Absent())
            self._all[tenant, settings.name] = connection
            if connection.status in ("draft", "archived"):
                continue
            try:
                connection.client = self._dialler.make(tenant, settings, self._dialler.credentials(tenant, settings))
                connection.slots = self._dialler.slots(settings)
            except GatewayError as error:  # what it was set up with is no longer approved; the others must start all the same
                connection.health, connection.health_reason = "error", error.code
                log.warning("not_loaded", code=error.code)

    def get(self, tenant: str, name: str) -> Connection:
        """Raises ConnectionUnknown."""
        if (connection := self._all.get((tenant, name))) is None:
            raise ConnectionUnknown(name)
        return connection

    def here(self, connection: Connection, status: Status | None = None) -> None:
        """Whether it still is: somebody may have deleted it, or moved it on, while its provider was asked. Raises GatewayError."""
        if self._all.get((connection.tenant, connection.name)) is not connection:
            raise ConnectionUnknown(connection.name)
        if status not in (None, connection.status):
            raise GatewayError("state_conflict", f"it is {connection.status} by now", where=connection.name, fix="look again", http_status=409)

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
            alone = len(run.connections) == 1 or "bare-name-guessed" in self._defects
            if not name.startswith(prefix) and not alone:
                continue
            tool = connection.catalog.tools.get(bare) or (connection.catalog.tools.get(name) if alone else None)
            if tool is not None and tool.status != "removed":
                return Route(connection, tool, tool.name)
            nearest = Route(connection, None, bare)
        return nearest

    def every(self, tenant: str | None = None) -> list[Connection]:
        return [each for each in self._all.values() if tenant in (None, each.tenant)]

    def public(self, connection: Connection) -> dict[str, Any]:
        return connection.public(mapped=self._dialler.egress.is_mapped(connection.settings.host))

    @contextmanager
    def reserved(self, tenant: str, name: str) -> Iterator[None]:
        """The name is nobody else's meanwhile. Raises GatewayError `connection_exists`."""
        key = (tenant, name)
        if key in self._all or key in self._creating:
            raise GatewayError("connection_exists", "the tenant has a connection of this name", where=name, fix="choose another", http_status=409)
        self._creating.add(key)
        try:
            yield
        finally:
            self._creating.discard(key)

    def loosened(self, connection: Connection) -> list[str]:
        """The development settings that its calls rest on."""
        return self._dialler.egress.loosened(connection.settings.host)

    async def create(self, tenant: str, body: ConnectionBody) -> Connection:
        """Discovers before anything is kept. Raises GatewayError with the codes of docs/operator-api.md."""
        if body.provider in CONNECTORS:
            self._experiments.require(tenant, body.provider)
        if body.auth.scheme == "oauth":
            raise GatewayError(
                "oauth_setup_required", "nobody hands a consent over", where="auth.scheme", fix="use POST setups, then authorize", http_status=422
            )
        with self.reserved(tenant, body.name):
            settings = settings_of(body, self._dialler.egress, self._dialler.templates)
            check_words(body.permissions)
            connection = Connection(tenant, settings, Absent(), EMPTY, {}, status="draft", was_active=False)
            return await self.let_in(connection, settings, body.credentials, body.permissions)

    async def let_in(
        self, connection: Connection, settings: Settings, values: Mapping[str, str], words: Mapping[str, str] | None = None
    ) -> Connection:
        """A draft becomes active: only after its provider answered is anything of it kept, above all its secrets. Raises GatewayError."""
        tenant = connection.tenant
        credentials = self._dialler.credentials(tenant, settings, values)
        client = self._dialler.make(tenant, settings, credentials)
        try:
            if "secret-before-validation" in self._defects:
                self.store_secrets(connection, settings, values)
            found = await self._dialler.discovered(client)
            if connection.setup:
                self.here(connection, "draft")
            catalog = build(settings.provider, found, self._defects)
            permitted = words_for(catalog, words or {})
            before = {name: getattr(connection, name) for name in LET_IN}
            connection.settings, connection.client, connection.catalog, connection.words = settings, client, catalog, permitted
            connection.status, connection.was_active, connection.slots = "active", True, self._dialler.slots(settings)
            connection.setup = {**connection.setup, "problem": None} if connection.setup else {}
            with undone(connection, **before), self._store.transaction():
                self.store_secrets(connection, settings, values)
                self._store.connection_put(tenant, settings.name, connection.doc())
                self.record(connection, "connection_created", {"transport": settings.transport, "tools": len(catalog.tools)})
                self.record(connection, "discovery", {"discovered": len(found.tools), "pages": found.pages, "dropped": dict(found.dropped)})
        except BaseException:
            await client.close()
            raise
        credentials.settle()
        self._all[tenant, settings.name] = connection
        return connection

    def store_secrets(self, connection: Connection, settings: Settings, values: Mapping[str, str]) -> None:
        for path, secret in values.items():
            self._vault.put(connection.tenant, settings.name, settings.grant.key, path, secret)

    def forget_secrets(self, connection: Connection) -> None:
        self._vault.delete(connection.tenant, connection.name)

    def versions(self, connection: Connection) -> list[dict[str, Any]]:
        """Of every credential that the vault holds for it: path and version."""
        paths = dict.fromkeys((*connection.settings.credential_paths, *paths_of(connection.settings.provider)))
        found = ((path, self._vault.version(connection.tenant, connection.name, path)) for path in paths)
        return [{"path": path, "version": version} for path, version in found if version]

    def add(self, connection: Connection, event: Event, details: dict[str, Any]) -> None:
        """One that is not connected yet. Raises StoreError."""
        with self._store.transaction():
            self._store.connection_put(connection.tenant, connection.name, connection.doc())
            self.record(connection, event, details)
        self._all[connection.tenant, connection.name] = connection

    @contextmanager
    def changing(self, connection: Connection, event: Event, details: dict[str, Any], *fields: str) -> Iterator[None]:
        """The body sets these fields; they are stored together with the record of it, or stay as they were."""
        self.here(connection)
        before = {name: getattr(connection, name) for name in fields}
        with undone(connection, **before), self._store.transaction():
            yield
            self._store.connection_put(connection.tenant, connection.name, connection.doc())
            self.record(connection, event, details)

    async def delete(self, connection: Connection) -> None:
        await connection.client.close()
        with self._store.transaction():
            self._vault.delete(connection.tenant, connection.name)
            self._store.connection_delete(connection.tenant, connection.name)
            self.record(connection, "connection_deleted", {})
        self._all.pop((connection.tenant, connection.name), None)
        self.gone(connection)
        await connection.client.close()  # if it was connected while the first one was ended

    async def refresh(self, connection: Connection) -> tuple[Discovery, Changes]:
        """Discovers again. When that fails the catalog stays as it was. Raises GatewayError."""
        async with connection.refreshing:
            try:
                found = await self._dialler.discovered(connection.client)
            except GatewayError as error:
                connection.health, connection.health_reason = "error", error.code
                self.record(connection, "discovery", {"code": error.code}, outcome="failure", reason=error.code)
                raise
            return found, self.adopt(connection, found)

    def adopt(self, connection: Connection, found: Discovery) -> Changes:
        """What was found becomes the catalog, changes held back where the connection is quarantined. Raises StoreError."""
        self.here(connection)
        merged = self._merged(connection, found)
        self._adopt(connection, found, merged)
        return merged[1]

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
        connection.catalog, connection.reviews, connection.health, connection.health_reason = catalog, reviews, "ok", None
        with undone(connection, catalog=before[0], reviews=before[1]), self._store.transaction():
            self._store.connection_put(connection.tenant, connection.name, connection.doc())
            self.record(connection, "discovery", counts)
            for name in changes.removed:
                self.record(connection, "tool_removed", {}, tool=name)
            for each in reviews:
                if each.id not in known:
                    details = {"review": each.id, "cause": each.cause, "facets": list(each.facets)}
                    self.record(connection, "tool_quarantined", details, tool=each.tool, reason="pending_review")

    def review(self, connection: Connection, review: str, choice: Choice, *, by: str, reason: str | None) -> Review:
        """Decides one entry, once. Raises ReviewUnknown and ReviewConflict."""
        before = connection.catalog, connection.reviews
        reviews, catalog, done = decide(
            connection.reviews, connection.catalog, review, choice, by=by, reason=reason, now=stamp(self._clock.now())
        )
        connection.catalog, connection.reviews = catalog, reviews
        with undone(connection, catalog=before[0], reviews=before[1]), self._store.transaction():
            self._store.connection_put(connection.tenant, connection.name, connection.doc())
            details = {"review": done.id, "cause": done.cause, "facets": list(done.facets)}
            self.record(connection, "tool_reviewed", details, tool=done.tool, reason=done.state, by=by)
        return done

    def set_words(self, connection: Connection, words: Mapping[str, str]) -> None:
        """Raises GatewayError `permission_unknown` or `tool_unknown`; then nothing has changed."""
        check_words(words)
        changed = words_for(connection.catalog, words)
        before, connection.words = connection.words, {**connection.words, **changed}
        with undone(connection, words=before), self._store.transaction():
            self._store.connection_put(connection.tenant, connection.name, connection.doc())
            for tool, word in changed.items():
                self.record(connection, "permission_changed", {"permission": word, "before": before.get(tool)}, tool=tool)

    def set_agents(self, connection: Connection, agents: Sequence[str] | None) -> None:
        """Who may use the connection from the next call on: None for every agent, an empty list for none."""
        before = connection.settings
        connection.settings = replace(before, agents=tuple(agents) if agents is not None else None)
        with undone(connection, settings=before), self._store.transaction():
            self._store.connection_put(connection.tenant, connection.name, connection.doc())
            self.record(connection, "agents_changed", {"agents": list(agents) if agents is not None else None})

    def revoke(self, connection: Connection) -> None:
        """From the next call on, every call is refused. Repeating is harmless."""
        if connection.revoked:
            return
        connection.revoked = True
        with undone(connection, revoked=False), self._store.transaction():
            self._store.connection_put(connection.tenant, connection.name, connection.doc())
            # What is under way then is not called back; its end is recorded, marked as such.
            self.record(connection, "grant_revoked", {"grant": connection.settings.grant.kind, "in_flight": sorted(connection.in_flight)})

    def set_audience(self, connection: Connection, audience: Sequence[str] | None) -> None:
        """Which subjects an organization's grant serves from the next call on: None for everybody, an empty list for nobody."""
        before = connection.settings
        if before.grant.kind != "organization":
            fix = "give the connection another grant"
            raise GatewayError("invalid_field", "a personal grant serves its subject alone", where="audience", fix=fix, http_status=422)
        connection.settings = replace(before, grant=replace(before.grant, audience=audience_of(audience)))
        with undone(connection, settings=before), self._store.transaction():
            self._store.connection_put(connection.tenant, connection.name, connection.doc())
            self.record(connection, "grant_audience_changed", {"audience": list(audience) if audience is not None else None})

    def unready(self, connection: Connection) -> str | None:
        """`grant_credential_invalid` where a credential cannot be opened: then nothing can be sent, and nothing is recorded as sent."""
        own = connection.settings
        try:
            for path in own.credential_paths:
                self._vault.check(connection.tenant, own.name, own.grant.key, path)
        except VaultError as error:
            log.warning("credential_unusable", code=error.code, where=error.where)
            return "grant_credential_invalid"
        return None

    def credential_version(self, connection: Connection) -> int:
        """Changes whenever any secret of the connection does, and whenever what is put into its calls does."""
        own = connection.settings
        if own.auth.get("scheme") == "oauth":  # a renewed token is the same consent
            return own.managed_version + self._dialler.consents(connection.tenant, own)
        return own.managed_version + sum(self._vault.version(connection.tenant, connection.name, path) for path in own.credential_paths)

    def secret(self, connection: Connection) -> str | None:
        """The credential that requests carry. Only the defect that leaks it asks."""
        own = connection.settings
        fixed = {"cognee_cloud": COGNEE_KEY, "papr_cloud": next(iter(own.credential_paths), None)}
        path = fixed.get(own.transport, own.auth.get("path"))
        return self._dialler.credentials(connection.tenant, connection.settings)(path) if path else None

    async def close(self) -> None:
        for connection in self._all.values():
            await connection.client.close()

    def record(
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
