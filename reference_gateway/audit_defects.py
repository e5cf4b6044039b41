"""Deliberate defects of the audit log: what is written otherwise than it happened, and what readers are told otherwise than it was written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reference_gateway.audit import ENDS, AuditFields, AuditLog, hash_of
from reference_gateway.defects import Defects
from reference_gateway.store.base import Document


def mislead(audit: AuditLog, defects: Defects) -> None:
    """Without any of these defects the log stays as it is."""
    if "audit-two-ends" in defects:
        audit.miswrite = _ended_twice
    if "task-unrecorded" in defects:
        audit.miswrite = _without_task
    for name, misread in _MISREAD.items():
        if name in defects:
            audit.misread = misread


def _ended_twice(entries: Sequence[AuditFields]) -> Sequence[AuditFields]:
    return [entry for each in entries for entry in ([each, each] if each["event"] in ENDS else [each])]


def _without_task(entries: Sequence[AuditFields]) -> Sequence[AuditFields]:
    return [{**entry, "task": None} for entry in entries]


def _rewritten(records: list[Document]) -> list[Document]:
    return [{**record, "agent": "somebody-else"} for record in records]


def _unchained(records: list[Document]) -> list[Document]:
    return [_hashed({**record, "prev_hash": record["prev_hash"][::-1]}) for record in records]


def _numbered_twice(records: list[Document]) -> list[Document]:
    """Every second one has the number of the one before it."""
    return [_hashed({**record, "seq": records[at - at % 2]["seq"]}) for at, record in enumerate(records)]


def _hashed(record: Document) -> Document:
    return {**record, "hash": hash_of(record)}


_MISREAD: dict[str, Callable[[list[Document]], list[Document]]] = {
    "audit-rewritten": _rewritten,
    "audit-chain-broken": _unchained,
    "audit-seq-repeats": _numbered_twice,
}
