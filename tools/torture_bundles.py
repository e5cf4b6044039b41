"""Tampers with a genuine bundle in every way we know, many times over, and makes clean ones: `make torture` (tests run a short form).

Prints how many of each kind were made; ends with 1 when a tampered bundle was accepted or a clean one refused.
"""

from __future__ import annotations

import base64
import io
import json
import random
import stat
import sys
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness.bundle.archive import Tampered, pack, unpack
from harness.bundle.content import ENVELOPE, EVIDENCE, MEMBERS, derived, statement
from harness.bundle.envelope import opened, seal
from harness.bundle.sealing import make_bundle, verify_bundle
from harness.engine.evidence_log import parse_evidence
from harness.errors import HarnessError, LoadError
from harness.model.digest import json_digest

Odds = random.Random


@dataclass(frozen=True)
class Bench:
    """A genuine bundle taken apart, the key that signed it, and a stranger's."""

    evidence: bytes
    genuine: bytes
    members: Mapping[str, bytes]
    key: Ed25519PrivateKey
    stranger: Ed25519PrivateKey


def bench(evidence: bytes) -> Bench:
    key = Ed25519PrivateKey.generate()
    genuine = make_bundle(evidence, key, EVIDENCE).content
    return Bench(evidence, genuine, unpack(genuine, MEMBERS), key, Ed25519PrivateKey.generate())


def flipped(content: bytes, odds: Odds) -> bytes:
    at = odds.randrange(len(content))
    return content[:at] + bytes([content[at] ^ (1 << odds.randrange(8))]) + content[at + 1 :]


def bit_flipped(b: Bench, odds: Odds) -> bytes:
    return flipped(b.genuine, odds)


def bit_flipped_in_the_directory(b: Bench, odds: Odds) -> bytes:
    at = b.genuine.rindex(b"PK\x01\x02", 0, len(b.genuine)) - odds.randrange(200)
    return b.genuine[:at] + flipped(b.genuine[at:], odds)


def cut(b: Bench, odds: Odds) -> bytes:
    return b.genuine[: odds.randrange(len(b.genuine))]


def lengthened(b: Bench, odds: Odds) -> bytes:
    extra = odds.randbytes(odds.randrange(1, 40))
    return odds.choice([b.genuine + extra, extra + b.genuine])


def byte_removed_or_added(b: Bench, odds: Odds) -> bytes:
    at = odds.randrange(len(b.genuine))
    return odds.choice([b.genuine[:at] + b.genuine[at + 1 :], b.genuine[:at] + odds.randbytes(1) + b.genuine[at:]])


def member_altered(b: Bench, odds: Odds) -> bytes:
    name = odds.choice(MEMBERS)
    return pack({**b.members, name: flipped(b.members[name], odds)})


def member_removed(b: Bench, odds: Odds) -> bytes:
    name = odds.choice(MEMBERS)
    return pack({n: c for n, c in b.members.items() if n != name})


def member_added(b: Bench, odds: Odds) -> bytes:
    names = ["../evil", "/etc/evil", "C:\\evil", "..\\evil", "sub/evil", "evidence.jsonl/", "EVIDENCE.JSONL", "extra.json", "a\x00b"]
    return pack({**b.members, odds.choice(names): odds.randbytes(20)})


def member_twice(b: Bench, odds: Odds) -> bytes:
    buffer = io.BytesIO(b.genuine)
    name = odds.choice(MEMBERS)
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "a") as archive:
        warnings.simplefilter("ignore")
        archive.writestr(name, odds.choice([b.members[name], flipped(b.members[name], odds)]))
    return buffer.getvalue()


def spelled_otherwise(b: Bench, odds: Odds) -> bytes:
    """The same members, but as links, compressed, dated, in another order, or with a comment."""
    names, way = list(MEMBERS), odds.randrange(5)
    odds.shuffle(names)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number, name in enumerate(names if way == 3 else sorted(MEMBERS)):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0) if way != 2 else (2000 + odds.randrange(30), 1, 2, 3, 4, 6))
            kind = stat.S_IFLNK if way == 0 and number == 0 else stat.S_IFREG
            info.external_attr = (kind | 0o644) << 16
            info.create_system = 3
            info.compress_type = zipfile.ZIP_DEFLATED if way == 1 else zipfile.ZIP_STORED
            archive.writestr(info, b.members[name])
        archive.comment = b"hello" if way in (3, 4) else b""
    return buffer.getvalue()


def bomb(b: Bench, odds: Odds) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(MEMBERS):
            archive.writestr(name, b.members[name] if name != EVIDENCE else b"\0" * odds.randrange(5_000_000, 20_000_000))
    return buffer.getvalue()


