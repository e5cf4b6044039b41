"""evidence/v1 on disk: one JSON object a line, appended and flushed as it happens, redacted before it is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.cassette.redact import Redactor
from harness.errors import LoadError, UsageError
from harness.model.evidence import EVIDENCE, EvidenceRecord

MAX_LINE = 64 * 1024 * 1024


class EvidenceLog:
    """Append-only. `record` returns the record as it was written, redacted: live polling judges what the file holds."""

    def __init__(self, path: Path, redactor: Redactor) -> None:
        self.path = path
        self.redactor = redactor
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8", newline="\n")
        except OSError as error:
            raise UsageError(f"the evidence cannot be written: {error.strerror}", where=str(path), fix="choose another --reports-dir") from error

    def record(self, record: EvidenceRecord) -> EvidenceRecord:
        line = self.redactor.clean(dump(record))
        self._file.write(line + "\n")
        self._file.flush()
        return EVIDENCE.validate_json(line)

    def redacted(self, record: EvidenceRecord) -> EvidenceRecord:
        """The record as it would be written, without writing it."""
        return EVIDENCE.validate_json(self.redactor.clean(dump(record)))

    def close(self) -> None:
        self._file.close()


def dump(record: EvidenceRecord) -> str:
    """One line, always valid UTF-8: half of a surrogate pair, which no file can hold, is written as U+FFFD."""
    line = json.dumps(record.model_dump(mode="python"), ensure_ascii=False, separators=(",", ":"), default=_plain)
    try:
        line.encode()
    except UnicodeEncodeError:
        return line.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return line


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    if hasattr(value, "model_dump"):
        return value.model_dump()
    return str(value)


def read_evidence(path: Path) -> list[EvidenceRecord]:
    """Every record. A bad line is a LoadError with file:line; a torn last line (a run that was killed) is one too, saying so."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LoadError(f"the evidence cannot be read: {error.strerror}", where=str(path), fix="give the path of an evidence.jsonl") from error
    return parse_evidence(content, str(path))


def parse_evidence(content: bytes, where: str) -> list[EvidenceRecord]:
    """As `read_evidence`, of a log that is in memory; `where` names it in errors."""
    try:
        lines = content.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise LoadError("the evidence is not UTF-8", where=f"{where}:byte {error.start}", fix="use the file as the run wrote it") from error
    records = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            records.append(EVIDENCE.validate_json(line))
        except ValidationError as error:
            torn = number == len(lines)
            what = "the last line is cut off (the run was ended while writing)" if torn else f"not an evidence/v1 record: {_first(error)}"
            raise LoadError(
                what, where=f"{where}:{number}", fix="remove the line to judge what is left" if torn else "use the file as the run wrote it"
            ) from None
    return records


def _first(error: ValidationError) -> str:
    details = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(str(p) for p in details['loc'])}: {details['msg']}"
