"""WWW-Authenticate, read without trust: which metadata and which scopes a provider points at (RFC 9110 §11.6.1, RFC 6750, RFC 9728 §5.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

MAX_LENGTH = 8192
MAX_SCOPES = 100

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAM = re.compile(rf'({_TOKEN})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))')
_SCHEME = re.compile(rf"({_TOKEN})(?:[ \t]+|$)")
_SEPARATOR = re.compile(r"[ \t]*,?[ \t]*")
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")


@dataclass(frozen=True, slots=True)
class Challenge:
    """What a Bearer challenge named. `error` is the provider's word and never shown; `metadata_url` has still to be judged before it is dialled."""

    metadata_url: str | None = None
    scopes: tuple[str, ...] = ()
    error: str | None = None

    @property
    def insufficient_scope(self) -> bool:
        return self.error == "insufficient_scope"


@dataclass(slots=True)
class _Found:
    scheme: str
    params: dict[str, str] = field(default_factory=dict)
    doubled: bool = False


def bearer_challenge(headers: Iterable[str]) -> Challenge | None:
    """The first well-formed Bearer challenge among the header's values; None when there is none. Damaged ones are as good as absent."""
    for value in headers:
        for found in _parsed(value):
            if found.scheme == "bearer" and not found.doubled:
                return Challenge(found.params.get("resource_metadata"), scopes_of(found.params.get("scope")), found.params.get("error"))
    return None


def scopes_of(text: object) -> tuple[str, ...]:
    """A space-separated scope value as distinct scopes in order; () for anything that is not one (RFC 6749 §3.3)."""
    if not isinstance(text, str) or len(text) > MAX_LENGTH:
        return ()
    words = tuple(dict.fromkeys(word for word in text.split(" ") if word))
    return words if len(words) <= MAX_SCOPES and all(_SCOPE.fullmatch(word) for word in words) else ()


def is_scope(word: object) -> bool:
    return isinstance(word, str) and _SCOPE.fullmatch(word) is not None


def _parsed(value: str) -> list[_Found]:
    if len(value) > MAX_LENGTH:
        return []
    found: list[_Found] = []
    at = 0
    while at < len(value):
        param = _PARAM.match(value, at)
        if param is not None and found:
            name = param[1].lower()
            text = re.sub(r"\\(.)", r"\1", param[2]) if param[2] is not None else param[3]
            found[-1].doubled = found[-1].doubled or name in found[-1].params
            found[-1].params[name] = text
            at = param.end()
        elif (scheme := _SCHEME.match(value, at)) is not None:
            found.append(_Found(scheme[1].lower()))
            at = scheme.end()
        else:
            return found[:-1]  # what cannot be read to its end is not believed
        separator = _SEPARATOR.match(value, at)
        at = separator.end() if separator is not None else at
    return found
