"""Signed marks of how far the audit log had come, kept outside the store, so that not even its owner can quietly rewrite or roll it back.

A mark says: at this sequence number the log's last hash was this. It is an Ed25519 signature over canonical JSON, one mark a line.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from reference_gateway.audit import Now, stamp
from reference_gateway.canonical import canonical_bytes
from reference_gateway.errors import GatewayError
from reference_gateway.store.base import AUDIT_PAGE, Document, Store, StoreError
from reference_gateway.vault import load_key

KIND = "checkpoint/v1"
EVERY = 256
"""Records between two marks; besides them one at the start, one at the end, and one whenever the log is exported."""


class CheckpointError(GatewayError):
    """Codes: `audit_rolled_back`, `audit_rewritten`, `checkpoint_forged`, `checkpoints_unusable`. The gateway does not start then."""

    http_status = 500

    def __init__(self, code: str, what: str, where: str) -> None:
        super().__init__(code, what, where=where, fix="restore the store that these checkpoints were made of; they must not be edited")


class Checkpoints:
    """`file` None: marks are made for exports only, and nothing is kept."""

    def __init__(self, store: Store, clock: Now, *, file: str | None, key_file: str | None) -> None:
        self._store = store
        self._clock = clock
        self._file = Path(file) if file is not None else None
        self._key = Ed25519PrivateKey.from_private_bytes(load_key(key_file))
        self._last = -1
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
        """The log must still hold all that was marked before. Raises CheckpointError."""
        if self._file is None:
            return
        for mark in self._kept():
            self._hold(mark)
        self.mark()

    def noted(self, seq: int) -> None:
        """To be called with the newest sequence number whenever records were written."""
        if self._file is not None and seq - self._last >= EVERY:
            self.mark()

    def mark(self) -> None:
        """A mark that cannot be kept stops no call, since the record itself is durable; health tells of it until one can be kept again."""
        if self._file is None:
            return
        mark = self.made()
        if mark["seq"] == self._last:
            return
        try:
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, json.dumps(mark, separators=(",", ":")).encode() + b"\n")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            self.trouble = f"a checkpoint could not be kept: {error.strerror}"
            return
        self.trouble = ""
        self._last = int(mark["seq"])

    def made(self) -> Document:
        """A fresh mark of the log's present end."""
        seq, last = self._store.audit_head()
        mark: Document = {"kind": KIND, "seq": seq, "hash": last, "at": stamp(self._clock.now()), "key": self.public_key}
        return {**mark, "signature": base64.b64encode(self._key.sign(canonical_bytes(mark))).decode("ascii")}

    def export(self, after: int = 0) -> Iterator[bytes]:
        """The log after that record as JSON lines, closed by a mark of its end: what `audit verify` reads, anywhere and at any time."""
        mark = self.made()
        while after < mark["seq"]:
            records = [each for each in self._store.audit_read(None, after=after, limit=AUDIT_PAGE) if each["seq"] <= mark["seq"]]
            if not records:
                raise StoreError("store_failed", "the log ends before its own end", fix="check the store")
            for record in records:
                yield json.dumps(record, separators=(",", ":")).encode() + b"\n"
            after = records[-1]["seq"]
        yield json.dumps(mark, separators=(",", ":")).encode() + b"\n"

    def _kept(self) -> Iterator[Document]:
        try:
            text = self._file.read_text(encoding="utf-8") if self._file is not None and self._file.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise CheckpointError("checkpoints_unusable", f"the checkpoints cannot be read: {type(error).__name__}", str(self._file)) from error
        lines = text.split("\n")
        for number, line in enumerate(lines, start=1):
            # A last line without its end is a write that a crash cut short; the record it was for is in the log.
            if line and number < len(lines):
                yield self._signed(line, number)

    def _signed(self, line: str, number: int) -> Document:
        where = f"{self._file}:{number}"
        try:
            mark: dict[str, Any] = json.loads(line)
            signature = base64.b64decode(mark.pop("signature"), validate=True)
            Ed25519PublicKey.from_public_bytes(base64.b64decode(mark["key"], validate=True)).verify(signature, canonical_bytes(mark))
            if mark["kind"] != KIND or not isinstance(mark["seq"], int) or not isinstance(mark["hash"], str):
                raise ValueError("not a checkpoint")
        except (ValueError, KeyError, TypeError, AttributeError, InvalidSignature, RecursionError) as error:
            raise CheckpointError("checkpoint_forged", "this line is no checkpoint of a gateway", where) from error
        return mark

    def _hold(self, mark: Document) -> None:
        seq, where = int(mark["seq"]), f"{self._file}: seq {mark['seq']}"
        if seq > self._store.audit_head()[0]:
            raise CheckpointError("audit_rolled_back", f"the log once had {seq} records and has fewer now", where)
        found = self._store.audit_read(None, after=seq - 1, limit=1) if seq else []
        if seq and (not found or found[0]["hash"] != mark["hash"]):
            raise CheckpointError("audit_rewritten", f"record {seq} is not the one that was marked", where)
        self._last = seq
