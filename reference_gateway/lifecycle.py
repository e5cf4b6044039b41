"""What happens to a connection after its setup: states, reconnecting, new credentials, instructions, fixed arguments."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from reference_gateway.bodies import invalid
from reference_gateway.connection import Connection, Status
from reference_gateway.connections import Connections
from reference_gateway.connectors import CONNECTORS
from reference_gateway.declaration import body_of, settings_of
from reference_gateway.defects import Defects
from reference_gateway.dialling import Dialler
from reference_gateway.errors import GatewayError
from reference_gateway.managed import check as check_managed
from reference_gateway.provider import Absent
from reference_gateway.stdio.provider import StdioProvider

NEXT: Mapping[Status, tuple[Status, ...]] = {
    "draft": ("archived",),
    "active": ("paused", "disabled", "archived"),
    "paused": ("active", "disabled", "archived"),
    "disabled": ("active", "archived"),
    "archived": (),
}
MAX_TEXT = 4000


class Lifecycle:
    def __init__(self, connections: Connections, dialler: Dialler, defects: Defects) -> None:
        self._connections = connections
        self._dialler = dialler
        self._defects = defects

    async def set_state(self, connection: Connection, to: Status) -> None:
        """Raises GatewayError `state_conflict`, and, from disabled to active, what a discovery raises; then nothing has changed."""
        before = connection.status
        if to == before:
            return
        if to not in NEXT[before]:
            raise _conflict(connection, f"to {to}")
        if before == "disabled":
            await self._connections.refresh(connection)
            if connection.status != before:  # somebody else decided while the provider was asked
                raise _conflict(connection, f"to {to}")
        if to == "archived":
            await connection.client.close()  # while its credential can still be read
        with self._changed(connection, to):
            connection.status = to
            if to == "archived":
                self._connections.forget_secrets(connection)
        if to == "archived":
            connection.client = Absent()
            self._connections.gone(connection)
        elif to == "disabled":
            await connection.client.close()

    def _changed(self, connection: Connection, to: Status) -> AbstractContextManager[None]:
        details = {"state": to, "before": connection.status}
        return self._connections.changing(connection, "connection_state_changed", details, "status")

    async def reconnect(self, connection: Connection) -> None:
        """With the stored credential, from the first handshake on. Raises GatewayError; the catalog then stays."""
        _set_up(connection)
        if isinstance(connection.client, StdioProvider):
            connection.client.supervisor.forgive()
        await connection.client.close()
        await self._connections.refresh(connection)
        self._connections.record(connection, "connection_reconnected", {"tools": len(connection.catalog.active())})

    async def rotate(self, connection: Connection, values: Mapping[str, str]) -> None:
        """New credentials for old, once the provider has let us in with them. Raises GatewayError; then the old ones stay in use."""
        _set_up(connection)
        tenant, own = connection.tenant, connection.settings
        if own.auth.get("scheme") == "oauth":
            raise invalid("a consent is given in a browser", "values", "use POST setups/{connection}/authorize")
        one = own.provider in CONNECTORS and CONNECTORS[own.provider].choose == "one"
        allowed = CONNECTORS[own.provider].paths if one else own.credential_paths
        if unknown := next((path for path in values if path not in allowed), None):
            raise GatewayError(
                "unknown_field", "the connection has no such credential", where=f"values.{unknown}"[:200], fix="see its setup", http_status=422
            )
        if not values or (one and len(values) != 1):
            raise invalid("exactly one credential is wanted" if one else "no credential is given", "values", "give the new one under its path")
        stored = self._dialler.credentials(tenant, own)
        every = dict(values) if one else {path: values[path] if path in values else stored(path) for path in own.credential_paths}
        judged = settings_of(body_of(own, every), self._dialler.egress, self._dialler.templates)
        settings = replace(own, credential_paths=judged.credential_paths, host=judged.host)
        tried = self._dialler.credentials(tenant, settings, values)
        client = self._dialler.make(tenant, settings, tried)
        try:
            async with connection.refreshing:
                found = await self._dialler.discovered(client)
                _set_up(connection)
                with self._connections.changing(connection, "credential_rotated", {"paths": sorted(values)}, "settings", "client", "generation"):
                    if one:
                        self._connections.forget_secrets(connection)
                    if "rotation-forgets" not in self._defects:
                        self._connections.store_secrets(connection, settings, values)
                    # On what holds by now: operators may have changed other settings while the provider was asked.
                    paths, host = settings.credential_paths, settings.host
                    connection.settings = replace(connection.settings, credential_paths=paths, host=host)
                    old, connection.client, connection.generation = connection.client, client, connection.generation + 1
                tried.settle()
                self._connections.adopt(connection, found)
        except BaseException:
            if connection.client is not client:
                await client.close()
            raise
        await old.close()

    def instruct(self, connection: Connection, fields: Mapping[str, Any]) -> None:
        """`text` (None: the connector's own again) and `enabled`, whichever is given. Raises GatewayError `invalid_field`."""
        text = fields.get("text")
        if text is not None and any(ord(letter) < 32 and letter not in "\n\t" for letter in text):
            raise invalid("the text holds control characters", "text", "write plain text")
        details = {"edited": text is not None if "text" in fields else connection.instructions is not None, "enabled": connection.instructions_on}
        details |= {"enabled": fields["enabled"]} if "enabled" in fields else {}
        with self._connections.changing(connection, "instructions_changed", details, "instructions", "instructions_on"):
            if "text" in fields:
                connection.instructions = text
            if "enabled" in fields:
                connection.instructions_on = fields["enabled"]

    def manage(self, connection: Connection, managed: Mapping[str, Any]) -> None:
        """From the next call on. What waits for approval was asked for under others, and is not executed. Raises GatewayError."""
        check_managed(connection.settings.provider, managed)
        with self._connections.changing(connection, "managed_arguments_changed", {"arguments": sorted(managed)}, "settings"):
            own = connection.settings
            connection.settings = replace(own, managed=dict(managed), managed_version=own.managed_version + 1)


def _set_up(connection: Connection) -> None:
    if connection.status in ("draft", "archived"):
        raise _conflict(connection, "with a credential")
    if connection.revoked:
        raise GatewayError("grant_revoked", "the grant was revoked", where=connection.name, fix="set up another connection", http_status=409)


def _conflict(connection: Connection, what: str) -> GatewayError:
    return GatewayError(
        "state_conflict",
        f"a connection that is {connection.status} does not go on {what}",
        where=connection.name,
        fix=f"from {connection.status} it goes on to: {', '.join(NEXT[connection.status]) or 'nothing'}",
        http_status=409,
    )
