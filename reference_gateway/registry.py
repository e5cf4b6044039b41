"""The connections as this process holds them, and as the store has them: other gateways on the same store change them too.

Before anything is decided or changed, what others stored meanwhile is taken over; every change is one transaction that begins so. The
store's transactions take turns across all processes, so no change is lost and none is undone by a neighbour's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from reference_gateway.connection import KEPT, Connection, Settings
from reference_gateway.dialling import Dialler
from reference_gateway.errors import GatewayError
from reference_gateway.log import logger
from reference_gateway.provider import Absent
from reference_gateway.store.base import Document, Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

Key = tuple[str, str]

TAKEN = ("settings", "catalog", "words", "revoked", "reviews", "revision", *KEPT)
"""What of a connection another process may have changed."""
UNKNOWN = -1

log = logger("registry")


class Registry:
    """`gone` is told of each connection that another process deleted or archived."""

    def __init__(self, store: Store, dialler: Dialler, gone: Callable[[Connection], None]) -> None:
        self._store = store
        self._dialler = dialler
        self._gone = gone
        self._seen = UNKNOWN
        self.all: dict[Key, Connection] = {}

    def current(self) -> None:
        """What others changed is taken over; nothing is dialled. One small read where nothing was changed. Raises StoreError."""
        seen = self._store.connections_revision()
        if seen == self._seen:
            return
        stored = self._store.connection_revisions()
        for key in self.all.keys() - stored.keys():
            self._drop(key)
        for key, revision in stored.items():
            mine = self.all.get(key)
            if mine is None or mine.revision != revision:
                self._take_what_can_be_read(key)
        self._seen = seen

    @contextmanager
    def writing(self, connection: Connection, *fields: str) -> Iterator[None]:
        """One transaction, begun with what is stored by now, in which the body sets these fields of the connection.

        They are stored when it ends; where anything fails, they are as they were, here as there. Raises what the body raises, and StoreError.
        """
        before: dict[str, object] = {}
        try:
            with self._store.transaction():
                self.current()
                before = {name: getattr(connection, name) for name in (*fields, "revision")}
                yield
                connection.revision = self._store.connection_put(connection.tenant, connection.name, connection.doc())
                self._seen = connection.revision
        except BaseException:
            self._seen = UNKNOWN
            for name, value in before.items():
                setattr(connection, name, value)
            raise
        self.all[connection.tenant, connection.name] = connection

    @contextmanager
    def removing(self, connection: Connection) -> Iterator[None]:
        """One transaction in which it is deleted from the store; the body records that."""
        key = (connection.tenant, connection.name)
        with self._store.transaction():
            self.current()
            yield
            self._store.connection_delete(*key)
        self.all.pop(key, None)

    def _take_what_can_be_read(self, key: Key) -> None:
        """One that cannot be read is not there; the others go on all the same. Raises StoreError."""
        try:
            self._take(key)
        except StoreError:
            raise
        except (GatewayError, LookupError, TypeError, ValueError) as error:
            log.error("not_readable", connection=key[1], kind=type(error).__name__)
            self._drop(key)

    def _take(self, key: Key) -> None:
        doc = self._store.connection_get(*key)
        mine = self.all.get(key)
        if doc is None or mine is None or mine.id != doc.get("id", ""):  # another one of that name is another one
            self._drop(key)
            if doc is not None:
                self.all[key] = self._loaded(doc)
            return
        theirs = Connection.load(doc, Settings.load(doc), mine.client)
        elsewhere = _far_side(theirs) != _far_side(mine)
        for name in TAKEN:
            setattr(mine, name, getattr(theirs, name))
        if elsewhere:
            self._dialler.leave(mine.client)
            self._connect(mine)
            if mine.status == "archived":
                self._gone(mine)

    def _loaded(self, doc: Document) -> Connection:
        connection = Connection.load(doc, Settings.load(doc), Absent())
        self._connect(connection)
        return connection

    def _connect(self, connection: Connection) -> None:
        """To what its settings say; nothing is dialled."""
        settings, connection.client = connection.settings, Absent()
        if connection.status in ("draft", "archived"):
            return
        try:
            connection.client = self._dialler.make(connection.tenant, settings, self._dialler.credentials(connection.tenant, settings))
            connection.slots = self._dialler.slots(settings)
        except GatewayError as error:  # what it was set up with is no longer approved; the others must go on all the same
            connection.health, connection.health_reason = "error", error.code
            log.warning("not_loaded", code=error.code)

    def _drop(self, key: Key) -> None:
        if (connection := self.all.pop(key, None)) is not None:
            self._dialler.leave(connection.client)
            self._gone(connection)


def _far_side(connection: Connection) -> tuple[object, ...]:
    """What its calls go to, and with what: where that changed, it is connected anew."""
    own = connection.settings
    there = (own.transport, own.url, own.protocol_version, own.host, own.template, own.grant.key)
    return (connection.status in ("draft", "archived"), connection.generation, *there, dict(own.auth), own.credential_paths, own.offers)
