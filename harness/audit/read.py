"""An exported log (`GET /audit/export`: JSON lines of records, closed by a signed checkpoint) and a file of kept checkpoints, read without trust."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from harness.errors import LoadError
from harness.model.digest import NotCanonical, canonical_text, loads_exact

KIND = "checkpoint/v1"
LARGEST = 1 << 30
"""Bytes of one file. A log that is larger is exported, and verified, in parts (`read_begun`)."""
LONGEST_LINE = 1 << 24
"""Bytes of one record. The longest that anybody can make a gateway write names what stood in a request of 4 MiB, three bytes for each of it
when it is escaped."""
LONGEST_MARK = 1 << 16


@dataclass(frozen=True, slots=True)
class Mark:
    """A checkpoint. `line` in its file, from 1. `signed`: by the key that it names itself."""

    seq: int
    hash: str
    key: str
    line: int
    signed: bool


@dataclass(frozen=True, slots=True)
class Exported:
    """`records`: (line, record) in the file's order. `broken`: lines that are neither record nor checkpoint."""

    records: tuple[tuple[int, Mapping[str, Any]], ...]
    marks: tuple[Mark, ...]
    broken: tuple[int, ...]


def read_export(path: Path) -> Exported:
    """Raises LoadError when it cannot be read, is too large, or holds nothing at all."""
    return parse_export(_content(path), str(path))


def parse_export(content: bytes, where: str) -> Exported:
    """As `read_export`, of a log that is in memory."""
    records: list[tuple[int, Mapping[str, Any]]] = []
    marks: list[Mark] = []
    broken: list[int] = []
    for number, line in enumerate(_lines(content), start=1):
        found = _object(line)
        if found is None:
            broken.append(number)
        elif found.get("kind") == KIND:
            mark = _mark(found, number)
            marks.append(mark) if mark is not None else broken.append(number)
        elif isinstance(found.get("seq"), int) and isinstance(found.get("hash"), str):
            records.append((number, found))
        else:
            broken.append(number)
    if not records and not marks:
        raise LoadError("no audit record and no checkpoint in it", where=where, fix="give the answer of GET /operator/v1/audit/export")
    return Exported(tuple(records), tuple(marks), tuple(broken))


def read_marks(path: Path) -> tuple[Mark, ...]:
    """Raises LoadError for an unreadable file or a line that is no checkpoint; a last line cut short by a crash is passed over."""
    return parse_marks(_content(path), str(path))


def parse_marks(content: bytes, where: str) -> tuple[Mark, ...]:
    """As `read_marks`, of checkpoints that are in memory."""
    marks = []
    lines = _lines(content, keep_unended=False)
    for number, line in enumerate(lines, start=1):
        found = _object(line)
        mark = _mark(found, number) if found is not None and found.get("kind") == KIND else None
        if mark is None:
            raise LoadError("not a checkpoint", where=f"{where}:{number}", fix="give the file that the gateway wrote under --checkpoints, unedited")
        marks.append(mark)
    return tuple(marks)


def read_begun(after: str, kept: Sequence[Mark]) -> Mark | None:
    """The checkpoint that a part of a log begins after; None for a log from its beginning.

    `after`: the number of a record that one of `kept` is of, or a file whose last line is the checkpoint: the export of the part before, or
    checkpoints that a gateway kept. Raises LoadError.
    """
    if not after.isascii() or not after.isdecimal():
        return _last_mark(Path(after))
    seq = int(after[:20])
    found = next((mark for mark in reversed(kept) if mark.seq == seq), None)
    if found is None and seq:
        fix = "give --checkpoints with a checkpoint of that record, or a file that ends with one"
        raise LoadError(f"there is no checkpoint of record {seq}", where="--after", fix=fix)
    return found if seq else None


def _last_mark(path: Path) -> Mark:
    try:
        with path.open("rb") as content:
            content.seek(max(path.stat().st_size - LONGEST_MARK, 0))
            lines = _lines(content.read(), keep_unended=False)
    except OSError as error:
        raise LoadError(f"cannot be read: {error.strerror}", where=str(path), fix="name a readable file, or a record's number") from error
    found = _object(lines[-1]) if lines else None
    mark = _mark(found, len(lines)) if found is not None and found.get("kind") == KIND else None
    if mark is None:
        raise LoadError("it does not end with a checkpoint", where=str(path), fix="give the export of the part before, or kept checkpoints")
    return mark


def _content(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST:
            fix = "export the log in parts (GET /audit/export?after=N&until=M) and verify each with --after"
            raise LoadError(f"larger than {LARGEST >> 20} MiB", where=str(path), fix=fix)
        return path.read_bytes()
    except OSError as error:
        raise LoadError(f"cannot be read: {error.strerror}", where=str(path), fix="name a readable file") from error


def _lines(content: bytes, *, keep_unended: bool = True) -> list[bytes]:
    lines = content.split(b"\n")
    last = lines.pop()
    return [*lines, last] if last and keep_unended else lines


def _object(line: bytes) -> dict[str, Any] | None:
    if len(line) > LONGEST_LINE:
        return None
    try:
        found = loads_exact(line, unique=True)
    except (ValueError, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) else None


def _mark(found: dict[str, Any], line: int) -> Mark | None:
    body = {name: value for name, value in found.items() if name != "signature"}
    seq, last, key, signature = (found.get(name) for name in ("seq", "hash", "key", "signature"))
    if not isinstance(seq, int) or isinstance(seq, bool) or not all(isinstance(each, str) for each in (last, key, signature)):
        return None
    try:
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(str(key), validate=True))
        public.verify(base64.b64decode(str(signature), validate=True), canonical_text(body).encode())
        signed = True
    except (ValueError, InvalidSignature, NotCanonical):
        signed = False
    return Mark(seq, str(last), str(key), line, signed)
