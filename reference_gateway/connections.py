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
from reference_gateway.connection import Connection, Settings, Status
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
from reference_gateway.registry import Registry
from reference_gateway.review import Choice, Review, decide, proposed
from reference_gateway.runs import Run
from reference_gateway.store.base import Store
from reference_gateway.vault import Vault, VaultError

if TYPE_CHECKING:
    from collections.abc import Iterator

LET_IN = ("id", "settings", "client", "catalog", "words", "status", "was_active", "setup", "slots")
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
        self._registry = Registry(store, dialler, lambda connection: self.gone(connection))
        self._creating: set[tuple[str, str]] = set()
        self.gone: Callable[[Connection], None] = lambda connection: None
        """Told of each connection that is deleted or archived, so that nobody goes on with it under its name."""
        self.reworded: Callable[[str], None] = lambda tenant: None
        """Told, in the same transaction, in which tenant a tool got another word."""

    def current(self) -> None:
        """At start, and before anything is decided: what is stored by now, whoever stored it. Nothing is dialled. Raises StoreError."""
        self._registry.current()

    def get(self, tenant: str, name: str) -> Connection:
        """Raises ConnectionUnknown."""
        if (connection := self._registry.all.get((tenant, name))) is None:
            raise ConnectionUnknown(name)
        return connection

    def here(self, connection: Connection, status: Status | None = None) -> None:
        """Whether it still is: somebody may have deleted it, or moved it on, while its provider was asked. Raises GatewayError."""
        if self._registry.all.get((connection.tenant, connection.name)) is not connection:
            raise ConnectionUnknown(connection.name)
        if status not in (None, connection.status):
            raise GatewayError("state_conflict", f"it is {connection.status} by now", where=connection.name, fix="look again", http_status=409)

    def find(self, tenant: str, name: str) -> Connection | None:
        return self._registry.all.get((tenant, name))

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
        return [each for each in self._registry.all.values() if tenant in (None, each.tenant)]

    def public(self, connection: Connection) -> dict[str, Any]:
        return connection.public(mapped=self._dialler.egress.is_mapped(connection.settings.host))

    @contextmanager
    def reserved(self, tenant: str, name: str) -> Iterator[None]:
        """The name is nobody else's meanwhile. Raises GatewayError `connection_exists`."""
        key = (tenant, name)
        self._registry.current()
        if key in self._creating:
            raise _exists(name)
        self._free(tenant, name)
        self._creating.add(key)
        try:
            yield
        finally:
            self._creating.discard(key)

    def _free(self, tenant: str, name: str) -> None:
        if (tenant, name) in self._registry.all:
            raise _exists(name)

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
            catalog = build(settings.provider, found, self._defects)
            permitted = words_for(catalog, words or {})
            with self._registry.writing(connection, *LET_IN):
                if connection.setup:
                    self.here(connection, "draft")
                else:
                    self._free(tenant, settings.name)
                connection.id = connection.id or self._ids.new("cn")
                connection.settings, connection.client, connection.catalog, connection.words = settings, client, catalog, permitted
                connection.status, connection.was_active, connection.slots = "active", True, self._dialler.slots(settings)
                connection.setup = {**connection.setup, "problem": None} if connection.setup else {}
                self.store_secrets(connection, settings, values)
                self.record(connection, "connection_created", {"transport": settings.transport, "tools": len(catalog.tools)})
                self.record(connection, "discovery", {"discovered": len(found.tools), "pages": found.pages, "dropped": dict(found.dropped)})
        except BaseException:
            await client.close()
            raise
        credentials.settle()
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
        """One that is not connected yet. Raises StoreError, and GatewayError `connection_exists`."""
        with self._registry.writing(connection, "id"):
            self._free(connection.tenant, connection.name)
            connection.id = self._ids.new("cn")
            self.record(connection, event, details)

    @contextmanager
    def writing(self, connection: Connection, *fields: str) -> Iterator[None]:
        """The body sets these fields and records it: all of it is stored, or nothing has changed.

        It starts from what is stored by then. Raises GatewayError `state_conflict` where another process moved the connection on meanwhile.
        """
        before = connection.status, connection.revoked
        with self._registry.writing(connection, *fields):
            self.here(connection, before[0])
            if connection.revoked != before[1]:
                raise GatewayError("grant_revoked", "the grant was revoked meanwhile", where=connection.name, fix="look again", http_status=409)
            yield

    @contextmanager
    def changing(self, connection: Connection, event: Event, details: dict[str, Any], *fields: str) -> Iterator[None]:
        """As `writing`, with the one record that says so. `details` may be completed by the body."""
        with self.writing(connection, *fields):
            yield
            self.record(connection, event, details)

    async def delete(self, connection: Connection) -> None:
        await connection.client.close()
        with self._registry.removing(connection):
            self.here(connection)
            self._vault.delete(connection.tenant, connection.name)
            self.record(connection, "connection_deleted", {})
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
        """What was found becomes the catalog, changes held back where the connection is quarantined. Raises StoreError.

        Catalog, entries for review and their records: all of it or nothing.
        """
        with self.writing(connection, "catalog", "reviews", "health", "health_reason"):
            settings, known = connection.settings, {each.id for each in connection.reviews}
            catalog, changes = merge(settings.provider, connection.catalog, found, quarantine=settings.quarantine, defects=self._defects)
            reviews = proposed(connection.reviews, connection.catalog, catalog, stamp(self._clock.now()), lambda: self._ids.new("rv"))
            connection.catalog, connection.reviews, connection.health, connection.health_reason = catalog, reviews, "ok", None
            self.record(connection, "discovery", _counts(found, changes))
            for name in changes.removed:
                self.record(connection, "tool_removed", {}, tool=name)
            for each in reviews:
                if each.id not in known:
                    details = {"review": each.id, "cause": each.cause, "facets": list(each.facets)}
                    self.record(connection, "tool_quarantined", details, tool=each.tool, reason="pending_review")
        return changes

    def review(self, connection: Connection, review: str, choice: Choice, *, by: str, reason: str | None) -> Review:
        """Decides one entry, once. Raises ReviewUnknown and ReviewConflict."""
        with self.writing(connection, "catalog", "reviews"):
            connection.reviews, connection.catalog, done = decide(
                connection.reviews, connection.catalog, review, choice, by=by, reason=reason, now=stamp(self._clock.now())
            )
            details = {"review": done.id, "cause": done.cause, "facets": list(done.facets)}
            self.record(connection, "tool_reviewed", details, tool=done.tool, reason=done.state, by=by)
        return done

    def set_words(self, connection: Connection, words: Mapping[str, str]) -> None:
        """Raises GatewayError `permission_unknown` or `tool_unknown`; then nothing has changed."""
        check_words(words)
        with self.writing(connection, "words"):
            before, changed = connection.words, words_for(connection.catalog, words)
            connection.words = {**before, **changed}
            for tool, word in changed.items():
                self.record(connection, "permission_changed", {"permission": word, "before": before.get(tool)}, tool=tool)
            self.reworded(connection.tenant)

    def set_agents(self, connection: Connection, agents: Sequence[str] | None) -> None:
        """Who may use the connection from the next call on: None for every agent, an empty list for none."""
        with self.changing(connection, "agents_changed", {"agents": list(agents) if agents is not None else None}, "settings"):
            connection.settings = replace(connection.settings, agents=tuple(agents) if agents is not None else None)

    def revoke(self, connection: Connection) -> None:
        """From the next call on, every call is refused. Repeating is harmless."""
        self.current()
        if connection.revoked:
            return
        # What is under way then is not called back; its end is recorded, marked as such.
        details = {"grant": connection.settings.grant.kind, "in_flight": sorted(connection.in_flight)}
        with self.changing(connection, "grant_revoked", details, "revoked"):
            connection.revoked = True

    def set_audience(self, connection: Connection, audience: Sequence[str] | None) -> None:
        """Which subjects an organization's grant serves from the next call on: None for everybody, an empty list for nobody."""
        if connection.settings.grant.kind != "organization":
            fix = "give the connection another grant"
            raise GatewayError("invalid_field", "a personal grant serves its subject alone", where="audience", fix=fix, http_status=422)
        with self.changing(connection, "grant_audience_changed", {"audience": list(audience) if audience is not None else None}, "settings"):
            own = connection.settings
            connection.settings = replace(own, grant=replace(own.grant, audience=audience_of(audience)))

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
        for connection in self._registry.all.values():
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


def _counts(found: Discovery, changes: Changes) -> dict[str, Any]:
    return {
        "discovered": len(found.tools),
        "pages": found.pages,
        "dropped": dict(found.dropped),
        "added": len(changes.added),
        "changed": len(changes.changed),
        "removed": len(changes.removed),
        "quarantined": changes.quarantined,
    }


def _exists(name: str) -> GatewayError:
    return GatewayError("connection_exists", "the tenant has a connection of this name", where=name, fix="choose another", http_status=409)
