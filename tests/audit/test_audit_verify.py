"""`harness audit verify` on a gateway's own export: clean, tampered, rolled back, and bad input."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from harness.audit.read import Mark, parse_export, read_marks
from harness.audit.verify import verify as judged
from harness.cli.main import main
from tests.reference_gateway.conftest import Bench, Operator, gateway_served, provider_served
from torture.audit_tamper import WAYS
from torture.audit_tamper import run as torture

Verify = Callable[..., dict[str, Any]]


def twice(line: bytes, member: bytes, another: bytes) -> bytes:
    """The line with another member of the same name before the genuine one: whoever lets the last one count reads what was signed."""
    doubled = line.replace(member, another + member, 1)
    assert json.loads(doubled) == json.loads(line) != {}
    assert doubled != line
    return doubled


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("marks") / "checkpoints.jsonl"


@pytest.fixture(scope="module")
def operator(marks: Path) -> Iterator[Operator]:
    key = marks.with_name("audit.key")
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(32))
    with gateway_served(checkpoints=str(marks), audit_key_file=str(key)) as served:
        yield served


@pytest.fixture(scope="module")
def exported(operator: Operator) -> list[bytes]:
    """The log of a gateway that was used."""
    with provider_served() as provider:
        bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
        bench.connect()
        _, token = bench.run()
        for _ in range(3):
            bench.call(token, "get_echo", {"text": "käse"})
        bench.permit(get_echo="off")
        bench.call(token, "get_echo", {"text": "refused"})
    answer = operator.http.get("/audit/export")
    assert answer.status_code == 200
    return answer.content.splitlines(keepends=True)


@pytest.fixture
def verify(exported: list[bytes], operator: Operator, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verify:
    key = operator("GET", "/audit/key")["key"]

    def run(lines: list[bytes] | None = None, *more: str, key: str | None = key) -> dict[str, Any]:
        path = tmp_path / "audit.jsonl"
        path.write_bytes(b"".join(exported if lines is None else lines))
        code = main(["audit", "verify", str(path), "--json", *(("--key", key) if key else ()), *more])
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert found["exit_code"] == code
        return {"code": code, "ids": [finding["id"] for finding in found["findings"]], "records": found["records"]}

    return run


def test_a_gateways_own_export_is_whole(verify: Verify, marks: Path) -> None:
    assert verify() == {"code": 0, "ids": [], "records": verify()["records"]}
    assert verify()["records"] > 10
    assert verify(None, "--checkpoints", str(marks))["code"] == 0


def test_without_a_key_we_cannot_tell(verify: Verify) -> None:
    assert verify(key=None) == {"code": 5, "ids": ["audit-key-unknown"], "records": verify()["records"]}


def test_a_key_in_a_pem_file_is_taken(verify: Verify, operator: Operator, tmp_path: Path) -> None:
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(operator("GET", "/audit/key")["key"]))
    pem = tmp_path / "gateway.pem"
    pem.write_bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    assert verify(key=str(pem))["code"] == 0


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda lines: [lines[0].replace(b'"seq":1', b'"seq":1 ').replace(b"operator", b"operatur", 1), *lines[1:]], "audit-record-altered"),
        (lambda lines: [*lines[:3], *lines[4:]], "audit-sequence-broken"),
        (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], "audit-sequence-broken"),
        (lambda lines: lines[:-1], "audit-end-missing"),
        (lambda lines: [*lines[:-2], lines[-1]], "audit-end-differs"),
        (lambda lines: [*lines[:2], b"not json\n", *lines[2:]], "audit-line-unreadable"),
        (lambda lines: [*lines[:2], b"[" * 200_000 + b"\n", *lines[2:]], "audit-line-unreadable"),
        (lambda lines: [*lines[:-1], lines[-1].replace(b'"seq":', b'"seq":1')], "audit-signature-wrong"),
        (lambda lines: [twice(lines[0], b'"outcome":', b'"outcome":"denied",'), *lines[1:]], "audit-line-unreadable"),
        (lambda lines: [twice(lines[0], b'"details":{', b'"details":7,'), *lines[1:]], "audit-line-unreadable"),
        (lambda lines: [*lines[:-1], twice(lines[-1], b'"seq":', b'"seq":1,')], "audit-end-missing"),
    ],
)
def test_what_was_changed_is_named(verify: Verify, exported: list[bytes], change: Callable[[list[bytes]], list[bytes]], name: str) -> None:
    found = verify(change(exported))
    assert found["code"] == 1
    assert name in found["ids"]


def test_a_long_record_is_a_record(operator: Operator, verify: Verify) -> None:
    """What an operator may send in one request (1 MiB), escaped: 1,000 names of 200 characters beyond the basic plane."""
    with provider_served() as provider:
        bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
        bench.connect(grant={"kind": "organization"})
        audience = [f"{number:04}" + "\U00020000" * 196 for number in range(1000)]
        body = json.dumps({"audience": audience}, ensure_ascii=False).encode()
        assert operator.http.put(f"/tenants/{bench.tenant}/connections/notes/audience", content=body).status_code == 200
    log = export(operator)
    assert max(map(len, log)) > 2_000_000
    assert verify(log)["code"] == 0


def test_another_gateways_signature_is_a_strangers(verify: Verify) -> None:
    assert verify(key=base64.b64encode(b"\x01" * 32).decode())["ids"] == ["audit-signature-stranger"]


def test_an_earlier_export_is_a_rollback_beside_its_checkpoints(verify: Verify, operator: Operator, marks: Path) -> None:
    with provider_served() as provider:
        bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
        bench.connect()
    earlier = operator.http.get("/audit/export").content.splitlines(keepends=True)
    tools = [tool.name for tool in provider.tools]
    for number in range(300 // len(tools) + 1):  # a record for each tool, more than lie between two marks
        bench.permit(**dict.fromkeys(tools, ("ask_first", "allowed")[number % 2]))
    assert verify(earlier)["code"] == 0
    found = verify(earlier, "--checkpoints", str(marks))
    assert (found["code"], set(found["ids"])) == (1, {"audit-rolled-back"})
    assert verify(operator.http.get("/audit/export").content.splitlines(keepends=True), "--checkpoints", str(marks))["code"] == 0


def test_the_rest_after_a_checkpoint_is_checked_by_that_checkpoint(exported: list[bytes], operator: Operator, marks: Path) -> None:
    begun = read_marks(marks)[0]
    assert begun.seq == 0
    whole = operator.http.get("/audit/export").content
    third = json.loads(whole.splitlines()[2])
    mark = Mark(third["seq"], third["hash"], begun.key, 1, True)
    rest = parse_export(operator.http.get("/audit/export", params={"after": "3"}).content, "rest")
    assert [record["seq"] for _, record in rest.records][:2] == [4, 5]
    assert judged(rest, "rest", key=begun.key, begun=mark) == ()
    assert [found.id for found in judged(rest, "rest", key=begun.key, begun=replace(mark, hash="0" * 64))] == ["audit-chain-broken"]
    assert operator.http.get("/audit/export", params={"after": "x"}).status_code == 422
    (end,) = operator.http.get("/audit/export", params={"after": "999999"}).content.splitlines()
    assert json.loads(end)["kind"] == "checkpoint/v1"


def export(operator: Operator, **query: Any) -> list[bytes]:
    answer = operator.http.get("/audit/export", params=query)
    assert answer.status_code == 200
    return answer.content.splitlines(keepends=True)


def test_a_log_is_exported_and_verified_in_parts(verify: Verify, operator: Operator, marks: Path, tmp_path: Path) -> None:
    first, second = export(operator, until=4), export(operator, after=4)
    part = tmp_path / "part1.jsonl"
    part.write_bytes(b"".join(first))
    assert verify(first) == {"code": 0, "ids": [], "records": 4}
    assert verify(first, "--after", "0")["code"] == 0
    assert verify(second, "--after", str(part)) == {"code": 0, "ids": [], "records": len(second) - 1}
    assert verify(second, "--after", str(part), "--checkpoints", str(marks))["code"] == 0
    assert verify(second)["ids"][0] == "audit-sequence-broken"
    assert verify(second[1:], "--after", str(part))["ids"] == ["audit-sequence-broken"]
    assert verify(export(operator, after=3), "--after", str(part))["ids"] == ["audit-sequence-broken"]


def test_a_part_follows_from_a_checkpoint_that_was_kept(verify: Verify, operator: Operator, marks: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.jsonl"
    mark = export(operator, after=3, until=3)
    kept.write_bytes(marks.read_bytes() + b"".join(mark))
    rest = export(operator, after=3)
    assert verify(rest, "--after", "3", "--checkpoints", str(kept))["code"] == 0
    other = json.loads(mark[0])
    kept.write_bytes(json.dumps({**other, "hash": "0" * 64}).encode() + b"\n")
    assert set(verify(rest, "--after", "3", "--checkpoints", str(kept))["ids"]) == {"audit-chain-broken", "audit-signature-wrong"}
    assert set(verify(rest, "--after", str(kept))["ids"]) == {"audit-chain-broken", "audit-signature-wrong"}


@pytest.mark.parametrize(
    ("after", "words"), [("3", "no checkpoint of record 3"), ("gone", "cannot be read"), ("KEPT", "does not end with a checkpoint")]
)
def test_a_beginning_that_nobody_knows_is_a_usage_error(
    exported: list[bytes], tmp_path: Path, after: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, kept = tmp_path / "audit.jsonl", tmp_path / "kept"
    path.write_bytes(b"".join(exported))
    kept.write_bytes(exported[0])
    assert main(["audit", "verify", str(path), "--after", str(kept) if after == "KEPT" else after]) == 2
    assert words in capsys.readouterr().err


def test_marks_of_an_earlier_key_count_when_it_is_named(verify: Verify, operator: Operator, marks: Path) -> None:
    key = operator("GET", "/audit/key")["key"]
    other = base64.b64encode(Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()
    log = export(operator)
    assert set(verify(log, "--checkpoints", str(marks), key=other)["ids"]) == {"audit-signature-stranger"}
    assert verify(log, "--checkpoints", str(marks), "--previous-key", key, key=other)["code"] == 0


@pytest.mark.parametrize(("content", "words"), [(b"", "no audit record"), (b"\x00\xff", "no audit record"), (None, "cannot be read")])
def test_what_is_no_export_is_a_usage_error(tmp_path: Path, content: bytes | None, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "audit.jsonl"
    if content is not None:
        path.write_bytes(content)
    assert main(["audit", "verify", str(path)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("key", ["", "short", "!!", base64.b64encode(b"x" * 31).decode()])
def test_what_is_no_key_is_a_usage_error(tmp_path: Path, exported: list[bytes], key: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"".join(exported))
    assert main(["audit", "verify", str(path), "--key", key]) == 2
    assert "not an Ed25519 public key" in capsys.readouterr().err


def test_the_short_torture_holds() -> None:
    assert len(WAYS) == 13
    assert [(each.held, each.notes) for each in torture("short")] == [(True, ()), (True, ())]
