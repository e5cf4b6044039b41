"""Which names carry secrets, which headers may be kept, and what stands where a secret stood."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from harness.model.secret import MARKER

REQUEST_KEPT = frozenset({"accept", "content-type", "last-event-id", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"})
RESPONSE_KEPT = frozenset(
    {
        "allow", "cache-control", "content-type", "location", "mcp-protocol-version", "mcp-session-id", "retry-after", "www-authenticate",
        "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
    }
)  # fmt: skip
"""Default-deny: what is on neither list is dropped, whatever it is called."""
SESSION_HEADER = "mcp-session-id"

REDACTED = ("[redacted:", "]")
_STAND_IN = re.compile(r"\[(?:secret|redacted|hidden)\b[^\]\n]{0,200}\]|REDACTED|\*{3,}|<[A-Z_ -]{3,40}>", re.IGNORECASE)
_WHOLE_STAND_IN = re.compile(rf"(?:(?:Bearer|Basic|Token)\s+)?(?:{_STAND_IN.pattern})", re.IGNORECASE)
_SPLIT = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")

_SECRET_WORDS = frozenset(
    {
        "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "passphrase", "passwd", "password", "pwd", "secret", "secrets",
        "token", "apikey", "jwt", "assertion", "otp", "signature", "sig",
    }
)  # fmt: skip
_SECRET_PAIRS = frozenset(
    {
        ("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key"), ("signing", "key"), ("encryption", "key"), ("auth", "key"),
        ("code", "verifier"), ("session", "cookie"), ("set", "cookie"), ("auth", "header"), ("device", "code"), ("user", "code"),
    }
)  # fmt: skip
_ABOUT = frozenset(
    {"type", "endpoint", "uri", "url", "count", "limit", "expires", "in", "name", "server", "servers", "supported", "required", "details", "usage"}
)
"""`token_type`, `authorization_servers`: about a secret, not one."""
_PAGING = frozenset({"progress", "next", "page", "prev", "previous", "continuation", "cursor", "sync", "resume", "start"})
"""`nextPageToken`, `progressToken`: places in a list, not secrets."""


def words(name: str) -> tuple[str, ...]:
    """`X-Api-Key`, `apiKey` and `api_key` alike: ("api", "key") at their end."""
    return tuple(part.lower() for part in _SPLIT.split(name) if part)


def is_secret_name(name: str) -> bool:
    """Whether the value of a field, parameter or header of this name is taken for a secret."""
    found = words(name)
    if not found:
        return False
    last = found[-1]
    if last in _ABOUT:
        return False
    if last == "token" and len(found) > 1 and found[-2] in _PAGING:
        return False
    return any(pair in _SECRET_PAIRS for pair in itertools.pairwise(found)) or not _SECRET_WORDS.isdisjoint(found[-2:])


def is_stand_in(value: str) -> bool:
    """Whether nothing but a marker stands there."""
    return not value.strip() or _WHOLE_STAND_IN.fullmatch(value.strip()) is not None


def learnable(secret: str) -> bool:
    """Whether a value that stood under a secret's name can be told from ordinary text, so that it may be looked for elsewhere too."""
    if is_stand_in(secret) or not any(c.isalpha() for c in secret):
        return False
    return len(secret) >= 12 or (len(secret) >= 8 and any(c.isdigit() for c in secret))


def without_stand_ins(text: str) -> str:
    """Every marker as one and the same, so that both sides of a comparison look alike."""
    return re.sub(rf"{re.escape(MARKER[0])}[^\]]*\]|{re.escape(REDACTED[0])}[^\]]*\]", "[redacted]", text)


def exposed(raw: Any) -> Iterator[str]:
    """What a file of vcr's format still shows of secrets, by name and place; the values are never repeated."""
    if not isinstance(raw, Mapping):
        return
    for part in ("request", "response"):
        block = raw.get(part)
        if not isinstance(block, Mapping):
            continue
        headers = block.get("headers")
        for name, values in headers.items() if isinstance(headers, Mapping) else ():
            several = values if isinstance(values, list) else [values]
            if isinstance(name, str) and is_secret_name(name) and any(isinstance(v, str) and not is_stand_in(v) for v in several):
                yield f"a secret stands in the {part} header {name.lower()!r}"
        uri = block.get("uri")
        if isinstance(uri, str):
            for name, value in parse_qsl(urlsplit(uri).query):
                if is_secret_name(name) and not is_stand_in(value):
                    yield f"a secret stands in the query parameter {name!r}"
