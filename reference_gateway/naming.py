"""How an agent attached to several connections names what is theirs: prompts as tools are named, resources by their URI after the connection's name.

Where only one connection of a run offers something, its own names hold, and the longer ones are understood as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reference_gateway.connection import Connection

Json = dict[str, Any]


NAMED: Mapping[str, str] = {"prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate", "contents": "uri"}
"""What results list, and the field that names it."""


class Names:
    """`offering`: the connections, in the run's order."""

    def __init__(self, offering: Sequence[Connection]) -> None:
        self._offering = offering
        self._several = len(offering) > 1

    def route(self, method: str, params: Json) -> tuple[Connection | None, Json]:
        """Whose it is, by look-up, and the parameters in that provider's own names."""
        if method == "completion/complete":
            ref = params.get("ref")
            key = "uri" if isinstance(ref, dict) and "uri" in ref else "name"
            connection, own = self._owner(ref.get(key) if isinstance(ref, dict) else None, key)
            return connection, {**params, "ref": {**(ref if isinstance(ref, dict) else {}), key: own}}
        key = "uri" if method.startswith("resources/") else "name"
        connection, own = self._owner(params.get(key), key)
        return connection, {**params, key: own}

    def _owner(self, name: object, key: str) -> tuple[Connection | None, object]:
        for connection in self._offering:
            prefix = self.prefix(connection, key)
            if isinstance(name, str) and name.startswith(prefix):
                return connection, name[len(prefix) :]
        return (None if self._several else self._offering[0]), name

    @staticmethod
    def prefix(connection: Connection, key: str) -> str:
        return f"{connection.name}+" if key == "uri" else connection.exposed("")

    def page(self, cursor: object) -> tuple[Connection | None, str | None]:
        """Whose page comes next, and its provider's own cursor."""
        if not self._several:
            return self._offering[0], cursor if isinstance(cursor, str) else None
        if not isinstance(cursor, str):
            return self._offering[0], None
        name, separator, own = cursor.partition(" ")
        return next((each for each in self._offering if each.name == name), None), own if separator else None

    def after(self, connection: Connection, cursor: object) -> str | None:
        """The cursor for what follows a page of this connection."""
        if isinstance(cursor, str):
            return f"{connection.name} {cursor}" if self._several else cursor
        following = list(self._offering)[list(self._offering).index(connection) + 1 :]
        return following[0].name if self._several and following else None

    def shown(self, connection: Connection, method: str, result: Json) -> Json:
        """The provider's own result; with several connections, what it names can be asked for by the names in it."""
        if not self._several:
            return result
        renamed = dict(result)
        for kind, field in NAMED.items():
            if isinstance(result.get(kind), list):
                prefix = self.prefix(connection, "name" if field == "name" else "uri")
                renamed[kind] = [_renamed(item, field, prefix) for item in result[kind]]
        return renamed


def _renamed(item: Any, field: str, prefix: str) -> Any:
    return {**item, field: prefix + item[field]} if isinstance(item, dict) and isinstance(item.get(field), str) else item