def size_denied(b: Bench, odds: Odds) -> bytes:
    """A directory that claims sizes from nothing to four gigabytes."""
    at = b.genuine.index(b"PK\x01\x02") + odds.choice([20, 24])
    return b.genuine[:at] + odds.choice([b"\xff\xff\xff\xfe", b"\0\0\0\0", odds.randbytes(4)]) + b.genuine[at + 4 :]


def _evidence_altered(b: Bench, odds: Odds) -> bytes:
    """Another log that still reads: a record left out, doubled, or with other words in it."""
    lines = b.evidence.splitlines(keepends=True)
    while True:
        at = odds.randrange(1, len(lines))
        word = odds.choice([b'"isError":false', b'"allow"', b'"fake"', b'"pass', b'"2026-', b'"status":200'])
        changed = [lines[:at] + lines[at + 1 :], lines[: at + 1] + lines[at:], [line.replace(word, b'"x' + word[1:]) for line in lines]][
            odds.randrange(3)
        ]
        content = b"".join(changed)
        if content == b.evidence:
            continue
        try:
            derived(parse_evidence(content, EVIDENCE))
        except HarnessError:
            continue
        return content


def evidence_altered_with_its_results(b: Bench, odds: Odds) -> bytes:
    """Consistent in everything but the signature, which stays that of the original."""
    evidence = _evidence_altered(b, odds)
    _, _, members = derived(parse_evidence(evidence, EVIDENCE))
    return pack({**members, EVIDENCE: evidence, ENVELOPE: b.members[ENVELOPE]})


def signed_again_by_a_stranger(b: Bench, odds: Odds) -> bytes:
    """Consistent through and through, or not even altered; only the signer is another."""
    evidence = odds.choice([b.evidence, _evidence_altered(b, odds)])
    return make_bundle(evidence, b.stranger, EVIDENCE).content


def signed_by_a_stranger_in_our_name(b: Bench, odds: Odds) -> bytes:
    foreign = json.loads(unpack(make_bundle(b.evidence, b.stranger, EVIDENCE).content, MEMBERS)[ENVELOPE])
    foreign["signatures"][0]["keyid"] = json.loads(b.members[ENVELOPE])["signatures"][0]["keyid"]
    return pack({**b.members, ENVELOPE: json.dumps(foreign, separators=(",", ":")).encode() + b"\n"})


def results_not_from_evidence(b: Bench, odds: Odds) -> bytes:
    """Signed with the right key, hashes and all, but the results say what the evidence does not."""
    changed = dict(b.members)
    name = odds.choice(["results.json", "drift.json", "audit.json", "environment.json"])
    changed[name] = changed[name].replace(b'"', b'"x', 1) if odds.random() < 0.5 else changed[name] + b" "
    return _resealed(b, changed, odds)


def evidence_not_of_results(b: Bench, odds: Odds) -> bytes:
    """Signed with the right key, but the results are those of other evidence, from which other results follow."""
    while True:
        evidence = _evidence_altered(b, odds)
        _, _, members = derived(parse_evidence(evidence, EVIDENCE))
        if any(members[name] != b.members[name] for name in members):
            return _resealed(b, {**b.members, EVIDENCE: evidence}, odds)


def _resealed(b: Bench, members: dict[str, bytes], odds: Odds) -> bytes:
    members.pop(ENVELOPE)
    results, _, _ = derived(parse_evidence(b.evidence, EVIDENCE))
    return pack({**members, ENVELOPE: seal(statement(results, members), b.key)})


def statement_of_another_kind(b: Bench, odds: Odds) -> bytes:
    """Signed with the right key: a statement that calls another answer."""
    old = opened(b.members[ENVELOPE], b.key.public_key())
    new = odds.choice(
        [old.replace(b"PASSED", b"FAILED"), old.replace(b"test-result/v0.1", b"test-result/v0.2"), old + b" ", b"{}", b"[]", b"nothing"]
    )
    return pack({**b.members, ENVELOPE: seal(new, b.key)})


def envelope_altered(b: Bench, odds: Odds) -> bytes:
    data = json.loads(b.members[ENVELOPE])
    way = odds.randrange(6)
    if way == 0:
        data["signatures"] = []
    elif way == 1:
        data["signatures"] *= 2
    elif way == 2:
        data["signatures"][0]["keyid"] = "0" * 64
    elif way == 3:
        data["payloadType"] = "text/plain"
    elif way == 4:
        data["signatures"][0]["sig"] = base64.b64encode(odds.randbytes(64)).decode()
    else:
        data["extra"] = 1
    return pack({**b.members, ENVELOPE: json.dumps(data, separators=(",", ":")).encode() + b"\n"})


