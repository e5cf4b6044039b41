"""A tool exactly as discovery returned it, and the capture it came in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = Any
JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """`wire` is the JSON object of the tool list, untouched; everything else is read from it, nothing is normalised.

    Hash and classify from `wire` only: an SDK model re-spells, defaults and drops what it does not know.
    """

    wire: JsonObject

    @classmethod
    def from_wire(cls, wire: Json) -> Tool:
        """Raises ValueError when `wire` is not an object with a non-blank string `name`."""
        if not isinstance(wire, Mapping):
            raise ValueError(f"a tool must be an object, not {type(wire).__name__}")
        name = wire.get("name")
        if not isinstance(name, str) or not name.strip():
            raise ValueError("a tool needs a name that is a non-blank string")
        return cls(wire)

    @property
    def name(self) -> str:
        return str(self.wire["name"])

    @property
    def input_schema(self) -> Json:
        """`inputSchema`, or its older spelling `input_schema`; None when the tool has neither."""
        return self.wire["inputSchema"] if "inputSchema" in self.wire else self.wire.get("input_schema")

    @property
    def output_schema(self) -> Json:
        return self.wire.get("outputSchema")

    @property
    def annotations(self) -> JsonObject:
        """Hints as sent; empty when absent or not an object."""
        found = self.wire.get("annotations")
        return found if isinstance(found, Mapping) else {}

    @property
    def title(self) -> Json:
        return self.wire.get("title")

    @property
    def description(self) -> Json:
        return self.wire.get("description")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names in `inputSchema.properties`, shortest first, then by bytes (the published order)."""
        schema = self.input_schema
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        return ordered_parameters(properties) if isinstance(properties, Mapping) else ()


def ordered_parameters(names: Mapping[str, Any] | tuple[str, ...] | list[str]) -> tuple[str, ...]:
    """The published order of parameter names: by length in bytes, then bytewise."""
    # surrogatepass: a lone surrogate in a name is a finding elsewhere, not a crash here.
    return tuple(sorted(names, key=lambda name: (len(raw := name.encode("utf-8", "surrogatepass")), raw)))


@dataclass(frozen=True, slots=True)
class Capture:
    """A tool list as one discovery got it. `complete` is False when the list may be short; `reason` then says why.

    `source` is the URL (without query), the command or the file; `header_names` are the names of extra connection headers,
    never their values; `nameless` counts entries that are no tool; `duplicates` names what came more than once (all are kept in `tools`).
    `cursor_rule` says by which rule an empty cursor was followed, where there was one.
    """

    source: str
    tools: tuple[Tool, ...]
    pages: int
    complete: bool
    reason: str = ""
    protocol_version: str = ""
    server_name: str = ""
    server_version: str = ""
    instructions: str | None = None
    capabilities: JsonObject = field(default_factory=dict)
    header_names: tuple[str, ...] = ()
    nameless: int = 0
    duplicates: tuple[str, ...] = ()
    cursor_rule: str = ""
