"""Checkpoints: kept in time, by the gateway's own key alone, held against the log at the start, and no trouble of theirs stops anything."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reference_gateway.audit import AuditLog
from reference_gateway.checkpoints import EVERY, HELD, WITHIN_S, CheckpointError, Checkpoints
from reference_gateway.clock import TestClock
from reference_gateway.store.sqlite import SqliteStore

from .test_process import failed, operated, started


def key_in(folder: Path, name: str = "audit.key") -> str:
    file = folder / name
    file.write_bytes(secrets.token_bytes(32))
    file.chmod(0o600)
    return str(file)


@dataclass
class Place:
    """A store with its log, and the checkpoints beside it."""

    folder: Path
    clock: TestClock = field(default_factory=TestClock)

    def __post_init__(self) -> None:
        self.key = key_in(self.folder)
        self.file = self.folder / "marks"
        self.store = SqliteStore(self.folder / "gateway.db")
        self.store.open()

    def started(self, key: str | None = None, previous: tuple[str, ...] = ()) -> Checkpoints:
        """A gateway's checkpoints after its start, told of what is written from now on."""
        made = Checkpoints(self.store, self.clock, file=str(self.file), key_file=key or self.key, previous=previous)
        made.start()
        self.log = AuditLog(self.store, self.clock)
        self.log.written = made.noted
        return made

    def write(self, count: int) -> None:
        for _ in range(count):
            self.log.append(tenant="t", actor="a", event="policy_decision", outcome="success", decision="allow", reason="allow_default")

    def marks(self) -> list[int]:
        return [json.loads(line)["seq"] for line in self.file.read_text().splitlines()]

    def pass_time(self, seconds: float = WITHIN_S) -> None:
        asyncio.run(self.clock.advance(seconds))

    def rolled_back_to(self, copy: Path) -> None:
        self.store.close()
        for old in self.folder.glob("gateway.db*"):
            old.unlink()
        shutil.copy(copy, self.folder / "gateway.db")
        self.store = SqliteStore(self.folder / "gateway.db")
        self.store.open()

    def copied(self) -> Path:
        self.store.close()
        copy = Path(shutil.copy(self.folder / "gateway.db", self.folder / "copy"))
        self.store.open()
        return copy


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.store.close()


def refused(place: Place, **how: Any) -> CheckpointError:
    with pytest.raises(CheckpointError) as error:
        place.started(**how)
    return error.value


def test_a_record_is_marked_within_seconds_and_nothing_is_marked_twice(place: Place) -> None:
    place.started()
    place.write(3)
    assert place.marks() == [0]
    place.pass_time(WITHIN_S - 0.1)
    place.write(2)
    assert place.marks() == [0]
    place.pass_time(0.1)
    assert place.marks() == [0, 5]
    place.pass_time(3600)
    assert place.marks() == [0, 5]
    place.write(1)
    place.pass_time()
    assert place.marks() == [0, 5, 6]


def test_many_records_are_marked_before_their_time(place: Place) -> None:
    place.started()
    place.write(EVERY + 10)
    assert place.marks() == [0, EVERY]
    place.pass_time()
    assert place.marks() == [0, EVERY, EVERY + 10]


def test_a_rollback_between_two_marks_of_old_is_found_after_a_kill(place: Place) -> None:
    """210 records, no orderly end, and the store of 200 records earlier in its place."""
    place.started()
    place.write(10)
    copy = place.copied()
    place.write(200)
    place.pass_time()
    place.rolled_back_to(copy)
    assert refused(place).code == "audit_rolled_back"


def test_a_rewritten_log_is_found(place: Place) -> None:
    place.started()
    copy = place.copied()
    place.write(5)
    place.pass_time()
    place.rolled_back_to(copy)
    AuditLog(place.store, place.clock).append_many(
        [{"tenant": "t", "actor": "b", "event": "policy_decision", "outcome": "success", "decision": "allow", "reason": "allow_default"}] * 9
    )
    assert refused(place).code == "audit_rewritten"


def test_a_strangers_mark_is_forged_whatever_it_says(place: Place) -> None:
    place.started()
    place.write(5)
    stranger = Checkpoints(place.store, place.clock, file=None, key_file=None)
    place.file.write_text(json.dumps(stranger.made()) + "\n")
    error = refused(place)
    assert (error.code, "--audit-previous-key" in error.fix, str(place.file) in error.where) == ("checkpoint_forged", True, True)


@pytest.mark.parametrize("line", ["{}", "[]", "\x00", '{"kind":"checkpoint/v1","seq":1}', "[" * 3000])
def test_what_is_no_mark_is_forged(place: Place, line: str) -> None:
    place.started()
    with place.file.open("a") as out:
        out.write(line + "\n")
    assert refused(place).code == "checkpoint_forged"


def test_a_changed_key_is_one_that_the_operator_names(place: Place) -> None:
    earlier = place.started().public_key
    place.write(5)
    place.pass_time()
    other = key_in(place.folder, "other.key")
    assert refused(place, key=other).code == "checkpoint_forged"
    renewed = place.started(other, (earlier,))
    assert place.marks() == [0, 5, 5]
    assert json.loads(place.file.read_text().splitlines()[-1])["key"] == renewed.public_key
    place.started(other, (earlier,))
    assert place.marks() == [0, 5, 5]


