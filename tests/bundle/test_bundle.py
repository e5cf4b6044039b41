"""Bundles: the same bytes again, verdicts recomputed, and whatever is altered is noticed."""

from __future__ import annotations

import base64
import json
import random
import stat
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import harness
from harness.bundle.archive import Tampered
from harness.bundle.content import ENVELOPE, MEMBERS, PREDICATE_TYPE, sha256
from harness.bundle.envelope import private_key
from harness.bundle.sealing import make_bundle, verify_bundle
from harness.cli.main import main
from harness.engine.evidence_log import parse_evidence
from harness.engine.judge import judge
from harness.errors import Exit, LoadError
from harness.report.results_json import document


@pytest.fixture
def keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["bundle", "keygen", "--output", str(tmp_path / "k")]) == 0
    capsys.readouterr()
    return tmp_path / "k"


def test_a_bundle_is_the_same_bytes_again_and_verifies(genuine: Any) -> None:
    assert make_bundle(genuine.evidence, genuine.key, "x").content == genuine.genuine
    found = verify_bundle(genuine.genuine, genuine.key.public_key())
    assert found.results == judge(parse_evidence(genuine.evidence, "x"))
    assert found.sha256 == sha256(genuine.genuine)


def test_it_holds_the_results_that_the_run_wrote(genuine: Any, real_run: Path) -> None:
    assert genuine.members["results.json"] == (real_run / "results.json").read_bytes()
    assert genuine.members["results.json"] == document(judge(parse_evidence(genuine.evidence, "x"))).encode()
    audit = json.loads(genuine.members["audit.json"])
    (item,) = audit["items"]
    assert item["item"].startswith("MEM-1[")
    assert item["records"] > 0
    assert item["hash"]
    assert item["vouched"]
    environment = json.loads(genuine.members["environment.json"])["runs"][0]
    assert environment["harness"] == harness.__version__
    assert environment["environment"]["python"]
    assert environment["environment"]["commit"]


def test_it_holds_the_gateways_signed_checkpoints(genuine: Any) -> None:
    (log,) = json.loads(genuine.members["audit.json"])["logs"]
    assert (log["target"], log["offered"], log["whole"], log["findings"]) == ("reference", True, True, [])
    first, last = log["checkpoints"][0], log["checkpoints"][-1]
    assert (first["seq"], last["seq"]) == (0, log["records"])
    for mark in (first, last):
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(log["key"]))
        signature = base64.b64decode(mark.pop("signature"))
        public.verify(signature, rfc8785.dumps(mark))  # not by our own canonical text: it is the gateway's signature, for anybody to check


def test_the_statement_is_in_toto_and_names_every_member(genuine: Any) -> None:
    envelope = json.loads(genuine.members[ENVELOPE])
    said = json.loads(base64.b64decode(envelope["payload"]))
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    assert said["_type"] == "https://in-toto.io/Statement/v1"
    assert said["predicateType"] == PREDICATE_TYPE == "https://in-toto.io/attestation/test-result/v0.1"
    assert {s["name"]: s["digest"]["sha256"] for s in said["subject"]} == {n: sha256(c) for n, c in genuine.members.items() if n != ENVELOPE}
    assert said["predicate"]["result"] == "PASSED"
    assert said["predicate"]["passedTests"] == ["MEM-1[fake,reference,2026-07-28]"]
    assert said["predicate"]["configuration"]


def test_the_short_torture(tool: ModuleType, genuine: Any) -> None:
    """Each kind of tampering four times; `make torture` makes a thousand."""
    made, wrong = tool.torture(genuine, 4 * len(tool.KINDS), 3, seed=11)
    assert wrong == []
    assert made["clean"] == 3
    assert {kind.__name__ for kind in tool.KINDS} <= set(made)


def test_no_bit_of_a_container_can_change(tool: ModuleType, genuine: Any) -> None:
    """Every bit of the directory, and of the first member's header."""
    directory = genuine.genuine.index(b"PK\x01\x02")
    spots = [*range(40), *range(directory, len(genuine.genuine), 3)]
    for at in spots:
        content = bytearray(genuine.genuine)
        content[at] ^= 1 << (at % 8)
        assert tool.refused(bytes(content), genuine), at


