"""Judges an exported log. Pure: what was read in, findings out.

The chain alone proves that nothing was changed by somebody who could not write the whole of it anew. The signature of its last checkpoint
proves that the gateway's key stood behind this end; checkpoints kept elsewhere prove that it is not an earlier end, or another log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from harness.audit.read import Exported, Mark
from harness.model.digest import NotCanonical, canonical_text
from harness.model.finding import Finding

GENESIS = "0" * 64
MOST = 1000
"""Findings that are listed; a log that was thrown into disorder would have one a line."""


def verify(
    log: Exported,
    where: str,
    *,
    key: str | None = None,
    previous: Collection[str] = (),
    kept: Sequence[Mark] = (),
    begun: Mark | None = None,
) -> tuple[Finding, ...]:
    """`key`: the gateway's public key, base64. Without it nobody vouches for the end of the log, which is an error finding: we cannot tell.

    `previous`: keys of earlier times, before it was changed. `begun`: the checkpoint after which the log was exported; None for a log that
    is whole. Kept checkpoints of records before that are not this file's to prove; only who signed them is looked at.
    """
    start = (begun.seq, begun.hash) if begun is not None else (0, GENESIS)
    keys = frozenset((key, *previous)) if key is not None else None
    found = [*_lines(log, where), *_chain(log, where, start), *_end(log, where, keys, start), *_kept(log, where, keys, kept, start)]
    if begun is not None:
        found += _authentic(begun, "--after", keys)
    return tuple(found[:MOST])


def _finding(name: str, message: str, where: str, fix: str, severity: str = "fail") -> Finding:
    return Finding.model_validate({"id": name, "severity": severity, "message": message, "where": where, "fix": fix})


Keys = frozenset[str] | None
_STRANGER = "if the gateway's key was changed, give the earlier one with --previous-key; else compare with a copy that was kept elsewhere"
_PART = "if this is a part of the log, name the checkpoint that it begins after with --after; else compare with a copy that was kept elsewhere"
_COMPARE = "compare with a copy that was kept elsewhere; what stands in this file is not what was recorded"


def _lines(log: Exported, where: str) -> Iterator[Finding]:
    for line in log.broken:
        yield _finding("audit-line-unreadable", "this line is neither a record nor a checkpoint", f"{where}:{line}", _COMPARE)


def _chain(log: Exported, where: str, start: tuple[int, str]) -> Iterator[Finding]:
    expected, before = start[0] + 1, start[1]
    for nth, (line, record) in enumerate(log.records):
        here, seq = f"{where}:{line}", record["seq"]
        if seq != expected:
            what = f"record {expected} is missing" if seq > expected else f"record {seq} stands where {expected} belongs"
            yield _finding("audit-sequence-broken", what, here, _COMPARE if nth or seq < expected else _PART)
        elif record.get("prev_hash") != before:
            yield _finding("audit-chain-broken", f"record {seq} does not follow the one before it", here, _COMPARE)
        if _hash(record) != record["hash"]:
            yield _finding("audit-record-altered", f"the hash of record {seq} is not that of its content", here, _COMPARE)
        expected, before = seq + 1, str(record["hash"])


def _hash(record: Mapping[str, Any]) -> str:
    try:
        return hashlib.sha256(canonical_text({name: value for name, value in record.items() if name != "hash"}).encode()).hexdigest()
    except NotCanonical:
        return ""


def _end(log: Exported, where: str, keys: Keys, start: tuple[int, str]) -> Iterator[Finding]:
    """The last line must be a checkpoint of the last record."""
    last = log.records[-1][1] if log.records else {"seq": start[0], "hash": start[1]}
    final = log.marks[-1] if log.marks else None
    if final is None or (log.records and final.line < log.records[-1][0]):
        yield _finding("audit-end-missing", "the file does not end with a checkpoint: its end may have been cut off", where, _COMPARE)
        return
    for mark in log.marks:
        yield from _authentic(mark, f"{where}:{mark.line}", keys)
    if (final.seq, final.hash) != (last["seq"], last["hash"]):
        other = f"the checkpoint at the end is of record {final.seq}, the last record here is {last['seq']}"
        what = other if final.seq != last["seq"] else f"record {final.seq} is not the one that was signed"
        yield _finding("audit-end-differs", what, where, _COMPARE)
    if keys is None:
        fix = "give --key: what GET /operator/v1/audit/key answered when the log was young"
        yield _finding("audit-key-unknown", "without the gateway's public key anybody could have written this log", where, fix, "error")


def _authentic(mark: Mark, where: str, keys: Keys) -> Iterator[Finding]:
    if not mark.signed:
        yield _finding("audit-signature-wrong", f"the checkpoint of record {mark.seq} was altered or forged", where, _COMPARE)
    elif keys is not None and mark.key not in keys:
        yield _finding("audit-signature-stranger", f"the checkpoint of record {mark.seq} is signed by another key", where, _STRANGER)


def _kept(log: Exported, where: str, keys: Keys, kept: Sequence[Mark], start: tuple[int, str]) -> Iterator[Finding]:
    hashes = {record["seq"]: record["hash"] for _, record in log.records} | dict([start])
    newest = max(hashes)
    for mark in kept:
        here = f"checkpoints:{mark.line}"
        yield from _authentic(mark, here, keys)
        if mark.seq > newest:
            yield _finding("audit-rolled-back", f"the log once had {mark.seq} records, this one has {newest}", where, _COMPARE)
        elif mark.seq >= start[0] and hashes.get(mark.seq) != mark.hash:
            yield _finding("audit-rewritten", f"record {mark.seq} is not the one that was marked", where, _COMPARE)
