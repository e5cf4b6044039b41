"""Grants: on whose behalf a connection may act."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from reference_gateway.canonical import canonical_bytes
from reference_gateway.errors import GatewayError

GrantKind = Literal["organization", "personal"]
_KEYS: Mapping[str, frozenset[str]] = {"organization": frozenset({"kind"}), "personal": frozenset({"kind", "subject"})}


@dataclass(frozen=True, slots=True)
class Grant:
    """`organization`: every run of the tenant; `personal`: only runs of `subject`. Whether it was revoked is the connection's state."""

    kind: GrantKind
    subject: str | None = None

    @property
    def key(self) -> str:
        """Stable and unambiguous; the vault binds secrets to it."""
        return canonical_bytes([self.kind, self.subject]).decode()

    def document(self) -> dict[str, str]:
        """As the operator API writes it."""
        return {"kind": self.kind} if self.subject is None else {"kind": self.kind, "subject": self.subject}


def parse(doc: object) -> Grant:
    """From a connection's `grant`. Raises GatewayError `invalid_field` or `unknown_field`."""
    if not isinstance(doc, Mapping):
        raise _invalid("a grant is an object", "grant")
    kind = doc.get("kind")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise _invalid("kind is neither organization nor personal", "grant.kind")
    unknown = sorted(str(key) for key in doc if key not in _KEYS[kind])
    if unknown:
        raise GatewayError(
            "unknown_field", f"this grant has no {unknown[0]!r}", where=f"grant.{unknown[0]}", fix="remove it", http_status=422
        )
    subject: Any = doc.get("subject")
    if kind == "personal" and not (isinstance(subject, str) and subject.strip()):
        raise _invalid("a personal grant names its subject", "grant.subject")
    return Grant(cast(GrantKind, kind), subject)


def allows(grant: Grant, run_subject: str | None) -> bool:
    """Whether a run of this subject (None: of nobody in particular) may use the grant; otherwise `not_granted`."""
    return grant.kind == "organization" or (run_subject is not None and run_subject == grant.subject)


def _invalid(message: str, where: str) -> GatewayError:
    return GatewayError(
        "invalid_field", message, where=where, fix='use {"kind":"organization"} or {"kind":"personal","subject":"..."}', http_status=422
    )