def test_no_bit_of_the_envelope_can_change(tool: ModuleType, genuine: Any) -> None:
    from harness.bundle.archive import pack

    envelope = genuine.members[ENVELOPE]
    odds = random.Random(3)
    for at in odds.sample(range(len(envelope)), 200):
        changed = envelope[:at] + bytes([envelope[at] ^ (1 << odds.randrange(8))]) + envelope[at + 1 :]
        assert tool.refused(pack({**genuine.members, ENVELOPE: changed}), genuine), at


def test_evidence_that_must_flip_a_verdict_does(genuine: Any) -> None:
    """Leave out what one witness said: the recomputed verdict is no pass, and the bundle of it says FAILED."""
    lines = genuine.evidence.splitlines(keepends=True)
    for words in (b'"kind":"provider_exchange"', b'"kind":"audit"', b'"kind":"client_exchange"', b'"event":"approval_resolved"'):
        rest = [line for line in lines if words not in line]
        assert len(rest) < len(lines)
        assert judge(parse_evidence(b"".join(rest), "x")).exit_code != 0, words


def altered(genuine: Any, change: Callable[[dict[str, Any]], None], kind: str = "audit_log") -> bytes:
    """A bundle with another first record of that kind, all else made anew and signed with the right key."""
    lines = [json.loads(line) for line in genuine.evidence.splitlines()]
    change(next(line for line in lines if line["kind"] == kind))
    return make_bundle("".join(json.dumps(line) + "\n" for line in lines).encode(), genuine.key, "x").content


@pytest.mark.parametrize(
    ("change", "kind", "name"),
    [
        (lambda r: r.update(export=r["export"].replace("scripted-agent", "somebody-else", 1)), "audit_log", "audit-record-altered"),
        (lambda r: r.update(export="".join(r["export"].splitlines(keepends=True)[1:])), "audit_log", "audit-sequence-broken"),
        (lambda r: r.update(export="".join(r["export"].splitlines(keepends=True)[:-1])), "audit_log", "audit-end-missing"),
        (lambda r: r.update(key=base64.b64encode(b"k" * 32).decode()), "audit_log", "audit-signature-stranger"),
        (lambda r: r.update(checkpoints=""), "audit_log", "audit-log-unreadable"),
        (lambda r: r.update(export="nothing\n"), "audit_log", "audit-log-unreadable"),
        (lambda r: r["record"].update(outcome="invented"), "audit", "audit-evidence-differs"),
        (lambda r: r["record"].update(seq=[9]), "audit", "audit-evidence-differs"),
    ],
)
def test_who_holds_the_key_still_cannot_change_what_the_gateway_signed(
    genuine: Any, change: Callable[[dict[str, Any]], None], kind: str, name: str
) -> None:
    with pytest.raises(Tampered, match=name):
        verify_bundle(altered(genuine, change, kind), genuine.key.public_key())


def test_a_record_that_is_left_out_of_the_evidence_is_missed(genuine: Any) -> None:
    lines = genuine.evidence.splitlines(keepends=True)
    lines.remove(next(line for line in lines if b'"kind":"audit"' in line))
    with pytest.raises(Tampered, match="audit-evidence-lacks"):
        verify_bundle(make_bundle(b"".join(lines), genuine.key, "x").content, genuine.key.public_key())


def test_a_gateway_that_signs_nothing_is_named_and_not_vouched_for(genuine: Any) -> None:
    """As a gateway without such a log is recorded; and evidence of a harness that did not ask yet."""
    content = altered(genuine, lambda r: r.update(offered=False, why_not="it exports none", key="", export="", checkpoints=""))
    found = verify_bundle(content, genuine.key.public_key())
    assert [*found.audit.lines()] == [
        "reference: no signed audit log, so its audit records rest on the gateway's word alone: it exports none",
        "no signed audit log vouches for the audit records of MEM-1[fake,reference,2026-07-28]",
    ]
    with pytest.raises(Tampered, match="no audit log of reference is signed"):
        verify_bundle(content, genuine.key.public_key(), base64.b64encode(b"k" * 32).decode())
    older = b"".join(line for line in genuine.evidence.splitlines(keepends=True) if b'"kind":"audit_log"' not in line)
    without = make_bundle(older, genuine.key, "x")
    assert verify_bundle(without.content, genuine.key.public_key()).audit.unvouched == ("MEM-1[fake,reference,2026-07-28]",)


