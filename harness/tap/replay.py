"""Replaying: a mount whose provider is a cassette. Each recorded exchange answers once; what was not recorded is not answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpcore2

from harness.cassette.events import event_data, split_events, with_data
from harness.cassette.format import END, ORIGIN, Cassette, Interaction
from harness.cassette.match import Asker, index_of, nearest, parts_of, request_key
from harness.model.digest import loads_exact
from harness.tap.operations import Operation, tool_of
from harness.tap.respell import replaced, spans, spelt

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
UNMATCHED = "replay-unmatched"
_NO_ANSWER = b'{"error":"no recorded answer to this request"}'
_BODILESS = (204, 304)


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A request without a recorded answer; redacted. `nearest` is the number of the recorded one it is most like."""

    asked: str
    nearest: int | None
    diff: str


@dataclass(frozen=True, slots=True)
class Unused:
    """A recorded exchange that was never asked for. `tool`: what it carried out, if it carried out anything."""

    number: int
    what: str
    tool: str | None


class Player:
    """Of one mount, for one plan item. `clean` replaces the secrets of whoever asks now; `base` is the address that the gateway was given."""

    def __init__(self, cassette: Cassette, clean: Callable[[str], str], base: Callable[[], str]) -> None:
        self._cassette = cassette
        self._index = index_of(cassette)
        self._asker = Asker(clean)
        self._base = base
        self._used = [False] * len(cassette.interactions)
        self._asked = asyncio.Event()
        self._ids: dict[str, Any] = {}
        self._tokens: dict[str, Any] = {}
        self.unmatched: list[Unmatched] = []

    async def answer(self, method: str, target: bytes, headers: Mapping[bytes, bytes], body: bytes) -> Played:
        """The recorded answer; one of 502 when there is none. Raises UPSTREAM_ERRORS where the provider broke off; does not return where it hung."""
        where, kind = target.decode("latin-1"), headers.get(b"content-type", b"").decode("latin-1")
        number = self._take(request_key(method, where, kind, body, self._asker))
        if number is None:
            return Played.refused()
        self._used[number] = True
        self._asked.set()
        self._asked = asyncio.Event()
        one = self._cassette.interactions[number]
        ids = self._ids_of(one, _message(body))
        if one.status == 0:
            if one.outcome == "broken_off":
                raise httpcore2.ReadError("the provider broke off here when this was recorded")
            await asyncio.Event().wait()  # until the gateway gives up, as it did then
        return Played(one, self, ids)

    def unused(self, operations: tuple[Operation, ...] = ()) -> tuple[Unused, ...]:
        left = [number for number, used in enumerate(self._used) if not used]
        return tuple(_unused(number, self._cassette.interactions[number], operations) for number in left)

    @property
    def ends_a_session(self) -> bool:
        """Whether a recorded end of a session is still to be asked for."""
        return any(one.method == "DELETE" and not used for one, used in zip(self._cassette.interactions, self._used, strict=True))

    async def until_asked(self, number: int) -> None:
        """Returns once that interaction was asked for: what came after it then comes after it now."""
        while not self._used[number]:
            await self._asked.wait()

    def placed(self, text: str) -> str:
        return text.replace(ORIGIN, self._base())

    def _take(self, key: str) -> int | None:
        number = next((n for n in self._index.get(key, ()) if not self._used[n]), None)
        if number is None:
            near, diff = nearest(key, self._cassette, self._used)
            self.unmatched.append(Unmatched(_told(key), near, diff))
        return number

    def _ids_of(self, one: Interaction, asked: Any) -> Ids:
        """Recorded ids → those of this moment: its own, and for a standing stream those of everybody before."""
        recorded = _message(one.request_body or b"")
        if not isinstance(recorded, dict) or not isinstance(asked, dict):
            return Ids(self._ids, self._tokens)
        ids, tokens = {}, {}
        if "id" in recorded and "id" in asked and "method" in recorded:
            ids[spelt(recorded["id"])] = asked["id"]
        if (then := _token(recorded)) is not None and (now := _token(asked)) is not None:
            tokens[spelt(then)] = now
        self._ids |= ids
        self._tokens |= tokens
        return Ids(ids, tokens)


