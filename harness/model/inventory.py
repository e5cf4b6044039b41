"""What was agreed about a provider's tools: names, hashes, prose-free shapes, risk. No text a vendor wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints

from harness.model.location import Frozen
from harness.model.risk import Risk

RECIPE: Final = "input-schema/jcs-sha256/1"

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, StringConstraints(min_length=1)]
Day = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
ShapeBasis = Literal["verified", "assumed", "none"]
Status = Literal["active", "quarantined", "disabled", "removed"]


class Components(Frozen):
    """Hashes of a tool's other parts; None means the tool had no such part when the inventory was taken."""

    output_schema: Sha256 | None = None
    annotations: Sha256 | None = None
    title: Sha256 | None = None
    description: Sha256 | None = None


class ToolRecord(Frozen):
    """One agreed tool.

    `shape` is the schema without annotations (text inside defaults sealed, unless its pointer is in `reviewed_defaults`),
    `shape_hash` the hash of the shape with defaults in clear, `prose` pointer → hash of the removed text.
    `prose` and `components` are None when they were not recorded (the published format has neither).
    """

    name: Name
    schema_hash: Sha256
    risk: Risk
    status: Status = "active"
    parameters: tuple[str, ...]
    shape_basis: ShapeBasis
    shape_hash: Sha256 | None = None
    shape: Mapping[str, Any] | None = None
    reviewed_defaults: tuple[str, ...] = ()
    prose: Mapping[str, Sha256] | None = None
    components: Components | None = None


class Taken(Frozen):
    """How the list was got. None means the source did not say. `headers` are names only, never values.

    `instructions_hash` is of the server's instructions (of "" where it gives none); texts inside `capabilities` are `sha256:<hex>`.
    """

    date: Day
    endpoint: str | None = None
    protocol_version: str | None = None
    server_name: str | None = None
    server_version: str | None = None
    instructions_hash: Sha256 | None = None
    capabilities: Mapping[str, Any] | None = None
    headers: tuple[str, ...] = ()
    pages: int | None = Field(default=None, ge=1)


class Inventory(Frozen):
    """The agreed tools of one provider, in the order in which they were published.

    `own`: they are those of a bridge of ours. That the bridge agrees with them says nothing about the provider, so they are counted apart.
    """

    provider: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
    recipe: Literal["input-schema/jcs-sha256/1"] = RECIPE
    own: bool = False
    taken: Taken
    tools: tuple[ToolRecord, ...]

    def get(self, name: str) -> ToolRecord | None:
        """The record of a tool, by its exact name."""
        return next((record for record in self.tools if record.name == name), None)
