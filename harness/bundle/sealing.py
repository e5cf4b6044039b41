"""Making a bundle, and telling whether one is what was made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

import harness
from harness.bundle.archive import LIMIT, pack, tampered, unpack
from harness.bundle.audit_logs import AuditLogs
from harness.bundle.content import DERIVED, ENVELOPE, EVIDENCE, MEMBERS, derived, sha256, statement
from harness.bundle.envelope import key_id, opened, seal
from harness.claims.runs import check_format
from harness.engine.evidence_log import parse_evidence
from harness.errors import HarnessError, LoadError, UsageError
from harness.model.evidence import EvidenceRecord, RunRecord
from harness.model.verdict import Results


@dataclass(frozen=True, slots=True)
class Verified:
    """A bundle that holds. `signer` is the key's id, `sha256` that of the whole file, `audit` what vouches for its audit records."""

    results: Results
    audit: AuditLogs
    signer: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Sealed:
    """A bundle's bytes, and what vouches for the audit records in it: a gateway whose log does not hold is evidence too."""

    content: bytes
    audit: AuditLogs


def make_bundle(evidence: bytes, key: Ed25519PrivateKey, where: str) -> Sealed:
    """Raises LoadError or Incomplete for evidence that cannot be judged whole."""
    check_format(evidence, where)
    results, logs, members = derived(parse_evidence(evidence, where))
    members[EVIDENCE] = evidence
    return Sealed(pack({**members, ENVELOPE: seal(statement(results, members), key)}), logs)


def verify_bundle(content: bytes, key: Ed25519PublicKey, gateway: str | None = None) -> Verified:
    """Checks container, signature and hashes, judges the evidence again, and compares everything byte for byte; then the gateway's own signatures.

    `gateway`: the public key, base64, that its audit logs must be signed with; None: the one that the run was told when it began.
    Raises Tampered (1), or LoadError (2) for a sound bundle that a newer harness made.
    """
    members = unpack(content, MEMBERS)
    signed = opened(members.pop(ENVELOPE), key)
    _hashes(signed, members)
    evidence = members[EVIDENCE]
    try:
        check_format(evidence, EVIDENCE)
        records = parse_evidence(evidence, EVIDENCE)
        results, logs, again = derived(records)
    except LoadError as error:
        if "newer" in error.fix:
            raise
        raise tampered(f"its evidence cannot be judged: {error}") from error
    except HarnessError as error:
        raise tampered(f"its evidence cannot be judged: {error}") from error
    for name in DERIVED:
        if again[name] != members[name]:
            raise tampered(f"{name} is not what follows from the evidence{_other_version(records)}")
    if statement(results, members) != signed:
        raise tampered(f"its statement is not what follows from the evidence{_other_version(records)}")
    _vouched(logs, gateway)
    return Verified(results, logs, key_id(key), sha256(content))


def _vouched(logs: AuditLogs, gateway: str | None) -> None:
    """Hashes and the signer's key may fit all the same: who holds that key is not the gateway."""
    if found := logs.findings:
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise tampered(f"its audit log is not what the gateway signed: {found[0].where}: {found[0].message} ({found[0].id}){more}")
    for log in logs.logs if gateway is not None else ():
        if not log.kept:
            raise tampered(f"no audit log of {log.record.target} is signed by the gateway's key that was given: {log.record.why_not}")
        if log.record.key != gateway:
            raise tampered(f"the audit log of {log.record.target} is signed by another gateway's key ({log.record.key})")
    if gateway is not None and logs.unvouched:
        raise tampered(f"no signed audit log vouches for the audit records of {logs.unvouched[0]}")


def read_bundle(path: Path) -> bytes:
    """Raises LoadError when it cannot be read, Tampered when it is larger than any bundle."""
    try:
        if path.stat().st_size > LIMIT:
            raise tampered(f"it has more than {LIMIT} bytes")
        return path.read_bytes()
    except OSError as error:
        raise LoadError(f"the bundle cannot be read: {error.strerror}", where=str(path), fix="name the file that `harness bundle` wrote") from error


def refuse_overwriting(path: Path) -> None:
    """Evidence is never written over."""
    if path.exists():
        raise UsageError("this file exists, and evidence is never written over", where=str(path), fix="name another --output")


def _hashes(signed: bytes, members: dict[str, bytes]) -> None:
    try:
        subject = {entry["name"]: entry["digest"]["sha256"] for entry in json.loads(signed)["subject"]}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise tampered("its statement is no in-toto statement") from error
    for name, content in members.items():
        if subject.get(name) != sha256(content):
            raise tampered(f"{name} is not the file that was signed")


def _other_version(records: list[EvidenceRecord]) -> str:
    """A hint, never an excuse: an older harness may have judged otherwise."""
    versions = {r.harness_version for r in records if isinstance(r, RunRecord) and r.phase == "start"} - {harness.__version__}
    return f" (it was made by harness {', '.join(sorted(versions))}; verify it with that version too)" if versions else ""
