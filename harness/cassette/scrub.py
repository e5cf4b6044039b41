"""From what passed by to what may be written. Default-deny: headers by a list of those kept, secret-named fields by their names, and the
configured secrets in every encoding. The same words stand on both sides of an exchange, so that a replay finds its answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from harness.cassette.events import event_data, split_events, with_data
from harness.cassette.format import ORIGIN, Interaction
from harness.cassette.prose import without_prose
from harness.cassette.redact import Redactor, inflated
from harness.cassette.sensitive import REQUEST_KEPT, RESPONSE_KEPT, SESSION_HEADER, is_secret_name, is_stand_in, learnable
from harness.model.digest import loads_exact
from harness.model.secret import marker

RULES = "scrub/1"
FIELD = marker("field")
_NAMED_MAPS = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_BEARER = re.compile(r"\b(Bearer|Basic|Token)(\s+)(?=[^\s\"']*\d)([A-Za-z0-9._~+/-]{8,}=*)", re.IGNORECASE)
_ASSIGNED = re.compile(r"([A-Za-z][A-Za-z0-9_-]{2,40})([=]|\\?\"?:\s*\\?\")([^\s\"'&<>,;\\\[]{6,})")
_PART = re.compile(rb'(name="([^"]+)"[^\r\n]*(?:\r\n[^\r\n]+)*\r\n\r\n)(.*?)(?=\r\n--)', re.DOTALL)

Note = Callable[[str], str]
"""Told a secret that stood under a secret's name; answers what is to stand there."""


