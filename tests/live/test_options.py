"""`.env`, rehearsals and the folder of sign-ins: what is wrong in them is said with its place, and no secret is ever shown."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from harness.errors import LoadError, UsageError
from harness.live.home import KEY, note_signed_in, prepare
from harness.live.marks import identities, is_own, run_of
from harness.live.options import LiveOptions, read_environment, read_rehearsal, signed_in


def test_env_lines_and_the_environment_wins(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("# a comment\nA=from-file\nexport B = 'quoted value' \n\nC=\"x=y\"\n", encoding="utf-8")
    found = read_environment(file, {"A": "from-environment"})
    assert dict(found) == {"A": "from-environment", "B": "quoted value", "C": "x=y"}
    assert "B" not in os.environ


def test_without_a_file_the_environment_is_all_there_is(tmp_path: Path) -> None:
    assert dict(read_environment(tmp_path / ".env", {"A": "1"})) == {"A": "1"}


def test_a_bad_line_is_named_by_its_place_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("A=1\nsk-a-secret-that-slipped\n", encoding="utf-8")
    with pytest.raises(LoadError) as caught:
        read_environment(file, {})
    assert caught.value.where == f"{file}:2:1"
    assert "slipped" not in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_an_unreadable_file_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / ".env"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(LoadError):
        read_environment(file, {})


def test_options_show_no_secret() -> None:
    assert "hunter-two" not in repr(LiveOptions(environment={"K": "hunter-two"}))


@pytest.mark.parametrize(
    "given",
    ["mem0", "mem0=", "=http://127.0.0.1:1", "mem0=https://127.0.0.1:1", "mem0=http://127.0.0.1", "mem0=http://192.0.2.1:80",
     "mem0=http://127.0.0.1:1/path?query", "mem0=http://127.0.0.1:99999", "mem0=http://localhost:80"],
)  # fmt: skip
def test_only_loopback_can_play_a_provider(given: str) -> None:
    with pytest.raises(UsageError):
        read_rehearsal([given])


def test_a_provider_is_played_once() -> None:
    assert dict(read_rehearsal(["mem0=http://127.0.0.1:1", "zep=http://127.0.0.1:2"])) == {"mem0": "http://127.0.0.1:1", "zep": "http://127.0.0.1:2"}
    with pytest.raises(UsageError):
        read_rehearsal(["mem0=http://127.0.0.1:1", "mem0=http://127.0.0.1:2"])


def test_the_home_is_private_and_its_key_is_never_replaced(tmp_path: Path) -> None:
    home = prepare(tmp_path / "home")
    key = (home / KEY).read_bytes()
    assert len(key) == 32
    assert stat.S_IMODE((home / KEY).stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    prepare(home)
    assert (home / KEY).read_bytes() == key
    assert sorted(p.name for p in home.iterdir()) == [KEY]


def test_who_is_signed_in_is_noted_without_a_secret(tmp_path: Path) -> None:
    home = prepare(tmp_path / "home")
    note_signed_in(home, "zep", "2026-12-01T00:00:00Z")
    note_signed_in(home, "supermemory", "2026-12-01T00:00:01Z")
    note_signed_in(home, "zep", None)
    assert dict(signed_in(home)) == {"supermemory": "2026-12-01T00:00:01Z"}


@pytest.mark.parametrize("content", ["[]", "{", '{"zep": 1}'])
def test_a_broken_note_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "signed-in.json").write_text(content, encoding="utf-8")
    with pytest.raises(LoadError):
        signed_in(tmp_path)


def test_a_home_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UsageError):
        prepare(tmp_path / "file" / "home")


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("harness-0123456789", True),
        ("harness_0123456789", True),
        ("harness-20261130T020000Z-1a2b3c-0123456789", True),
        ("harness-0123456789-more", False),
        ("my-harness-0123456789", False),
        ("harness-notes", False),
        ("harness-012345678", False),
        ("HARNESS-0123456789", False),
        ("", False),
        (None, False),
    ],
)
def test_whose_a_name_is(name: object, own: bool) -> None:
    assert is_own(name) is own


def test_a_name_tells_its_run() -> None:
    assert run_of("harness-20261130T020000Z-1a2b3c-0123456789") == "20261130T020000Z-1a2b3c"
    assert run_of("harness-0123456789") == ""


def test_of_a_mixed_answer_only_the_marked_items_ids_are_ours() -> None:
    answer = {"results": [{"id": "ours", "memory": "The 0123456789 keeper"}, {"id": "theirs", "memory": "Shopping list"}], "id": "page"}
    assert set(identities(answer, "0123456789")) == {"ours"}
