"""The tool list in a cassette (vcr's format): every tools/list exchange that was recorded, read as discovery would read it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.cassette.format import BadCassette, Cassette, Interaction, content_hash
from harness.cassette.store import AGAIN, parse_cassette
from harness.discover.capture import Greeting, Pages, greeting_of
from harness.discover.http_wire import EventStream
from harness.discover.wire import Limits, WireProblem, answer_in, decode
from harness.model.tool import Capture

_NO_LIST = "no-list: no tools/list exchange was recorded"


@dataclass(frozen=True, slots=True)
class Recorded:
    """`sealed`: the recorder put `sha256:<hex>` in place of texts."""

    capture: Capture
    sealed: bool


def is_cassette(text: str) -> bool:
    """A glance at the keys on the left margin."""
    return any(line.startswith("interactions:") for line in text[:20_000].splitlines()) or "\ninteractions:" in text


def capture_cassette(text: str, name: str) -> Recorded:
    """The last whole list of the recording; an incomplete capture that says why when there is none. Raises BadCassette (exit 5)."""
    cassette = parse_cassette(text, name)
    if cassette.header is not None and content_hash(cassette.interactions) != cassette.header.content:
        raise BadCassette("it was edited after it was recorded (content hash)", where=name, fix=AGAIN)
    sealed = cassette.header is not None and cassette.header.redaction.prose == "hashed"
    return Recorded(_capture(cassette, name), sealed)


def _capture(cassette: Cassette, name: str) -> Capture:
    greeting = Greeting(version="", modern=False)
    open_list: _List | None = None
    best: _List | None = None
    for asked, answered in _exchanges(cassette):
        method, params = asked.get("method"), asked.get("params")
        if method in ("initialize", "server/discover"):
            greeting = greeting_of(method, _result(asked, answered), params) or greeting
        elif method == "tools/list":
            cursor = params.get("cursor") if isinstance(params, Mapping) else None
            if open_list is None or cursor is None or open_list.cursor != cursor:
                open_list = _List(cursor)
            open_list.take(asked, answered)
            if best is None or open_list.whole or not best.whole:
                best = open_list
    if best is None:
        return Capture(source=name, tools=(), pages=0, complete=False, reason=_NO_LIST)
    if best.cursor is not None and not best.pages.reason:
        best.pages.fail("dropped-page", "the last recorded page names a next one that was not recorded")
    return best.pages.capture(name, greeting)


class _List:
    """One walk through the pages. One that begins in the middle is never whole."""

    def __init__(self, first: Any) -> None:
        self.pages = Pages(Limits())
        self.cursor: str | None = None
        if first is not None:
            self.pages.fail("dropped-page", "the recording begins in the middle of a list")

    @property
    def whole(self) -> bool:
        return self.pages.count > 0 and self.cursor is None and not self.pages.reason

    def take(self, asked: Mapping[str, Any], answered: Interaction) -> None:
        result = _result(asked, answered)
        if result is not None:
            self.cursor = self.pages.take(result)
        elif not self.pages.reason:
            self.cursor = None
            self.pages.fail("no-answer", f"a recorded tools/list has no result (HTTP {answered.status})")


def _exchanges(cassette: Cassette) -> Iterator[tuple[Mapping[str, Any], Interaction]]:
    """(JSON-RPC request, exchange) for every request that is one."""
    for one in cassette.interactions:
        try:
            asked = json.loads(one.request_body or b"")
        except (ValueError, RecursionError):
            continue  # a REST call, or a body that is no JSON: no tool list
        if isinstance(asked, Mapping) and isinstance(asked.get("method"), str):
            yield asked, one


def _result(asked: Mapping[str, Any], answered: Interaction) -> Mapping[str, Any] | None:
    """The result that answers this request, in a JSON body or in an event; None when none does."""
    number = asked.get("id")
    if answered.status not in range(200, 300) or isinstance(number, bool) or not isinstance(number, (int, str)):
        return None
    limit = Limits().response_bytes
    try:
        bodies = EventStream().feed(answered.response_body + b"\n\n") if answered.streams else [answered.response_body]
        return next((found for body in bodies if (found := answer_in(decode(body, limit), number)) is not None), None)
    except WireProblem:
        return None
