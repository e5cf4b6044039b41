"""Text that others control, made harmless: nothing in it may steer a terminal, an XML parser or a reader's eye.

Providers and gateways choose most of the words in a report. Control characters move cursors and end XML documents, bidirectional
marks show a reader another order than the one judged, and lone surrogates have no UTF-8 at all; so all of them become visible escapes.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from typing import Any

BODY_LIMIT = 8_192
"""UTF-8 bytes of one value (its text, or its JSON) above which a report holds prefix, size and hash instead."""

PREFIX = 2_048
"""UTF-8 bytes of a long value that are shown, at most; cut between code points."""

DEEPEST = 64
"""Levels of nesting that are shown; a hostile answer may have thousands."""

LONGEST = 8_192
"""Bits of an integer that is printed; Python itself refuses beyond 4,300 digits."""

BODY_RULE = f"A value above {BODY_LIMIT:,} bytes is stored as its first {PREFIX:,} bytes, its size in bytes and its SHA-256."

# C0 and C1 controls without tab and newline, soft hyphen, marks and overrides of direction, line separators, zero-width and tag
# characters, surrogates, non-characters: invisible, or not allowed in XML 1.0.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufdd0-\ufdef\ufeff\ufff9-\uffff"
    "\U000e0000-\U000e007f]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    """`text` with every hidden character written as its escape, such as \\x1b or \\u202e. Tabs and newlines stay."""
    return _HIDDEN.sub(lambda match: _escape(match.group()), text)


def one_line(text: str) -> str:
    """As `visible`, and newlines and tabs become visible signs too."""
    return visible(text).replace("\n", " ⏎ ").replace("\t", " ")


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def cut(text: str, limit: int) -> str:
    """The longest beginning of `text` that is at most `limit` UTF-8 bytes, whole code points only."""
    data = _utf8(text)
    if len(data) <= limit:
        return text
    while limit and data[limit] & 0xC0 == 0x80:  # in the middle of a code point
        limit -= 1
    return data[:limit].decode("utf-8", errors="surrogatepass")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogatepass")


def plain(value: Any, depth: int = 0) -> Any:
    """`value` as JSON can hold it: what it cannot (infinite or endless numbers, endless nesting) becomes a text that says so."""
    if depth > DEEPEST:
        return f"(nested deeper than {DEEPEST})"
    if value is None or isinstance(value, (str, bool)):  # most of all values, and the question below is a slow one
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and value.bit_length() > LONGEST:
        return f"(an integer of {value.bit_length()} bits)"
    if isinstance(value, (int, float)):
        return value
    return str(value)


def to_json(value: Any, *, indent: int | None = None) -> str:
    """JSON text, readable and always encodable: a lone surrogate is written as its \\u escape."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False, indent=indent)
    try:
        text.encode()  # far faster than looking for what is hardly ever there
    except UnicodeEncodeError:
        return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)
    return text


def clip(value: Any) -> Any:
    """`value`, or `{"prefix", "bytes", "sha256"}` of its text (of its JSON, when it is not text) when that is above BODY_LIMIT."""
    text = value if isinstance(value, str) else to_json(value)
    data = _utf8(text)
    if len(data) <= BODY_LIMIT:
        return plain(value)
    return {"prefix": cut(text, PREFIX), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def clip_text(text: str, limit: int = BODY_LIMIT, prefix: int = PREFIX) -> str:
    """`text`, or its beginning with size and hash behind it when it is above `limit` bytes."""
    data = _utf8(text)
    if len(data) <= limit:
        return text
    return f"{cut(text, prefix)}… [{len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}]"


def shown(value: Any) -> str:
    """One value of a finding, as text for a reader: clipped and visible; None is nothing."""
    if value is None:
        return ""
    return visible(clip_text(value if isinstance(value, str) else to_json(value)))
