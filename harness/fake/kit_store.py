"""Small pieces of an in-memory store: ids that repeat from run to run, pages, and word search."""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

T = TypeVar("T")

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_NAMESPACE = uuid.UUID("6f0c6f6e-2b0d-5c3e-9a55-6b1d3c9d2a10")
_STOP_TEXT = """
a an and are as at be by did do does for from had has have he her his how i in is it its me my of on or our she that the their
them they this to was we were what when where which who why will with you your
"""
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")
MIN_SCORE = 0.25


class Ids:
    """Fresh ids of one account: the same account makes the same ids in the same order, two accounts never share one."""

    def __init__(self, provider: str, credential: str) -> None:
        self._seed = hashlib.sha256(f"{provider}\0{credential}".encode()).hexdigest()
        self._made: Counter[str] = Counter()

    def _next(self, kind: str) -> str:
        self._made[kind] += 1
        return f"{self._seed}/{kind}/{self._made[kind]}"

    def uuid(self, kind: str) -> str:
        """A version 5 UUID, lower case."""
        return str(uuid.uuid5(_NAMESPACE, self._next(kind)))

    def short(self, kind: str, length: int = 21) -> str:
        """Letters and digits, `length` of them (at most 43 carry entropy)."""
        number = int.from_bytes(hashlib.sha256(self._next(kind).encode()).digest(), "big")
        digits = []
        for _ in range(length):
            number, digit = divmod(number, len(_ALPHABET))
            digits.append(_ALPHABET[digit])
        return "".join(digits)


def stamp(instant: datetime) -> str:
    """ISO 8601 in UTC with microseconds and a final Z."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One numbered page. `total` counts all items, `pages` all pages (0 when there is none)."""

    items: tuple[T, ...]
    number: int
    size: int
    total: int

    @property
    def pages(self) -> int:
        return -(-self.total // self.size)

    @property
    def has_next(self) -> bool:
        return self.number < self.pages


def numbered_page(items: Sequence[T], number: int, size: int) -> Page[T]:
    """Page `number` (from 1) of `size` items; a page past the end is empty."""
    start = (number - 1) * size
    return Page(tuple(items[start : start + size]), number, size, len(items))


def seal_cursor(kind: str, offset: int) -> str:
    """An opaque cursor. `kind` names the list and its ordering, so a cursor of another list is refused."""
    digest = hashlib.sha256(kind.encode()).hexdigest()[:10]
    return base64.urlsafe_b64encode(f"{offset}.{digest}".encode()).decode().rstrip("=")


def open_cursor(kind: str, cursor: str) -> int | None:
    """The offset, or None when this cursor was not made by `seal_cursor(kind, …)`."""
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
        offset = int(text.partition(".")[0])
    except ValueError:  # binascii.Error and UnicodeDecodeError are ValueErrors
        return None
    return offset if offset >= 0 and seal_cursor(kind, offset) == cursor else None


def words(text: str) -> list[str]:
    """Lower-case words without plural or third-person s; ideographs one by one."""
    return [_stem(word) for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold())]


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


_STOP = frozenset(_stem(word) for word in _STOP_TEXT.split())


def telling_words(text: str) -> list[str]:
    """The distinct words of `text` that are no stop words, in order."""
    return [word for word in dict.fromkeys(words(text)) if word not in _STOP]


def score(query: str, text: str) -> float:
    """Share of the query's telling words that `text` holds, 0 … 1. A query of stop words alone is taken whole; one without
    any word is looked for as it stands."""
    asked = set(words(query))
    if not asked:
        return 1.0 if query.strip() and query.strip().casefold() in text.casefold() else 0.0
    telling = asked - _STOP or asked
    return len(telling & set(words(text))) / len(telling)


def ranked(query: str, items: Iterable[T], text_of: Callable[[T], str], *, least: float = MIN_SCORE) -> list[tuple[float, T]]:
    """(score, item), best first, ties in the order given; items under `least` are left out, so unrelated text finds nothing."""
    scored = [(score(query, text_of(item)), item) for item in items]
    return sorted((pair for pair in scored if pair[0] > 0 and pair[0] >= least), key=lambda pair: -pair[0])