def test_the_gateways_key_may_be_known_from_elsewhere(genuine: Any, keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever holds the signer's key could write a whole log anew, and sign it as a gateway of their own."""
    file = tmp_path / "b.zip"
    file.write_bytes(make_bundle(genuine.evidence, private_key(Path(f"{keys}.key")), "x").content)
    (log,) = json.loads(genuine.members["audit.json"])["logs"]
    words = ["bundle", "verify", str(file), "--key", f"{keys}.pub"]
    assert main([*words, "--gateway-key", log["key"]]) == 0
    assert "whole and unaltered" in capsys.readouterr().out
    assert main([*words, "--gateway-key", f"{keys}.pub"]) == Exit.FAILED
    assert "another gateway's key" in capsys.readouterr().err
    assert main([*words, "--gateway-key", "no key"]) == Exit.USAGE


def test_a_stranger_who_signs_consistently_is_a_tamperer(genuine: Any) -> None:
    again = make_bundle(genuine.evidence, genuine.stranger, "x").content
    assert verify_bundle(again, genuine.stranger.public_key())
    with pytest.raises(Tampered, match="another key"):
        verify_bundle(again, genuine.key.public_key())


def test_a_bundle_of_a_newer_version_is_not_called_tampered(genuine: Any) -> None:
    newer = genuine.evidence.replace(f'"harness_version":"{harness.__version__}"'.encode(), b'"harness_version":"99.0.0"')
    assert newer != genuine.evidence
    with pytest.raises(LoadError, match=r"the run is from harness 99\.0\.0"):
        make_bundle(newer, genuine.key, "x")


def test_the_command_line_from_keys_to_verdict(real_run: Path, keys: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.zip"
    private, public = f"{keys}.key", f"{keys}.pub"
    assert stat.S_IMODE(Path(private).stat().st_mode) == 0o600
    assert main(["bundle", str(real_run), "--key", private, "-o", str(file)]) == 0
    assert main(["bundle", "verify", str(file), "--key", public]) == 0
    said = capsys.readouterr().out
    assert "genuine" in said
    assert "Evidence level: fake" in said
    assert main(["bundle", str(real_run), "--key", private, "-o", str(file)]) == Exit.USAGE, "never written over"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    bad = tmp_path / "bad.zip"
    bad.write_bytes(content)
    capsys.readouterr()
    assert main(["bundle", "verify", str(bad), "--key", public]) == Exit.FAILED
    assert "fix: do not rely on it" in capsys.readouterr().err


def test_keys_are_never_written_over(keys: Path) -> None:
    before = Path(f"{keys}.key").read_bytes()
    assert main(["bundle", "keygen", "--output", str(keys)]) == Exit.USAGE
    assert Path(f"{keys}.key").read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        ["bundle"],
        ["bundle", "verify"],
        ["bundle", "a", "b"],
        ["bundle", "RUN"],
        ["bundle", "verify", "FILE"],
        ["bundle", "verify", "none.zip", "--key", "KEY.pub"],
        ["bundle", "verify", "none.zip", "--key", "KEY.key"],
        ["bundle", "none", "--key", "KEY.pub", "-o", "x.zip"],
        ["bundle", "none", "--key", "KEY.key", "-o", "x.zip"],
    ],
)
def test_a_bad_command_line_is_exit_2(words: list[str], keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(keys.parent)
    assert main([w.replace("KEY", str(keys)) for w in words]) == Exit.USAGE


def test_cut_short_is_incomplete_and_nothing_is_written(real_run: Path, keys: Path, tmp_path: Path) -> None:
    run = tmp_path / "cut"
    run.mkdir()
    whole = (real_run / "evidence.jsonl").read_bytes()
    (run / "evidence.jsonl").write_bytes(whole[:-20])
    assert main(["bundle", str(run), "--key", f"{keys}.key", "-o", str(tmp_path / "b.zip")]) == Exit.INCOMPLETE
    assert not (tmp_path / "b.zip").exists()
    assert (run / "evidence.jsonl").read_bytes() == whole[:-20]


def test_a_place_that_cannot_be_written_is_exit_2(real_run: Path, keys: Path) -> None:
    """/proc stands for a read-only mount: it refuses new files to everybody, root included."""
    assert main(["bundle", str(real_run), "--key", f"{keys}.key", "-o", "/proc/run.zip"]) == Exit.USAGE
    assert main(["bundle", "keygen", "-o", "/proc/k"]) == Exit.USAGE


def test_members_are_those_that_are_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "bundle.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in MEMBERS)
