"""How a live run marks what it writes, so that everybody can tell its things from anybody else's. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_OWN = re.compile(r"harness[-_](?:(?P<run>\d{8}T\d{6}Z-[0-9a-f]{6})-)?[0-9a-f]{10}")
"""`harness-${nonce}`, `harness_${nonce}` or `harness-${run.id}`: nothing shorter, nothing that merely begins so."""


def is_own(name: object) -> bool:
    """True for a name that a run of this harness made up, whole."""
    return isinstance(name, str) and _OWN.fullmatch(name) is not None


def run_of(name: str) -> str:
    """The run that a name of ours tells of, or ""."""
    found = _OWN.fullmatch(name)
    return (found["run"] or "") if found else ""


def texts(value: Any) -> Iterator[str]:
    """Every text in nested data, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item)


def flags(value: Any) -> Iterator[str]:
    """Paths of everything that is simply true, such as `everything: true`."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if item is True:
                yield str(key)
            else:
                yield from (f"{key}/{inner}" for inner in flags(item))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from (f"{index}/{inner}" for inner in flags(item))


def identities(answer: Any, mark: str) -> Iterator[str]:
    """Ids in an answer that belong to something carrying `mark`: the id-like members of an object that also holds a marked text itself.

    A search that returns our own item and somebody else's gives the ids of ours only.
    """
    if isinstance(answer, Mapping):
        plain = {key: item for key, item in answer.items() if isinstance(item, str)}
        if any(mark in text for text in plain.values()):
            yield from (item for key, item in plain.items() if id_like(str(key)))
        for item in answer.values():
            yield from identities(item, mark)
    elif isinstance(answer, list | tuple):
        for item in answer:
            yield from identities(item, mark)


def all_identities(answer: Any) -> Iterator[str]:
    """Every id-like text of an answer."""
    if isinstance(answer, Mapping):
        for key, item in answer.items():
            if isinstance(item, str) and id_like(str(key)):
                yield item
            yield from all_identities(item)
    elif isinstance(answer, list | tuple):
        for item in answer:
            yield from all_identities(item)


def id_like(key: str) -> bool:
    return key in ("id", "uuid") or key.endswith(("_id", "Id", "_uuid"))
