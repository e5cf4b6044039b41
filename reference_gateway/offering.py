"""Switching what crosses a connection besides tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reference_gateway.connection import Connection
from reference_gateway.connections import Connections
from reference_gateway.peer import abilities
from reference_gateway.provider import McpProvider


async def set_offers(connections: Connections, connection: Connection, offers: Sequence[str]) -> None:
    """Holds from the next request on. Raises StoreError; then nothing has changed."""
    offered = tuple(dict.fromkeys(offers))
    with connections.changing(connection, "offers_changed", {"offers": list(offered)}, "settings"):
        connection.settings = replace(connection.settings, offers=offered)
    if isinstance(connection.client, McpProvider):
        await connection.client.upstream.offer(abilities(offered))
