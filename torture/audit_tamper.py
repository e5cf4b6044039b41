"""Exported audit logs, tampered with in every way we know: all found; untouched ones: no alarm."""

from __future__ import annotations

import copy
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.audit.read import Mark, read_export, read_marks
from harness.audit.verify import verify
from reference_gateway.audit import AuditLog
from reference_gateway.checkpoints import Checkpoints
from reference_gateway.clock import TestClock
from reference_gateway.store.sqlite import SqliteStore
from torture.figures import Figures, Scale

SEED = 20261201
Lines = list[dict[str, Any]]
Odds = random.Random


class Genuine:
    """A log that a gateway wrote, an earlier export of it, the marks it kept outside, and a stranger who can sign with a key of their own."""

    def __init__(self, folder: Path, records: int, odds: Odds) -> None:
        self.folder = folder
        store = SqliteStore(folder / "gateway.db")
        store.open()
        try:
            clock = TestClock()
            audit = AuditLog(store, clock)
            key = folder / "audit.key"
            key.touch(mode=0o600)
            key.write_bytes(odds.randbytes(32))
            marks = Checkpoints(store, clock, file=str(folder / "marks.jsonl"), key_file=str(key))
            self.earlier: Lines = []
            for number in range(records):
                audit.append(
                    tenant=odds.choice(("t1", "t2")), actor="agent:a", event="policy_decision", outcome="success", decision="allow",
                    reason="allow_default", tool=odds.choice(("add", "get")), details={"n": number, "text": odds.choice(("ä", "b"))},
                )  # fmt: skip
                if number == records // 2:
                    marks.mark()
                    self.earlier = [json.loads(line) for line in marks.export()]
            marks.mark()
            self.lines: Lines = [json.loads(line) for line in marks.export()]
            self.key = marks.public_key
            self.stranger = Checkpoints(store, clock, file=None, key_file=None)
            self.forged = self.stranger.made()
        finally:
            store.close()
        self.kept = read_marks(folder / "marks.jsonl")

    def alarms(self, lines: Lines | list[bytes], kept: tuple[Mark, ...] | None = None, key: str | None = None) -> int:
        path = self.folder / "tampered.jsonl"
        path.write_bytes(b"".join(encoded(line) + b"\n" for line in lines))
        return len(verify(read_export(path), "tampered", key=key or self.key, kept=self.kept if kept is None else kept))


def encoded(line: dict[str, Any] | bytes) -> bytes:
    return line if isinstance(line, bytes) else json.dumps(line).encode()


def edited(g: Genuine, odds: Odds) -> Lines:
    lines = copy.deepcopy(g.lines)
    record = odds.choice(lines[:-1])
    field = odds.choice([name for name in record if name != "details"])
    value = record[field]
    record[field] = value + 1 if isinstance(value, int) else f"{value}x" if isinstance(value, str) else "x"
    return lines


def edited_inside(g: Genuine, odds: Odds) -> Lines:
    lines = copy.deepcopy(g.lines)
    odds.choice(lines[:-1])["details"]["n"] = -1
    return lines


def deleted(g: Genuine, odds: Odds) -> Lines:
    at = odds.randrange(len(g.lines) - 1)
    return g.lines[:at] + g.lines[at + 1 :]


def inserted(g: Genuine, odds: Odds) -> Lines:
    at = odds.randrange(len(g.lines))
    return [*g.lines[:at], copy.deepcopy(odds.choice(g.lines[:-1])), *g.lines[at:]]


def reordered(g: Genuine, odds: Odds) -> Lines:
    lines = list(g.lines)
    one, other = odds.sample(range(len(lines) - 1), 2)
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def swapped(g: Genuine, odds: Odds) -> Lines:
    """Contents exchanged, numbers and links kept."""
    lines = copy.deepcopy(g.lines)
    one, other = odds.sample(range(len(lines) - 1), 2)
    for name in ("details", "tool", "tenant"):
        lines[one][name], lines[other][name] = lines[other][name], lines[one][name]
    return lines if lines != g.lines else edited_inside(g, odds)


def truncated(g: Genuine, odds: Odds) -> Lines:
    return g.lines[: odds.randrange(1, len(g.lines))]