def audit_told_otherwise(b: Bench, odds: Odds) -> bytes:
    """Everything made anew and signed with the right key; but the audit log, or what the evidence says of it, is not what the gateway signed."""
    lines = [json.loads(line) for line in b.evidence.splitlines()]
    log = next(line for line in lines if line["kind"] == "audit_log")
    mine = [line for line in lines if line["kind"] == "audit"]
    exported = log["export"].splitlines(keepends=True)
    way = odds.randrange(7)
    if way == 0:  # a record of the log is left out, doubled or stands elsewhere
        at = odds.randrange(len(exported) - 1)
        record = exported.pop(at)
        exported[at + 1 : at + 1] = odds.choice([[], [record], [record, record]])
        exported = exported if exported != log["export"].splitlines(keepends=True) else exported[1:]
    elif way == 1:  # a record of the log says something else, and the chain is made to fit
        exported = _rechained(exported, odds.randrange(len(exported) - 1))
    elif way == 2:  # its end is cut off
        exported = exported[: odds.randrange(len(exported))] or ["{}\n"]
    elif way == 3:  # signed by another key than the gateway's own
        log["key"] = base64.b64encode(odds.randbytes(32)).decode()
    elif way == 4:  # what the verdict rests on says something else
        odds.choice(mine)["record"]["outcome"] = "invented"
    elif way == 5:  # what the verdict rests on lacks a record
        lines.remove(odds.choice(mine[:-1]))
    else:  # the checkpoints are another log's
        log["checkpoints"] = log["checkpoints"].replace('"hash":"', f'"hash":"{odds.randrange(10)}', 1)
    log["export"] = "".join(exported)
    return make_bundle("".join(json.dumps(line) + "\n" for line in lines).encode(), b.key, EVIDENCE).content


def _rechained(exported: list[str], changed: int) -> list[str]:
    """The same log with another word in one record, its chain consistent again; the gateway's signature is the one thing that cannot be made."""
    found, before = [], "0" * 64
    for number, record in enumerate(map(json.loads, exported[:-1])):
        record.pop("hash")
        record |= {"prev_hash": before} | ({"actor": "agent:somebody-else"} if number == changed else {})
        before = json_digest(record)
        found.append(json.dumps(record | {"hash": before}) + "\n")
    end = json.loads(exported[-1]) | {"hash": before}
    return [*found, json.dumps(end) + "\n"]


KINDS: tuple[Callable[[Bench, Odds], bytes], ...] = (
    bit_flipped,
    bit_flipped_in_the_directory,
    cut,
    lengthened,
    byte_removed_or_added,
    member_altered,
    member_removed,
    member_added,
    member_twice,
    spelled_otherwise,
    bomb,
    size_denied,
    evidence_altered_with_its_results,
    signed_again_by_a_stranger,
    signed_by_a_stranger_in_our_name,
    results_not_from_evidence,
    evidence_not_of_results,
    statement_of_another_kind,
    envelope_altered,
    audit_told_otherwise,
)


def refused(content: bytes, b: Bench) -> bool:
    """True when the bundle is called tampered; any other answer, an unexpected exception too, is none."""
    try:
        verify_bundle(content, b.key.public_key())
    except Tampered:
        return True
    return False


def torture(b: Bench, tampered: int, clean: int, seed: int = 7) -> tuple[Counter[str], list[str]]:
    """(how many of each kind were made, what went wrong)."""
    odds, made, wrong = Odds(seed), Counter[str](), []
    for number in range(tampered):
        kind = KINDS[number % len(KINDS)]
        content = kind(b, odds)
        if content == b.genuine:
            continue
        made[kind.__name__] += 1
        if not refused(content, b):
            wrong.append(f"accepted: {kind.__name__} (number {number})")
    for number in range(clean):
        key = Ed25519PrivateKey.generate()
        made["clean"] += 1
        try:
            verify_bundle(make_bundle(b.evidence, key, EVIDENCE).content, key.public_key())
        except HarnessError as error:
            wrong.append(f"refused: clean number {number}: {error}")
    return made, wrong


def main(argv: list[str]) -> int:
    """EVIDENCE [TAMPERED [CLEAN]]"""
    try:
        content = Path(argv[0]).read_bytes()
    except OSError as error:
        raise LoadError(f"the evidence cannot be read: {error.strerror}", where=argv[0], fix="name an evidence.jsonl") from error
    numbers = [int(word) for word in argv[1:3]] + [1_000, 100][len(argv[1:3]) :]
    made, wrong = torture(bench(content), *numbers)
    for kind, count in made.items():
        sys.stdout.write(f"{count:>6}  {kind}\n")
    sys.stdout.write("".join(f"WRONG {line}\n" for line in wrong) or f"{made.total()} bundles, none judged wrongly\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
