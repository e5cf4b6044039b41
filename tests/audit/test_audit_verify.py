"""`harness audit verify` on a gateway's own export: clean, tampered, rolled back, and bad input."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from harness.audit.read import Mark, parse_export, read_marks
from harness.audit.verify import verify as judged
from harness.cli.main import main
from tests.reference_gateway.conftest import Bench, Operator, gateway_served, provider_served
from torture.audit_tamper import WAYS
from torture.audit_tamper import run as torture

Verify = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def marks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("marks") / "checkpoints.jsonl"


@pytest.fixture(scope="module")
def operator(marks: Path) -> Iterator[Operator]:
    with gateway_served(checkpoints=str(marks)) as served:
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
    ],
)
def test_what_was_changed_is_named(verify: Verify, exported: list[bytes], change: Callable[[list[bytes]], list[bytes]], name: str) -> None:
    found = verify(change(exported))
    assert found["code"] == 1
    assert name in found["ids"]


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


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "no audit record"), (b"\x00\xff", "no audit record"), (None, "cannot be read")]
)
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
    assert len(WAYS) == 12
    assert [(each.held, each.notes) for each in torture("short")] == [(True, ()), (True, ())]
