"""From a capture to an inventory: sanitized records of what discovery returned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from harness.errors import Incomplete
from harness.inventory.canonical import component_hashes, json_hash, prose, schema_hash, text_hash
from harness.inventory.shape import open_defaults, seal_defaults, seal_texts, shape
from harness.model.inventory import Inventory, Taken, ToolRecord
from harness.model.risk import Risk
from harness.model.tool import Capture, Tool


def build_inventory(capture: Capture, *, provider: str, date: str, risk_of: Callable[[Tool], Risk]) -> Inventory:
    """The inventory of a whole capture; `date` is YYYY-MM-DD. Raises Incomplete for a short or ambiguous list, NotCanonical for a bad schema."""
    if not capture.complete:
        raise Incomplete(f"the list is incomplete ({capture.reason})", where=capture.source, fix="capture it again; a short list is no inventory")
    if capture.duplicates or capture.nameless:
        what = f"{len(capture.duplicates)} names stand twice and {capture.nameless} entries have none"
        raise Incomplete(what, where=capture.source, fix="have the server list each tool once, by name")
    taken = Taken(
        date=date,
        endpoint=capture.source,
        protocol_version=capture.protocol_version or None,
        server_name=capture.server_name or None,
        server_version=capture.server_version or None,
        instructions_hash=text_hash(capture.instructions or "") if capture.protocol_version else None,
        capabilities=seal_texts(capture.capabilities) if capture.protocol_version else None,
        headers=capture.header_names,
        pages=capture.pages,
    )
    return Inventory(provider=provider, taken=taken, tools=tuple(record_of(tool, risk=risk_of(tool)) for tool in capture.tools))


def record_of(tool: Tool, *, risk: Risk, reviewed_defaults: Collection[str] = (), status: str = "active") -> ToolRecord:
    """The inventory record of a captured tool, sanitized. Raises NotCanonical."""
    schema = tool.input_schema if isinstance(tool.input_schema, Mapping) else {}
    clear = shape(schema)
    sealed = seal_defaults(clear, frozenset(reviewed_defaults))
    return ToolRecord.model_validate(
        {
            "name": tool.name,
            "schema_hash": schema_hash(schema),
            "risk": risk,
            "status": status,
            "parameters": tool.parameters,
            "shape_basis": "verified",
            "shape_hash": json_hash(clear),
            "shape": sealed,
            "reviewed_defaults": open_defaults(sealed),
            "prose": prose(schema),
            "components": component_hashes(tool),
        }
    )
