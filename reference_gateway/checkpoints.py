"""Signed marks of how far the audit log had come, kept outside the store, so that not even its owner can quietly rewrite or roll it back.

A mark says: at this sequence number the log's last hash was this. It is an Ed25519 signature over canonical JSON, one mark a line.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from reference_gateway.audit import stamp
from reference_gateway.canonical import canonical_bytes
from reference_gateway.clock import Clock, Timer
from reference_gateway.errors import GatewayError
from reference_gateway.store.base import AUDIT_PAGE, GENESIS, Document, Store, StoreError
from reference_gateway.vault import load_key

KIND = "checkpoint/v1"
EVERY = 256
"""Records between two marks, at most; besides them one at the start, one at the end, and one whenever the log is exported."""
WITHIN_S = 5.0
"""Seconds that a record stays without a mark, at most: what is written in that time is all that a rollback after a kill can hide."""
HELD = 256 * 1024
"""Bytes at the end of the file whose marks (some 700) are held against the log at the start. Each vouches for all before it, so that
older ones add nothing there; `audit verify` checks every one."""
LONGEST = 4096
"""Bytes of one line, with room to spare."""


class CheckpointError(GatewayError):
    """Codes: `audit_rolled_back`, `audit_rewritten`, `checkpoint_forged`, `checkpoints_unusable`. The gateway does not start then."""

    http_status = 500

    def __init__(self, code: str, what: str, where: str, fix: str = "restore the store that these checkpoints were made of, and them") -> None:
        super().__init__(code, what, where=where, fix=fix)


class Checkpoints:
    """`file` None: marks are made for exports only, and nothing is kept. A file needs a key that outlives the process.

    `previous`: public keys (base64, as `GET /audit/key` told them) that marks of earlier times are signed with. Raises CheckpointError.
    """

    def __init__(self, store: Store, clock: Clock, *, file: str | None, key_file: str | None, previous: Sequence[str] = ()) -> None:
        if file is not None and key_file is None:
            fix = "give --audit-key-file too: marks of a key that ends with this process prove nothing to the next one"
            raise CheckpointError("checkpoints_unusable", "checkpoints need a key that is kept", "--checkpoints", fix)
        self._store = store
        self._clock = clock
        self._file = Path(file) if file is not None else None
        self._key = Ed25519PrivateKey.from_private_bytes(load_key(key_file))
        self._accepted = {self.public_key, *(_public(key) for key in previous)}
        self._last = -1
        self._due: Timer | None = None
        self.trouble = ""

    @property
    def public_key(self) -> str:
        """The 32 raw bytes, in base64."""
        return base64.b64encode(self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode("ascii")

    @property
    def state(self) -> str:
        """`off`, `ok`, or why the last one could not be kept."""
        return "off" if self._file is None else self.trouble or "ok"

    def start(self) -> None:
        """The log must still hold what was marked last. Raises CheckpointError, and StoreError when the log cannot be read."""
        if self._file is None:
            return
        kept = list(self._kept())
        head = self._store.audit_head()[0]  # after the marks: another gateway on this store may be writing both
        for mark, where in kept:
            self._hold(mark, where, head)
        self.mark()

    def noted(self, seq: int) -> None:
        """To be called with the newest sequence number whenever records were written."""
        if self._file is None or seq <= self._last:
            return
        if seq - self._last >= EVERY and not self.trouble:
            self.mark()
        if seq > self._last and self._due is None:
            self._due = self._clock.call_later(WITHIN_S, self._timed)

    def _timed(self) -> None:
        self.mark()
        if self.trouble:  # tried again until it succeeds, whether or not more is written meanwhile
            self._due = self._clock.call_later(WITHIN_S, self._timed)

    def mark(self) -> None:
        """A mark that cannot be kept stops no call, since the record itself is durable; health tells of it until one can be kept again."""
        if self._file is None:
            return
        if self._due is not None:
            self._due.cancel()
            self._due = None
        try:
            mark = self.made()
            if mark["seq"] != self._last:
                _append(self._file, json.dumps(mark, separators=(",", ":")).encode() + b"\n")
        except (OSError, StoreError) as error:
            what = error.message if isinstance(error, StoreError) else error.strerror
            self.trouble = f"a checkpoint could not be kept: {what}"
            return
        self.trouble = ""
        self._last = int(mark["seq"])

    def made(self, until: int | None = None) -> Document:
        """A fresh mark of the log's present end, or of the record `until` if it is further on than that. Raises StoreError."""
        seq, last = self._store.audit_head()
        if until is not None and until < seq:
            seq, last = until, self._hash_at(until)
        mark: Document = {"kind": KIND, "seq": seq, "hash": last, "at": stamp(self._clock.now()), "key": self.public_key}
        return {**mark, "signature": base64.b64encode(self._key.sign(canonical_bytes(mark))).decode("ascii")}

    def export(self, after: int = 0, until: int | None = None) -> Iterator[bytes]:
        """The log after that record as JSON lines, closed by a mark of its end: what `audit verify` reads, anywhere and at any time.

        `until`: the last record of a part; the next part goes on after it.
        """
        mark = self.made(until)
        while after < mark["seq"]:
            records = [each for each in self._store.audit_read(None, after=after, limit=AUDIT_PAGE) if each["seq"] <= mark["seq"]]
            if not records:
                raise StoreError("store_failed", "the log ends before its own end", fix="check the store")
            for record in records:
                yield json.dumps(record, separators=(",", ":")).encode() + b"\n"
            after = records[-1]["seq"]
        yield json.dumps(mark, separators=(",", ":")).encode() + b"\n"

    def _hash_at(self, seq: int) -> str:
        if seq == 0:
            return GENESIS
        found = self._store.audit_read(None, after=seq - 1, limit=1)
        return str(found[0]["hash"]) if found and found[0]["seq"] == seq else ""

    def _kept(self) -> Iterator[tuple[Document, str]]:
        """The newest marks, oldest first, each with where it stands."""
        try:
            size = self._file.stat().st_size if self._file is not None and self._file.exists() else 0
            start = max(size - HELD, 0)
            tail = b"" if self._file is None or not size else _read(self._file, start)
        except OSError as error:
            raise CheckpointError("checkpoints_unusable", f"the checkpoints cannot be read: {error.strerror}", str(self._file)) from error
        # The first line of a tail may have lost its beginning. A last line without its end is a write that a crash cut short; the
        # record it was for is in the log.
        whole = tail[: tail.rfind(b"\n") + 1].splitlines(keepends=True)[1 if start else 0 :]
        at = start + (tail.find(b"\n") + 1 if start else 0)
        for line in whole:
            where = f"{self._file}, byte {at}"
            yield self._signed(line, where), where
            at += len(line)

    def _signed(self, line: bytes, where: str) -> Document:
        try:
            mark: dict[str, Any] = json.loads(line)
            signature = base64.b64decode(mark.pop("signature"), validate=True)
            Ed25519PublicKey.from_public_bytes(base64.b64decode(mark["key"], validate=True)).verify(signature, canonical_bytes(mark))
            if mark["kind"] != KIND or not isinstance(mark["seq"], int) or not isinstance(mark["hash"], str):
                raise ValueError("not a checkpoint")
        except (ValueError, KeyError, TypeError, AttributeError, InvalidSignature, RecursionError) as error:
            raise CheckpointError("checkpoint_forged", "this line is no checkpoint of a gateway", where) from error
        if mark["key"] not in self._accepted:
            fix = "restore the checkpoints; if the key was changed, name the earlier one with --audit-previous-key"
            raise CheckpointError("checkpoint_forged", "this checkpoint is signed by a key that is not ours", where, fix)
        return mark

    def _hold(self, mark: Document, where: str, head: int) -> None:
        seq = int(mark["seq"])
        if seq > head:
            raise CheckpointError("audit_rolled_back", f"the log once had {seq} records and has {head} now", where)
        if self._hash_at(seq) != mark["hash"]:
            raise CheckpointError("audit_rewritten", f"record {seq} is not the one that was marked", where)
        # What an earlier key signed is signed anew, so that the newest mark is always by the key that `GET /audit/key` tells.
        self._last = seq if mark["key"] == self.public_key else -1


def _public(key: str) -> str:
    try:
        raw = base64.b64decode(key, validate=True)
        Ed25519PublicKey.from_public_bytes(raw)
    except ValueError as error:
        fix = "give what GET /audit/key answered then: 32 bytes in base64"
        raise CheckpointError("checkpoints_unusable", f"{key[:80]!r} is no public key", "--audit-previous-key", fix) from error
    return base64.b64encode(raw).decode("ascii")


def _read(file: Path, start: int) -> bytes:
    with file.open("rb") as content:
        content.seek(start)
        return content.read()


def _append(file: Path, line: bytes) -> None:
    """Durable when it returns; raises OSError and leaves no half of a line. A half that a crash left is taken away first."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, LONGEST, max(size - LONGEST, 0))
        if tail and not tail.endswith(b"\n"):
            if b"\n" not in tail and size > LONGEST:
                raise OSError(errno.EILSEQ, "it holds something else than checkpoints")
            size -= len(tail) - (tail.rfind(b"\n") + 1)
            os.ftruncate(descriptor, size)
        if os.write(descriptor, line) != len(line):
            os.ftruncate(descriptor, size)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
