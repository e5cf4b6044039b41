"""The last look before a file is written, built differently from the redactor on purpose: whole encodings, searched literally, in every layer.

What it finds is not replaced: the file is not written.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode

BOUND = 16 * 1024 * 1024
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{16,}={0,2}")
_BREAKS = re.compile(rb"(?:\\r|\\n|\r|\n)+(?:[0-9A-Fa-f]{1,8}(?:\\r|\\n|\r|\n)+)?(?:data:)?")
_FOLDS = re.compile(_BREAKS.pattern + rb"[ \t]*")
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\([\"\\/bfnrt])")
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _inner(raw: bytes, offset: int, encode: Callable[[bytes], bytes]) -> bytes:
    padded = b"\0" * offset + raw
    return encode(padded)[0 if offset == 0 else offset + 1 : len(padded) // 3 * 4]


def _basic(raw: bytes) -> bytes:
    return base64.b64encode(b"user:" + raw).rstrip(b"=")[8:-2]


ENCODINGS: Mapping[str, Callable[[bytes], bytes]] = {
    "raw": lambda raw: raw,
    "base64+0": lambda raw: _inner(raw, 0, base64.b64encode),
    "base64+1": lambda raw: _inner(raw, 1, base64.b64encode),
    "base64+2": lambda raw: _inner(raw, 2, base64.b64encode),
    "base64url": lambda raw: _inner(raw, 0, base64.urlsafe_b64encode),
    "percent": lambda raw: quote(raw, safe="").encode(),
    "json": lambda raw: json.dumps(raw.decode("utf-8", "replace"))[1:-1].encode(),
    "html": lambda raw: html.escape(raw.decode("utf-8", "replace")).encode(),
    "hex": lambda raw: raw.hex().encode(),
    "utf-16": lambda raw: raw.decode("utf-8", "replace").encode("utf-16-le").rstrip(b"\0"),
    "gzip": lambda raw: raw,  # found inside, in the layer that was unpacked
    "reversed": lambda raw: raw[::-1],
    "basic": _basic,
    "query": lambda raw: urlencode({"": raw.decode("utf-8", "replace")})[1:].encode(),
}
"""Name → what stands in a byte stream when a secret is written so. The torn ones are found in the layer without line and chunk ends."""


@dataclass(frozen=True, slots=True)
class Hit:
    """Which secret, in which encoding, in which layer of which stream. Never the secret."""

    secret: str
    encoding: str
    layer: str
    stream: str

    def __str__(self) -> str:
        return f"the secret {self.secret!r} ({self.encoding}, {self.layer}) in {self.stream}"


def layers(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """The stream as it is, and what a reader could make of it: unescaped, rejoined, decompressed, decoded."""
    yield "as it is", raw
    for name, more in _derived(raw):
        yield name, more
        if name in ("gzip", "base64 of gzip"):
            yield from ((f"{name}, {inner}", deeper) for inner, deeper in _derived(more))


def _derived(raw: bytes) -> Iterator[tuple[str, bytes]]:
    joined = _BREAKS.sub(b"", raw)
    if joined != raw:
        yield "joined", joined
        yield "unfolded", _FOLDS.sub(b"", raw)
    if b"\\" in raw:
        plain = _unescaped(raw)
        if plain != raw:
            yield "unescaped", plain
            if (twice := _unescaped(plain)) != plain:
                yield "unescaped twice", twice
    if b"%" in raw or b"&" in raw:
        text = raw.decode("latin-1")
        yield "HTML read", html.unescape(text).encode("utf-8", "surrogatepass")
    if (inner := _inflated(raw)) is not None:
        yield "gzip", inner
    for run in _BASE64.findall(raw):
        if run[:2] in (b"H4", b"eJ", b"eN", b"eA", b"eF") and (inner := _inflated(_decoded(run))) is not None:
            yield "base64 of gzip", inner


def _unescaped(raw: bytes) -> bytes:
    def plain(found: re.Match[str]) -> str:
        return chr(int(found[1], 16)) if found[1] else _LETTERS.get(found[2], found[2])

    return _ESCAPE.sub(plain, raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogatepass" if b"\\u" in raw else "surrogateescape")


def _decoded(run: bytes) -> bytes:
    text = run.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    text = text[: len(text) - 1] if len(text) % 4 == 1 else text
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4))
    except ValueError:
        return b""


def _inflated(raw: bytes) -> bytes | None:
    if raw[:2] not in (b"\x1f\x8b", b"\x78\x9c", b"\x78\x01", b"\x78\xda", b"\x78\x5e"):
        return None
    try:
        return zlib.decompressobj(47).decompress(raw, BOUND)
    except zlib.error:
        return None


def hunt(streams: Mapping[str, bytes], secrets: Mapping[str, str]) -> list[Hit]:
    """`secrets`: name → value. Every stream, in every layer, for every encoding of every secret."""
    wanted: list[tuple[str, str, bytes]] = []
    for name, secret in secrets.items():
        raw = secret.encode("utf-8", "surrogatepass")
        for encoding, encode in ENCODINGS.items():
            written = encode(raw)
            if len(written) >= 6:
                wanted += [(name, encoding, form) for form in dict.fromkeys((written, written.upper() if encoding == "hex" else written))]
    found: dict[Hit, None] = {}
    for stream, content in streams.items():
        for layer, raw in layers(content):
            for name, encoding, form in wanted:
                if form in raw:
                    found[Hit(name, encoding, layer, stream)] = None
    return list(found)


def planted(secret: str) -> dict[str, bytes]:
    """The secret as a leak would show it, one byte stream an encoding: what canaries are made of."""
    raw = secret.encode()
    made = {
        "raw": raw,
        "base64+0": base64.b64encode(raw),
        "base64+1": base64.b64encode(b"x" + raw),
        "base64+2": base64.b64encode(b"xy" + raw),
        "base64url": base64.urlsafe_b64encode(raw),
        "percent": quote(secret, safe="").encode(),
        "json": json.dumps(secret)[1:-1].replace("/", "\\/").encode(),
        "html": html.escape(secret).encode(),
        "hex": raw.hex().encode(),
        "utf-16": secret.encode("utf-16-le"),
        "gzip": gzip.compress(raw, mtime=0),
        "reversed": raw[::-1][: len(raw) // 2] + b"\r\n1f\r\n" + raw[::-1][len(raw) // 2 :],
        "basic": b"Basic " + base64.b64encode(b"user:" + raw),
        "query": b"a=1&" + urlencode({"key": secret}).encode() + b"&b=2",
    }
    assert made.keys() == ENCODINGS.keys()
    return made


def seen(secret: str, content: bytes) -> bool:
    """Whether the search finds this secret in `content`: the control that it is not blind."""
    return bool(hunt({"": content}, {"": secret}))