def truncated_with_its_mark(g: Genuine, odds: Odds) -> Lines:
    return [*g.lines[: odds.randrange(len(g.lines) - 1)], g.lines[-1]]


def rewritten(g: Genuine, odds: Odds) -> Lines:
    """Every record chained anew after an edit, the old mark kept."""
    return [*chained(edited_inside(g, odds)[:-1]), g.lines[-1]]


def rewritten_and_signed(g: Genuine, odds: Odds) -> Lines:
    """The whole log anew, with a mark that a stranger's key signed consistently."""
    lines = chained(edited_inside(g, odds)[:-1])
    return [*lines, signed(g.stranger, lines[-1]["seq"], lines[-1]["hash"], g.forged)]


def rolled_back(g: Genuine, odds: Odds) -> Lines:
    return g.earlier


def mark_edited(g: Genuine, odds: Odds) -> Lines:
    lines = copy.deepcopy(g.lines)
    name = odds.choice(("seq", "hash", "at", "signature"))
    lines[-1][name] = lines[-1][name] + 1 if name == "seq" else lines[-1][name][::-1]
    return lines if lines != g.lines else truncated(g, odds)


def said_twice(g: Genuine, odds: Odds) -> list[bytes]:
    """A member that stands twice in its line, first with another value: whoever reads on to the end sees what was signed."""
    lines = [encoded(line) for line in g.lines]
    at = odds.randrange(len(lines))
    name = odds.choice(list(g.lines[at]))
    lines[at] = b"{" + encoded({name: "forged"})[1:-1] + b"," + lines[at][1:]
    return lines


WAYS: tuple[Callable[[Genuine, Odds], Lines | list[bytes]], ...] = (
    edited, edited_inside, said_twice, deleted, inserted, reordered, swapped,
    truncated, truncated_with_its_mark, rewritten, rewritten_and_signed, rolled_back, mark_edited,
)  # fmt: skip


def chained(records: Lines) -> Lines:
    import hashlib

    from reference_gateway.canonical import canonical_bytes

    before = records[0]["prev_hash"]
    for record in records:
        record["prev_hash"] = before
        body = {name: value for name, value in record.items() if name != "hash"}
        before = record["hash"] = hashlib.sha256(canonical_bytes(body)).hexdigest()
    return records


def signed(stranger: Checkpoints, seq: int, last: str, form: dict[str, Any]) -> dict[str, Any]:
    import base64

    from reference_gateway.canonical import canonical_bytes

    mark = {**form, "seq": seq, "hash": last, "key": stranger.public_key}
    del mark["signature"]
    return {**mark, "signature": base64.b64encode(stranger._key.sign(canonical_bytes(mark))).decode()}


def run(scale: Scale) -> list[Figures]:
    mutants, clean = (10_000, 1_000) if scale == "full" else (240, 24)
    odds = random.Random(SEED)
    missed: Counter[str] = Counter()
    alarms = trusting = 0
    with tempfile.TemporaryDirectory(prefix="torture-audit-") as name:
        genuine = Genuine(Path(name), 24, odds)
        for number in range(mutants):
            way = WAYS[number % len(WAYS)]
            if not genuine.alarms(way(genuine, odds)):
                missed[way.__name__] += 1
        # The control: a reader who takes whatever key the log names and keeps no marks believes the stranger and the rollback.
        for way in (rewritten_and_signed, rolled_back):
            trusting += not genuine.alarms(way(genuine, odds), kept=(), key=genuine.stranger.public_key if way is rewritten_and_signed else None)
    for number in range(clean):
        with tempfile.TemporaryDirectory(prefix="torture-audit-") as name:
            genuine = Genuine(Path(name), 2 + number % 7, random.Random(number))
            alarms += bool(genuine.alarms(genuine.lines))
    notes = tuple(f"missed: {way} {count}" for way, count in missed.items())
    found = mutants - missed.total()
    tampered = Figures(f"a tampered log is found out, {len(WAYS)} ways", mutants, missed.total(), trusting, notes)
    return [tampered, Figures("a clean log raises no alarm", clean, alarms, found)]