@dataclass(frozen=True, slots=True)
class Ids:
    """Recorded → present, keyed by their JSON text."""

    ids: Mapping[str, Any]
    tokens: Mapping[str, Any]

    @property
    def same(self) -> bool:
        return all(spelt(now) == then for table in (self.ids, self.tokens) for then, now in table.items())

    def rewritten(self, text: str) -> str:
        """A message with its protocol ids replaced, byte for byte the same elsewhere."""
        found = spans(text)
        if found is None:
            return text
        if "method" in found:
            text = replaced(text, found, ("params", "progressToken"), self.tokens)
        elif "id" in found and ("result" in found or "error" in found):
            text = replaced(text, found, ("id",), self.ids)
        for block in ("params", "result"):
            text = replaced(text, spans(text) or {}, (block, "_meta", SUBSCRIPTION), self.ids)
        return text


class Played:
    """A recorded answer on its way; the same shape as a provider's own."""

    def __init__(self, one: Interaction | None, player: Player | None, ids: Ids) -> None:
        self.matched = one is not None
        self._one = one
        self._player = player
        self._ids = ids
        self._whole = b""
        if one is None or player is None:
            self.status, self._whole = 502, _NO_ANSWER
            self.headers = [(b"content-type", b"application/json")]
        else:
            self.status = one.status
            self.headers = [(name.encode("latin-1"), player.placed(value).encode("latin-1", "replace")) for name, value in one.response_headers]
            self._whole = b"" if one.streams else self._message(one.response_body, player)
        if (one is None or (one.outcome == "answered" and not one.streams)) and self.status not in _BODILESS:
            self.headers.append((b"content-length", str(len(self._whole)).encode()))

    @classmethod
    def refused(cls) -> Played:
        return cls(None, None, Ids({}, {}))

    async def chunks(self) -> AsyncIterator[bytes]:
        if self._whole:
            yield self._whole
        if self._one is None or self._player is None:
            return
        if self._one.streams:
            async for event in self._events(self._one, self._player):
                yield event
        if self._one.outcome == "broken_off":
            raise httpcore2.ReadError("the provider broke off here when this was recorded")
        if self._one.outcome == "left_open":
            await asyncio.Event().wait()  # it never ended; the gateway hangs up

    async def aclose(self) -> None:
        """Nothing is held."""

    async def _events(self, one: Interaction, player: Player) -> AsyncIterator[bytes]:
        gates = dict(one.gates)
        for number, event in enumerate(split_events(one.response_body)):
            if number in gates:
                await player.until_asked(gates[number])
            data = event_data(event)
            changed = self._message(data, player) if data else data
            yield event if changed == data else with_data(event, changed)
        if END in gates:
            await player.until_asked(gates[END])

    def _message(self, raw: bytes, player: Player) -> bytes:
        if self._ids.same and ORIGIN.encode() not in raw:
            return raw
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError:
            return raw
        return player.placed(text if self._ids.same else self._ids.rewritten(text)).encode("utf-8")


def _message(body: bytes) -> Any:
    try:
        return loads_exact(body) if body else None
    except ValueError:
        return None


def _token(message: Mapping[str, Any]) -> Any:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get("progressToken") if isinstance(meta, dict) else None


def _told(key: str) -> str:
    """A request in one line."""
    method, path, query, content = parts_of(key)
    asked = "&".join(f"{name}={value}" for name, value in query)
    return " ".join(filter(None, (method, path + (f"?{asked}" if asked else ""), _called(content))))[:300]


def _called(content: Any) -> str:
    if not isinstance(content, dict):
        return ""
    params = content.get("params")
    name = params.get("name") if isinstance(params, dict) else ""
    return " ".join(part for part in (content.get("method"), name) if isinstance(part, str))


def _unused(number: int, one: Interaction, operations: tuple[Operation, ...]) -> Unused:
    message = _message(one.request_body or b"")
    called = _called(message)
    tool = called.removeprefix("tools/call ") if called.startswith("tools/call ") else tool_of(operations, one.method, one.target.partition("?")[0])
    return Unused(number, " ".join(filter(None, (one.method, one.target, called))), tool)
