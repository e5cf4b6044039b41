"""Grants: on whose behalf a connection may act."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from reference_gateway.canonical import canonical_bytes
from reference_gateway.errors import GatewayError
from reference_gateway.texts import unprintable

GrantKind = Literal["organization", "personal"]
_KEYS: Mapping[str, frozenset[str]] = {"organization": frozenset({"kind", "audience"}), "personal": frozenset({"kind", "subject"})}
MAX_AUDIENCE = 1000


@dataclass(frozen=True, slots=True)
class Grant:
    """`organization`: every run of the tenant, or only those of the subjects in `audience`; `personal`: only runs of `subject`.

    Whether it was revoked is the connection's state.
    """

    kind: GrantKind
    subject: str | None = None
    audience: tuple[str, ...] | None = None
    """None: everybody; empty: nobody."""

    @property
    def key(self) -> str:
        """Stable and unambiguous; the vault binds secrets to it. The audience is not part of it: that may change, the secret stays."""
        return canonical_bytes([self.kind, self.subject]).decode()

    def document(self) -> dict[str, Any]:
        """As the operator API writes it."""
        subject = {} if self.subject is None else {"subject": self.subject}
        audience = {} if self.audience is None else {"audience": list(self.audience)}
        return {"kind": self.kind, **subject, **audience}


NOBODY = Grant("personal")
"""Of a draft whose person is not known yet. It allows no run, and the vault never sees it."""


def stored(doc: object) -> Grant:
    """As `parse`, for what was once accepted, drafts included."""
    return NOBODY if doc == NOBODY.document() else parse(doc)


def parse(doc: object) -> Grant:
    """From a connection's `grant`. Raises GatewayError `invalid_field` or `unknown_field`."""
    if not isinstance(doc, Mapping):
        raise _invalid("a grant is an object", "grant")
    kind = doc.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise _invalid("kind is neither organization nor personal", "grant.kind")
    unknown = sorted(str(key) for key in doc if key not in _KEYS[kind])
    if unknown:
        raise GatewayError("unknown_field", f"this grant has no {unknown[0]!r}", where=f"grant.{unknown[0]}", fix="remove it", http_status=422)
    subject: Any = doc.get("subject")
    if kind == "personal" and not _subject(subject):
        raise _invalid("a personal grant names its subject", "grant.subject")
    return Grant(cast(GrantKind, kind), subject, audience_of(doc.get("audience")))


def audience_of(value: object) -> tuple[str, ...] | None:
    """From a list of subjects, or None for everybody. Raises GatewayError `invalid_field`."""
    if value is None:
        return None
    if not isinstance(value, (list, tuple)) or len(value) > MAX_AUDIENCE or not all(map(_subject, value)):
        raise _invalid(f"an audience is a list of at most {MAX_AUDIENCE} subjects, or null", "grant.audience")
    return tuple(dict.fromkeys(value))


def _subject(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and not unprintable(value)


def refusal(grant: Grant, run_subject: str | None) -> str | None:
    """Why a run of this subject (None: of nobody in particular) may not use the grant, in the audit's word; None when it may."""
    if grant.kind == "personal":
        return None if run_subject is not None and run_subject == grant.subject else "not_granted"
    if grant.audience is not None and run_subject not in grant.audience:
        return "grant_audience_denied"
    return None


def _invalid(message: str, where: str) -> GatewayError:
    fix = 'use {"kind":"organization","audience":null} or {"kind":"personal","subject":"..."}'
    return GatewayError("invalid_field", message, where=where, fix=fix, http_status=422)
