"""A tool as agents see it. One tool that breaks the protocol must not take the whole list with it: agents' libraries refuse lists, not tools.

Discovery's own wire form stays in the catalog, for hashing, classifying and the operator; only what no agent could read is mended here.
"""

from __future__ import annotations

from typing import Any

import mcp_types as types
from pydantic import ValidationError

Json = dict[str, Any]


def presentable(wire: Json) -> Json:
    """The wire tool itself where it is well-formed, else the nearest form that is. Never raises."""
    shown = wire
    schema = wire.get("inputSchema")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        # Arguments are always an object, so saying so changes nothing about what the schema accepts.
        shown = {**shown, "inputSchema": {**(schema if isinstance(schema, dict) else {}), "type": "object"}}
    output = wire.get("outputSchema")
    if "outputSchema" in wire and (not isinstance(output, dict) or output.get("type") != "object"):
        shown = {key: value for key, value in shown.items() if key != "outputSchema"}
    try:
        types.Tool.model_validate(shown, by_name=False)
    except ValidationError:
        description = wire.get("description")
        least = {"name": wire["name"], "inputSchema": shown["inputSchema"]}
        return {**least, "description": description} if isinstance(description, str) else least
    return shown
