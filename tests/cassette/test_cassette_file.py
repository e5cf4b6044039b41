"""The file: what is written is read again, and what was cut, edited, forged or recorded by somebody else is refused with its place."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cassette.format import BadCassette, Interaction
from harness.cassette.redact import Redactor
from harness.cassette.seal import Draft, seal
from harness.cassette.shelf import Shelf
from harness.cassette.store import cassette_path, parse_cassette, read_cassette, read_header, write_whole
from harness.errors import Incomplete, UsageError

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
VCR = """\
interactions:
- request: {method: POST, uri: http://127.0.0.1:9/mcp, body: null, headers: {}}
  response:
    status: {code: 200, message: OK}
    headers: {content-type: [application/octet-stream]}
    body:
      string: !!binary |
        iVBORw0KGgo=
version: 1
"""


def draft(**changed: Any) -> Draft:
    known: dict[str, Any] = {
        "provider": "p", "scenario": "S", "connection": "p", "recorder": "test", "recorded_at": "local", "now": NOW, "endpoint": "test",
        "path": "/mcp", "agent_protocol": "2025-11-25", "pin": "2025-11-25", "schema_level": "local", "memory_level": "fake", "inventory": "",
        "values": {"nonce": "n", "run.id": "r"}, "addresses": (), "hash_prose": False,
    }  # fmt: skip
    return Draft(**known | changed)


def one(answer: bytes = b'{"ok":true}', **changed: Any) -> Interaction:
    known: dict[str, Any] = {
        "method": "POST", "target": "/mcp", "request_headers": (("content-type", "application/json"),), "request_body": b'{"a":1}', "status": 200,
        "reason": "", "response_headers": (("content-type", "application/json"),), "response_body": answer,
    }  # fmt: skip
    return Interaction(**known | changed)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = cassette_path(tmp_path, "p", "S", "p")
    write_whole(found, seal(draft(), (one(), one(b"\x89PNG\r\n\x1a\n\xff\x00")), Redactor()))
    return found


BODIES = st.one_of(st.binary(max_size=80), st.text(max_size=80).map(lambda text: text.encode("utf-8", "surrogatepass")))


@settings(max_examples=60)
@given(st.lists(st.tuples(BODIES, BODIES, st.sampled_from(["answered", "left_open", "broken_off"])), min_size=1, max_size=3))
def test_any_bytes_come_back_as_they_were(made: list[tuple[bytes, bytes, Any]]) -> None:
    plain = (("content-type", "application/octet-stream"),)
    raw = tuple(
        one(answer, request_body=asked, outcome=how, request_headers=plain, response_headers=plain, gates=((0, 0),)) for asked, answer, how in made
    )
    found = parse_cassette(seal(draft(), raw, Redactor()).decode(), "x.yaml")
    assert [(i.request_body, i.response_body, i.outcome, i.gates) for i in found.interactions] == [(a, b, c, ((0, 0),)) for a, b, c in made]


def test_the_header_says_what_it_is_evidence_of_and_is_read_without_the_bodies(path: Path) -> None:
    header = read_header(path)
    assert (header.recorded_at, header.recorded_on, header.expires) == ("local", "2026-11-30T12:00:00Z", "2027-11-30")
    assert header.simulated_backend is True
    assert header.leg("schema") == "replayed"
    assert header.leg("memory") == "fake"
    assert header.redaction.hits == 0
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole.partition("interactions:")[0] + "interactions: [[[ broken", encoding="utf-8")
    assert read_header(path) == header
    with pytest.raises(BadCassette):
        read_cassette(path)


def test_a_shelf_reads_each_file_once(path: Path) -> None:
    shelf = Shelf()
    assert shelf.loaded == 0
    first = shelf.cassette(path)
    path.unlink()
    assert shelf.cassette(path) is first
    assert shelf.header(path) is first.header
    assert shelf.loaded == 1


def truncated(text: str) -> str:
    return text[: len(text) * 2 // 3]


def edited(text: str) -> str:
    return text.replace('{"ok":true}', '{"ok":false}')


def other_version(text: str) -> str:
    return text.replace("format: cassette/v1", "format: cassette/v9")


def vcr_of_tomorrow(text: str) -> str:
    return text.replace("\nversion: 1", "\nversion: 7")


def endless(text: str) -> str:
    return text.replace("\nversion: 1", "")


def aliased(text: str) -> str:
    return text.replace("interactions:\n", "interactions: &a\n").replace("version: 1", "cassettes: *a\nversion: 1")


def tagged(text: str) -> str:
    return text.replace("string: '{\"ok\":true}'", "string: !!python/object/apply:os.system [id]", 1)


def doubled(text: str) -> str:
    return text.replace("version: 1", "version: 1\nversion: 1")


def unknown_header(text: str) -> str:
    return text.replace("  provider: p", "  provider: p\n  colour: red")


def forged_proof(text: str) -> str:
    return text.replace("    hits: 0", "    hits: 1")


def no_header(text: str) -> str:
    return "interactions:" + text.partition("interactions:")[2]


def gate_to_nowhere(text: str) -> str:
    return text.replace("version: 1", "").rstrip() + "\n  tap: {gates: [[0, 9]]}\nversion: 1\n"


BAD = {
    truncated: "cassette", edited: "edited after it was recorded", other_version: "this version reads cassette/v1",
    vcr_of_tomorrow: "version 7 is not 1",
    endless: "the end of the file is missing", aliased: "anchors and aliases", tagged: "only !!binary is", doubled: "stands twice",
    unknown_header: "colour", forged_proof: "hits", no_header: "no header block", gate_to_nowhere: "waits for an interaction that is not there",
}  # fmt: skip


@pytest.mark.parametrize("change", BAD, ids=lambda change: change.__name__)
def test_a_bad_cassette_is_refused_with_its_place(path: Path, change: Any) -> None:
    text = path.read_text(encoding="utf-8")
    assert change(text) != text
    path.write_text(change(text), encoding="utf-8")
    with pytest.raises(BadCassette, match=BAD[change]) as raised:
        read_cassette(path)
    assert raised.value.exit_code == 5
    assert str(path) in raised.value.where
    assert raised.value.fix


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe\x00", b"null\n", b"[]\n", b"interactions: 3\nversion: 1\n", b"interactions: [4]\nversion: 1\n"])
def test_what_is_no_cassette_at_all(path: Path, raw: bytes) -> None:
    path.write_bytes(raw)
    for read in (read_cassette, read_header):
        with pytest.raises(BadCassette):
            read(path)


@settings(max_examples=80)
@given(st.data())
def test_damage_anywhere_is_refused_and_never_a_traceback(data: st.DataObject) -> None:
    text = DAMAGED
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.text(max_size=4)) + text[at + data.draw(st.integers(0, 30)) :]
    with contextlib.suppress(BadCassette):  # anything else is raised
        parse_cassette(changed, "x.yaml")


DAMAGED = seal(draft(), (one(), one(b"\x89PNG")), Redactor()).decode()


def test_d07_bytes_that_are_no_text_are_what_they_were() -> None:
    (found,) = parse_cassette(VCR, "x.yaml").interactions
    assert found.response_body == bytes.fromhex("89504e470d0a1a0a")
    assert found.request_body is None


def test_d07_the_same_tag_in_a_scenario_is_refused_with_its_place() -> None:
    from harness.errors import LoadError
    from harness.yaml_nodes import parse_yaml

    with pytest.raises(LoadError, match=r"s\.yaml:2:8: tags such as !!binary"):
        parse_yaml("scenario: S\ntitle: !!binary |\n  iVBORw0KGgo=\n", "s.yaml")


def test_d07_secrets_are_looked_for_in_the_decoded_bytes() -> None:
    from harness.cassette.seal import SecretLeft

    secret = "synthetic-secret-0123456789"
    redactor = Redactor()
    redactor.know({"p:key": secret})
    binary = one(b"\x89\xff" + secret.encode() + b"\x00\xfe", response_headers=(("content-type", "image/png"),))
    (found,) = parse_cassette(seal(draft(), (binary,), redactor).decode(), "x.yaml").interactions
    assert secret.encode() not in found.response_body
    assert b"[secret:p:key" in found.response_body
    with pytest.raises(SecretLeft):  # a place that the redactor does not clean is found all the same
        seal(draft(values={"nonce": secret}), (one(),), redactor)


D08 = """\
interactions:
- request:
    method: POST
    uri: http://127.0.0.1:9/mcp
    headers: {content-length: ['4926'], Cookie: [__cf_bm=SYNTH-COOKIE-CANARY; _cfuvid=SYNTH2]}
    parsed_body: {jsonrpc: '2.0', id: 1, method: tools/list}
  response:
    status: {code: 200, message: OK}
    headers: {content-length: ['773'], transfer-encoding: [chunked]}
    parsed_body: {jsonrpc: '2.0', id: 1, result: {tools: []}}
version: 1
"""


def test_d08_a_body_of_another_serializer_and_a_cookie_are_both_named() -> None:
    with pytest.raises(BadCassette) as raised:
        parse_cassette(D08, "theirs.yaml")
    error = raised.value
    assert error.exit_code == 5
    assert error.where == "theirs.yaml"
    assert error.problems == (
        "interaction 0 has no body; custom serializer field parsed_body",
        "interaction 0: a secret stands in the request header 'cookie'",
    )
    assert "CANARY" not in str(error) + repr(error.problems)


# ---- a provider that is not the same all the while


def greeting(*versions: str) -> tuple[Interaction, ...]:
    """A session for each version that the provider answers with."""
    asked = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}'
    answers = [json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": v, "serverInfo": {"name": "n", "version": v}}}) for v in versions]
    return tuple(one(answer.encode(), request_body=asked) for answer in answers)


def test_a_provider_that_changes_its_version_while_it_is_recorded_is_no_recording() -> None:
    with pytest.raises(Incomplete, match="changed its protocol version while it was recorded: 2025-11-25, then 2025-06-18") as raised:
        seal(draft(), greeting("2025-11-25", "2025-06-18"), Redactor())
    assert raised.value.exit_code == 5
    again = parse_cassette(seal(draft(), greeting("2025-06-18", "2025-06-18"), Redactor()).decode(), "x.yaml").header
    assert again is not None
    assert (again.protocol, again.server.version) == ("2025-06-18", "2025-06-18")


# ---- paths and disks


LEADING_OUT = [("../x", "S"), ("p", "../S"), ("p", "a/b"), ("", "S"), ("p", ".hidden"), ("p", "S\n"), ("p", "..")]


@pytest.mark.parametrize(("provider", "scenario"), LEADING_OUT)
def test_a_path_that_leaves_the_folder_is_refused(tmp_path: Path, provider: str, scenario: str) -> None:
    with pytest.raises(UsageError):
        cassette_path(tmp_path, provider, scenario, provider)


def test_a_link_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "cassettes").mkdir()
    (tmp_path / "cassettes" / "p").symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match="outside its folder"):
        cassette_path(tmp_path / "cassettes", "p", "S", "p")


def test_a_second_connection_of_one_provider_has_its_own_file(tmp_path: Path) -> None:
    assert cassette_path(tmp_path, "mem0", "S", "other").name == "S@other.yaml"


def test_a_full_disk_leaves_the_cassette_before_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left") as raised:
        write_whole(path, b"x" * 1000)
    assert raised.value.exit_code == 2
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


FULL = """\
import resource, signal, sys
from pathlib import Path
from harness.cassette.store import write_whole
from harness.errors import UsageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    write_whole(Path(sys.argv[1]), b"x" * 10_000)
except UsageError as error:
    sys.exit(f"{int(error.exit_code)} {error}")
"""


def test_a_write_that_the_system_cuts_short_leaves_the_cassette_before_as_it_was(path: Path) -> None:
    """No stand-in for the disk: the kernel takes the first 4096 bytes and refuses the rest."""
    before = path.read_bytes()
    ended = subprocess.run([sys.executable, "-c", FULL, str(path)], check=False, timeout=60, capture_output=True, text=True)
    assert ended.stderr.startswith(f"2 {path}: the cassette cannot be written: File too large")
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


KILLED = """\
import os, signal, sys
from pathlib import Path
from harness.cassette import store
store.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
store.write_whole(Path(sys.argv[1]), b"half a recording")
"""


def test_a_recording_that_is_killed_leaves_the_cassette_before_as_it_was(path: Path) -> None:
    before = path.read_bytes()
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    assert read_cassette(path).header is not None


def test_long_texts_stay_on_one_line_so_that_nothing_is_torn() -> None:
    text = "word " * 2000
    content = seal(draft(), (one(text.encode()),), Redactor()).decode()
    assert text.strip() in content
    assert yaml.safe_load(content)["interactions"][0]["response"]["body"]["string"] == text
