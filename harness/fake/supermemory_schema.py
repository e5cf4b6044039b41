"""What the Supermemory stand-in's tools accept; all sixteen shapes are known."""

from __future__ import annotations

from harness.fake.kit import JsonObject

_SAFE_INTEGER = 2**53 - 1
_HEX = "[0-9a-fA-F]"
_UUID = (
    f"^({_HEX}{{8}}-{_HEX}{{4}}-[1-8]{_HEX}{{3}}-[89abAB]{_HEX}{{3}}-{_HEX}{{12}}"
    "|00000000-0000-0000-0000-000000000000|ffffffff-ffff-ffff-ffff-ffffffffffff)$"
)
_TAG: JsonObject = {"type": "string", "minLength": 1, "maxLength": 128}
_VIEW: JsonObject = {"type": "string", "format": "uuid", "pattern": _UUID}


def _takes(*required: str, **properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties} | ({"required": list(required)} if required else {})


def _count(default: int, most: int) -> JsonObject:
    return {"default": default, "type": "integer", "minimum": 1, "maximum": most}


def _text(**bounds: int) -> JsonObject:
    return {"type": "string", **bounds}


NOTHING = _takes()
TAG = _takes(containerTag=_TAG)
ADD = _takes("content", content=_text(maxLength=200_000), action={"default": "save", "type": "string", "enum": ["save", "forget"]}, containerTag=_TAG)
SEARCH = _takes("query", query=_text(maxLength=1000), containerTag=_TAG)
DOCUMENT = _takes("documentId", documentId=_text(minLength=1, maxLength=255))
LISTING = _takes(page=_count(1, _SAFE_INTEGER), limit=_count(10, 50), containerTag=_TAG)
GRAPH_DATA = _takes(containerTag=_TAG, page=_count(1, 10_000), limit=_count(200, 1000))
ACTIVE_TAG = _takes("containerTag", containerTag=_TAG, viewId=_VIEW)
WIDGET_SAVE = _takes("content", "containerTag", content=_text(minLength=1), containerTag=_TAG, viewId=_VIEW)
PREFILL = _takes(prefill=_text(maxLength=200_000))
