"""REST bridges: a table that gives an HTTP request the name of the tool it carries out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Operation:
    """`Operation("DELETE", "/api/v1/datasets/{id}", "forget")`: `{name}` stands for one path segment; a trailing slash does not matter."""

    method: str
    path: str
    tool: str | None
    """None for a request that carries out no tool."""
    _pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = (("[^/]+" if part.startswith("{") and part.endswith("}") else re.escape(part)) for part in self.path.strip("/").split("/"))
        object.__setattr__(self, "_pattern", re.compile("/".join(parts)))

    def matches(self, method: str, path: str) -> bool:
        return method == self.method.upper() and self._pattern.fullmatch(path.strip("/")) is not None


def operation_table(rows: Iterable[Operation | tuple[str, str, str | None]]) -> tuple[Operation, ...]:
    """Rows may be plain (HTTP method, path, tool) triples."""
    return tuple(row if isinstance(row, Operation) else Operation(*row) for row in rows)


def tool_of(table: tuple[Operation, ...], method: str, path: str) -> str | None:
    """The tool of the first row that matches, or None."""
    return next((row.tool for row in table if row.matches(method, path)), None)
