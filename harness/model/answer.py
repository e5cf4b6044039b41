"""Reading a tool result: pure helpers over the wire JSON, shared by those who judge and those who capture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def text_of(result: Mapping[str, Any] | None) -> str:
    """The text blocks of a tool result, joined by newlines; other content, and what is no content at all, is left out."""
    blocks = (result or {}).get("content")
    texts = [b.get("text") for b in blocks if isinstance(b, dict) and b.get("type") == "text"] if isinstance(blocks, list) else []
    return "\n".join(text for text in texts if isinstance(text, str))


def json_of(result: Mapping[str, Any] | None) -> Any:
    """Structured content when there is some, else the first text block that is JSON, else None.

    A server whose tools return text wraps it for structured content as {"result": the same text}: then the text is what it says.
    """
    if result is None:
        return None
    structured = result.get("structuredContent")
    if structured is not None and structured != {"result": text_of(result)}:
        return structured
    content = result.get("content")
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and isinstance(block.get("text"), str) and block.get("type") == "text":
            try:
                return json.loads(block.get("text", ""))
            except ValueError:
                continue
    return structured


def pointer(value: Any, path: str) -> tuple[bool, Any]:
    """RFC 6901 look-up: (found, value). "" is the whole value."""
    if path == "":
        return True, value
    if not path.startswith("/"):
        return False, None
    for raw in path[1:].split("/"):
        key = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping) and key in value:
            value = value[key]
        elif isinstance(value, list | tuple) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return False, None
    return True, value
