"""Which recorded exchange answers a request, whatever its ids; and, when none does, which is the nearest and what differs."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl

from harness.cassette.format import Cassette, Interaction
from harness.cassette.redact import Redactor
from harness.cassette.scrub import scrubbed_form, scrubbed_json, spoken
from harness.cassette.sensitive import is_secret_name, learnable, without_stand_ins
from harness.model.digest import loads_exact

MAX_DIFF_LINES = 40
MAX_LINE = 240
HIDDEN = "[redacted]"
VOLATILE_META = frozenset(
    {
        "progressToken", "traceparent", "tracestate", "baggage", "io.modelcontextprotocol/clientInfo",
        "io.modelcontextprotocol/clientCapabilities",
    }
)  # fmt: skip
"""Of a request's `_meta`: who asks and how it is traced, not what is asked."""
VOLATILE_HANDSHAKE = frozenset({"clientInfo", "capabilities"})
_BOUNDARY = re.compile(r"boundary=\"?([^\";,\s]+)", re.IGNORECASE)

Clean = Callable[[str], str]


class Asker:
    """Whoever asks now: his configured secrets, and those that he shows under a secret's name, which are then secrets everywhere."""

    def __init__(self, clean: Clean = str) -> None:
        self._clean = clean
        self._shown = Redactor()

    def hide(self, secret: str) -> str:
        secret = secret.strip()
        if learnable(secret):
            self._shown.know({"shown": secret})
        return HIDDEN

    def clean(self, text: str) -> str:
        return self._shown.clean(self._clean(text))


def request_key(method: str, target: str, content_type: str, body: bytes | None, asker: Asker | None = None) -> str:
    """What two requests must share to be the same question."""
    asker = asker or Asker()
    path, _, query = target.partition("?")
    asked = sorted((name, asker.hide(value) if is_secret_name(name) else value) for name, value in parse_qsl(query, keep_blank_values=True))
    parts: list[Any] = [method, path.rstrip("/") or "/", asked, _content(content_type, body, asker)]
    return without_stand_ins(spoken(asker.clean(json.dumps(parts, sort_keys=True, ensure_ascii=False))))


def key_of(one: Interaction) -> str:
    content_type = next((value for name, value in one.request_headers if name == "content-type"), "")
    return request_key(one.method, one.target, content_type, one.request_body)


def parts_of(key: str) -> list[Any]:
    """Method, path, query and content of a key; the key as a path, should redaction have torn its JSON."""
    try:
        parts = json.loads(key)
    except ValueError:
        return ["", key, [], None]
    return parts if isinstance(parts, list) and len(parts) == 4 else ["", key, [], None]


def index_of(cassette: Cassette) -> dict[str, list[int]]:
    """Key → interactions in order. Made once for all who play it."""
    if not cassette.index:
        for number, one in enumerate(cassette.interactions):
            cassette.index.setdefault(key_of(one), []).append(number)
    return cassette.index


def _content(content_type: str, body: bytes | None, asker: Asker) -> Any:
    if not body:
        return None
    kind = content_type.partition(";")[0].strip().lower()
    text = body.decode("utf-8", "surrogateescape")
    if kind == "application/x-www-form-urlencoded":
        return sorted(parse_qsl(scrubbed_form(text, asker.hide), keep_blank_values=True))
    if kind.startswith("multipart/"):
        boundary = _BOUNDARY.search(content_type)
        given = boundary[1] if boundary else text.partition("\r\n")[0].removeprefix("--")
        return text.replace(given, "BOUNDARY") if given else text
    try:
        message = loads_exact(body)
    except ValueError:
        return text
    return scrubbed_json(without_ids(message), asker.hide)


def without_ids(message: Any) -> Any:
    """A JSON-RPC message less the ids and the metadata of whoever sends it; the id of an answer stays, the other side chose it."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or "method" not in message:
        return message
    asked = {key: value for key, value in message.items() if key != "id"}
    params = asked.get("params")
    if not isinstance(params, dict):
        return asked
    volatile = {"initialize": VOLATILE_HANDSHAKE, "notifications/cancelled": {"requestId"}, "notifications/progress": {"progressToken"}}
    params = {key: value for key, value in params.items() if key not in volatile.get(str(asked["method"]), ())}
    if isinstance(params.get("_meta"), dict):
        meta = {key: value for key, value in params.pop("_meta").items() if key not in VOLATILE_META}
        params |= {"_meta": meta} if meta else {}
    asked["params"] = params
    return asked if params else {key: value for key, value in asked.items() if key != "params"}


def nearest(key: str, cassette: Cassette, used: Sequence[bool]) -> tuple[int | None, str]:
    """(the recorded request most like this one, what differs line by line). Both sides are redacted already."""
    asked = parts_of(key)
    lines = _lines(asked)
    best: tuple[float, int, list[str]] | None = None
    for recorded, numbers in index_of(cassette).items():
        other = parts_of(recorded)
        free = any(not used[n] for n in numbers)
        score = 2.0 * (_called(other) == _called(asked)) + (other[:2] == asked[:2]) + 0.5 * free + _likeness(key, recorded)
        if best is None or score > best[0]:
            best = (score, next((n for n in numbers if not used[n]), numbers[0]), _lines(other))
    if best is None:
        return None, "the cassette holds no request at all"
    if best[2] == lines:
        return best[1], "the same request was recorded, and answered as often as it was recorded"
    diff = list(difflib.unified_diff(best[2], lines, "recorded", "asked now", lineterm="", n=1))
    shown = [line[:MAX_LINE] for line in diff[:MAX_DIFF_LINES]]
    return best[1], "\n".join(shown + [f"… and {len(diff) - MAX_DIFF_LINES} more lines"] * (len(diff) > MAX_DIFF_LINES))


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one[:2000], other[:2000], autojunk=False).quick_ratio()


def _called(asked: list[Any]) -> Any:
    message = asked[3]
    if not isinstance(message, dict):
        return asked[:2]
    params = message.get("params")
    return message.get("method"), params.get("name") if isinstance(params, dict) else None


def _lines(asked: list[Any]) -> list[str]:
    method, path, query, content = asked
    shown = [f"{method} {path}", *(f"?{name}={value}" for name, value in query)]
    return shown + (json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False).splitlines() if content is not None else [])