@pytest.mark.parametrize("key", ["", "short", "ä", "AAAA"])
def test_what_is_no_public_key_is_refused(place: Place, key: str) -> None:
    error = refused(place, previous=(key,))
    assert (error.code, error.where) == ("checkpoints_unusable", "--audit-previous-key")


def test_checkpoints_without_a_kept_key_are_refused(place: Place) -> None:
    with pytest.raises(CheckpointError) as error:
        Checkpoints(place.store, place.clock, file=str(place.file), key_file=None)
    assert (error.value.code, error.value.where) == ("checkpoints_unusable", "--checkpoints")


def test_gateways_on_one_store_may_share_file_and_key(place: Place) -> None:
    """Each marks what it wrote itself; what either marked is held by whichever starts next."""
    place.started()
    one = place.log
    place.started()
    other = place.log
    for log in (one, other, one):
        place.log = log
        place.write(1)
        place.pass_time(WITHIN_S / 2)
    place.pass_time()
    assert place.marks()[0] == 0
    assert place.marks()[-1] == 3
    assert place.marks() == sorted(place.marks())
    place.started()


def test_half_a_mark_that_a_crash_left_is_passed_over_and_taken_away(place: Place) -> None:
    place.started()
    place.write(2)
    place.pass_time()
    whole = place.file.read_bytes()
    place.file.write_bytes(whole + whole[:40])
    place.started()
    place.write(1)
    place.pass_time()
    assert place.marks() == [0, 2, 3]
    place.started()


def test_a_file_of_many_marks_is_held_by_its_end(place: Place) -> None:
    """The start does not grow with the age of the file, and finds all the same what the newest marks tell."""
    place.started()
    place.write(1)
    place.pass_time()
    last = place.file.read_bytes().splitlines(keepends=True)[-1]
    place.file.write_bytes(b"not looked at any more\n" + last * (HELD // len(last) + 2))
    place.started()
    copy = place.copied()
    place.write(1)
    place.pass_time()
    place.rolled_back_to(copy)
    assert refused(place).code == "audit_rolled_back"


def test_a_store_that_is_gone_is_told_and_raises_nothing(place: Place) -> None:
    kept = place.started()
    place.write(1)
    place.store.close()
    kept.mark()
    assert kept.state.startswith("a checkpoint could not be kept: ")
    place.store.open()
    kept.mark()
    assert kept.state == "ok"
    assert place.marks() == [0, 1]


def test_a_file_that_takes_nothing_is_told_and_tried_again(place: Place) -> None:
    place.file = place.folder / "away" / "marks"
    kept = place.started()
    assert kept.state == "a checkpoint could not be kept: No such file or directory"
    place.write(EVERY * 2)
    place.pass_time()
    assert kept.state != "ok"
    place.file.parent.mkdir()
    place.pass_time()
    assert kept.state == "ok"
    assert place.marks() == [EVERY * 2]


def test_a_folder_in_the_place_of_the_file_is_named(place: Place) -> None:
    place.file.mkdir()
    assert refused(place).code == "checkpoints_unusable"


def test_a_part_of_the_log_ends_with_a_mark_of_its_own_end(place: Place) -> None:
    kept = place.started()
    place.write(7)
    part = [json.loads(line) for line in kept.export(2, 5)]
    assert [line["seq"] for line in part] == [3, 4, 5, 5]
    assert (part[-1]["kind"], part[-1]["hash"]) == ("checkpoint/v1", part[-2]["hash"])
    assert [json.loads(line)["seq"] for line in kept.export(5, 99)] == [6, 7, 7]
    assert [(line["seq"], line["hash"]) for line in map(json.loads, kept.export(0, 0))] == [(0, "0" * 64)]


def test_the_program_refuses_them_without_a_key_and_finds_a_rollback_after_a_kill(tmp_path: Path) -> None:
    marks, store, key = tmp_path / "marks", tmp_path / "gateway.db", key_in(tmp_path)
    assert "Give --audit-key-file too" in failed("--checkpoints", str(marks))
    assert "Give --checkpoints too" in failed("--audit-previous-key", "x")
    flags = ("--store", str(store), "--checkpoints", str(marks), "--audit-key-file", key, "--test-clock")
    assert "--audit-previous-key" in failed(*flags, "--audit-previous-key", "x")
    with started(*flags) as (child, ready), operated(ready) as operator:
        operator("POST", "/tenants", {"tenant": "one"})
        operator("POST", "/tenants/one/operators", {"operator": "ada", "role": "viewer"})
        assert operator.http.post("/shutdown").status_code == 202
        assert child.wait(10) == 0
    early = Path(shutil.copy(store, tmp_path / "copy"))
    with started(*flags) as (child, ready), operated(ready) as operator:
        operator("POST", "/tenants/one/operators", {"operator": "eve", "role": "viewer"})
        operator("POST", "/clock/advance", {"seconds": WITHIN_S})
        child.send_signal(signal.SIGKILL)
        child.wait(10)
    for old in tmp_path.glob("gateway.db*"):
        old.unlink()
    shutil.copy(early, store)
    assert "the log once had 2 records and has 1 now" in failed(*flags)