class Scrubber:
    """Used once, for one recording. `addresses`: what stood for the provider's own address on the wire."""

    def __init__(self, redactor: Redactor, *, hash_prose: bool, addresses: Iterable[str] = ()) -> None:
        self._redactor = Redactor()
        self._redactor.know({name: secret for secret, name in redactor.known.items()})
        self._hash_prose = hash_prose
        self._addresses = sorted(filter(None, addresses), key=len, reverse=True)
        self._sessions: dict[str, str] = {}
        self._learnt: dict[str, str] = {}
        self.fields = 0
        self.dropped: set[str] = set()

    @property
    def secrets(self) -> dict[str, str]:
        """Name → value of everything that must not be in the file."""
        return {f"{name}#{n}": secret for n, (secret, name) in enumerate(self._redactor.known.items())}

    def scrub(self, raw: Iterable[Interaction]) -> tuple[Interaction, ...]:
        """Twice: what is learnt from one exchange (a token that was issued) is looked for in all."""
        taken = tuple(raw)
        for _ in range(2):
            cleaned = tuple(self._one(one) for one in taken)
            new = {name: secret for secret, name in self._learnt.items() if secret not in self._redactor.known}
            if not new:
                break
            self._redactor.know(new)
        else:
            cleaned = tuple(self._one(one) for one in taken)
        return cleaned

    def text(self, text: str) -> str:
        """Any text that goes into the file."""
        for address in self._addresses:
            text = text.replace(address, ORIGIN)
        for session, pseudonym in self._sessions.items():
            text = text.replace(session, pseudonym)
        return self._redactor.clean(text)

    # ---- one exchange

    def _one(self, one: Interaction) -> Interaction:
        return replace(
            one,
            target=self.text(scrubbed_target(one.target, self._note)),
            request_headers=self._headers(one.request_headers, REQUEST_KEPT),
            request_body=None if one.request_body is None else self._body(one.request_body, _kind(one.request_headers), prose=False),
            reason=self.text(one.reason),
            response_headers=self._headers(one.response_headers, RESPONSE_KEPT),
            response_body=self._body(one.response_body, _kind(one.response_headers), prose=self._hash_prose),
        )

    def _headers(self, headers: tuple[tuple[str, str], ...], kept: frozenset[str]) -> tuple[tuple[str, str], ...]:
        found = []
        for name, value in headers:
            if name not in kept:
                self.dropped.add(self.text(name))
                if is_secret_name(name):
                    self._learn(value.partition(" ")[2] or value)
            elif name == SESSION_HEADER:
                found.append((name, self._sessions.setdefault(value, f"session-{len(self._sessions) + 1}")))
            else:
                found.append((name, self.text(spoken(value))))
        return tuple(found)

    def _body(self, body: bytes, kind: str, *, prose: bool) -> bytes:
        if kind == "text/event-stream":
            return b"".join(self._event(event, prose) for event in split_events(body))
        return self._plain(body, kind, prose)

    def _event(self, event: bytes, prose: bool) -> bytes:
        data = event_data(event)
        changed = self._plain(data, "application/json", prose)
        return self._bytes(with_data(event, changed) if changed != data else event)

    def _plain(self, body: bytes, kind: str, prose: bool) -> bytes:
        if kind == "application/x-www-form-urlencoded":
            return self._bytes(scrubbed_form(body.decode("latin-1"), self._note).encode("latin-1"))
        if kind.startswith("multipart/"):
            return self._bytes(_PART.sub(self._part, body))
        try:
            message = loads_exact(body)
        except ValueError:
            return self._bytes(body)
        changed = scrubbed_json(without_prose(message) if prose else message, self._note)
        if changed != message:
            body = json.dumps(changed, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        return self._bytes(body)

    def _bytes(self, body: bytes) -> bytes:
        try:
            return self.text(spoken(body.decode("utf-8"))).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            inner = inflated(body)
            if inner is not None and self.text(inner) != inner:
                return marker("compressed").encode()
            return self.text(body.decode("latin-1")).encode("latin-1", "replace")

    def _part(self, part: re.Match[bytes]) -> bytes:
        name = part[2].decode("latin-1")
        return part[1] + (self._note(part[3].decode("latin-1")).encode("latin-1") if is_secret_name(name) else part[3])

    def _note(self, secret: str) -> str:
        if is_stand_in(secret):
            return secret
        self.fields += 1
        return marker(self._learn(secret) or "field")

    def _learn(self, secret: str) -> str:
        """Its name, if it can be told from ordinary text: then it is looked for everywhere."""
        secret = secret.strip()
        known = self._redactor.known.get(secret)
        if known is not None:
            return known
        if not learnable(secret):
            return ""
        return self._learnt.setdefault(secret, f"field-{len(self._learnt) + 1}")


def _kind(headers: tuple[tuple[str, str], ...]) -> str:
    return next((value for name, value in headers if name == "content-type"), "").partition(";")[0].strip().lower()


def spoken(text: str) -> str:
    """Credentials that stand in running text: `Bearer …`, `api_key=…`, `"token": "…"`."""
    text = _BEARER.sub(lambda m: m[0] if is_stand_in(m[3]) else f"{m[1]}{m[2]}{FIELD}", text)
    return _ASSIGNED.sub(lambda m: f"{m[1]}{m[2]}{FIELD}" if is_secret_name(m[1]) and not is_stand_in(m[3]) else m[0], text)


# ---- by name: used on what is recorded, and on what is asked when it is replayed


def scrubbed_json(value: Any, note: Note, *, names: bool = True) -> Any:
    """Values under secrets' names replaced, in JSON that stands in a text too. In the maps of a schema keys are names of parameters, not fields."""
    if isinstance(value, dict):
        return {key: _field(key, item, note) if names else scrubbed_json(item, note) for key, item in value.items()}
    if isinstance(value, list):
        return [scrubbed_json(item, note) for item in value]
    if isinstance(value, str) and value[:1] in ("{", "[") and len(value) > 2:
        return _inner(value, note)
    return value


def _field(key: str, item: Any, note: Note) -> Any:
    if key in _NAMED_MAPS and isinstance(item, dict):
        return scrubbed_json(item, note, names=False)
    if is_secret_name(key):
        return _hidden(item, note)
    return scrubbed_json(item, note)


def _hidden(item: Any, note: Note) -> Any:
    if isinstance(item, bool) or item is None:
        return item
    if isinstance(item, dict):
        return {key: _hidden(one, note) for key, one in item.items()}
    if isinstance(item, list):
        return [_hidden(one, note) for one in item]
    if not isinstance(item, str):
        return FIELD  # a number is hidden here and looked for nowhere: in its place elsewhere a marker would be no JSON
    return note(item) if item else item


def _inner(text: str, note: Note) -> str:
    try:
        inner = loads_exact(text)
    except ValueError:
        return text
    changed = scrubbed_json(inner, note)
    return text if changed == inner else json.dumps(changed, ensure_ascii=False)


def scrubbed_form(text: str, note: Note) -> str:
    pairs = parse_qsl(text, keep_blank_values=True)
    granting = any(name == "grant_type" for name, _ in pairs)
    changed = [(n, note(v) if v and (is_secret_name(n) or (granting and n == "code")) else v) for n, v in pairs]
    return text if changed == pairs else urlencode(changed, safe="[]:", quote_via=quote)


def scrubbed_target(target: str, note: Note) -> str:
    path, mark, query = target.partition("?")
    return path + mark + scrubbed_form(query, note) if query else target
