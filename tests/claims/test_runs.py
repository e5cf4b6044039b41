"""Runs that are cut short, mixed, too new, merged: each a clear answer with its code, and nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

import harness
from harness.claims.merge import merge, read_shard
from harness.claims.runs import read_run
from harness.cli.main import main
from harness.engine.evidence_log import parse_evidence
from harness.engine.judge import judge
from harness.errors import Exit, HarnessError, Incomplete, LoadError, UsageError

HERE = f'"harness_version":"{harness.__version__}"'.encode()


def altered(run: Path, folder: Path, old: bytes, new: bytes) -> Path:
    content = (run / "evidence.jsonl").read_bytes()
    assert old in content
    folder.mkdir(exist_ok=True)
    (folder / "evidence.jsonl").write_bytes(content.replace(old, new))
    return folder


def test_a_run_is_judged_again_from_its_evidence(shards: tuple[Path, Path]) -> None:
    found = read_run(shards[0])
    assert [v.outcome for v in found.results.verdicts] == ["pass"]
    assert read_run(shards[0] / "evidence.jsonl").results == found.results
    assert not found.broken


def test_broken_on_purpose_is_known(broken: Path) -> None:
    assert read_run(broken).broken


def test_a_newer_harness_is_named(shards: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"the run is from harness 9\.0\.0, this is") as caught:
        read_run(altered(shards[0], tmp_path / "a", HERE, b'"harness_version":"9.0.0"'))
    assert caught.value.where.endswith("evidence.jsonl:1")
    assert read_run(altered(shards[0], tmp_path / "b", HERE, b'"harness_version":"0.0.9"')).results.harness_version == "0.0.9"


def test_a_newer_format_is_named_before_its_fields(shards: tuple[Path, Path], tmp_path: Path) -> None:
    new = altered(shards[0], tmp_path / "a", b'"evidence/v1"', b'"evidence/v2","new_field":1')
    with pytest.raises(LoadError, match="the evidence has format evidence/v2; this version reads evidence/v1"):
        read_run(new)


def test_mixed_formats_are_named_with_their_lines(shards: tuple[Path, Path], tmp_path: Path) -> None:
    content = (shards[0] / "evidence.jsonl").read_bytes()
    (tmp_path / "evidence.jsonl").write_bytes(content + content.replace(b'"evidence/v1"', b'"evidence/v2"'))
    with pytest.raises(LoadError, match="mixes formats: evidence/v1 from line 1, evidence/v2 from line"):
        read_run(tmp_path)


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_torn_record_is_incomplete(shards: tuple[Path, Path], tmp_path: Path, cut: int) -> None:
    content = (shards[0] / "evidence.jsonl").read_bytes()[:-cut]
    (tmp_path / "evidence.jsonl").write_bytes(content)
    with pytest.raises(Incomplete, match="cut short"):
        read_run(tmp_path)
    assert (tmp_path / "evidence.jsonl").read_bytes() == content


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b"not json\n", b'{"kind":"run"\n', b"\xff\xfe\n", b'{"kind":"run","format":3}\n'])
def test_what_is_no_evidence_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "evidence.jsonl").write_bytes(content)
    with pytest.raises(HarnessError) as caught:
        read_run(tmp_path)
    assert caught.value.exit_code in (Exit.USAGE, Exit.INCOMPLETE)
    assert caught.value.where


def test_merging_keeps_every_record_and_both_verdicts(shards: tuple[Path, Path], tmp_path: Path) -> None:
    content = merge([read_shard(place) for place in shards])
    assert content == merge([read_shard(place) for place in shards]), "the same again"
    results = judge(parse_evidence(content, "x"))
    apart = [read_run(place).results for place in shards]
    assert results.verdicts == (*apart[0].verdicts, *apart[1].verdicts)
    assert (results.exit_code, results.run[:7]) == (0, "merged-")
    assert results.started_at == min(r.started_at for r in apart)
    for place in shards:
        for line in (place / "evidence.jsonl").read_bytes().splitlines():
            assert line in content or b'"kind":"run"' in line


def test_shards_of_one_run_keep_its_id(shards: tuple[Path, Path], tmp_path: Path) -> None:
    ids = [read_run(place).results.run.encode() for place in shards]
    same = altered(shards[1], tmp_path, ids[1], ids[0])
    assert judge(parse_evidence(merge([read_shard(shards[0]), read_shard(same)]), "x")).run == ids[0].decode()


def test_the_same_item_twice_is_refused(shards: tuple[Path, Path]) -> None:
    with pytest.raises(UsageError, match=r"MEM-1\[fake,reference,2026-07-28\] stands in"):
        merge([read_shard(shards[0]), read_shard(shards[0])])


def test_different_versions_are_refused(shards: tuple[Path, Path], tmp_path: Path) -> None:
    old = altered(shards[1], tmp_path, HERE, b'"harness_version":"0.0.9"')
    with pytest.raises(UsageError, match="different versions of the harness"):
        merge([read_shard(shards[0]), read_shard(old)])


def test_a_shard_that_did_not_end_leaves_the_whole_unfinished(shards: tuple[Path, Path], tmp_path: Path) -> None:
    lines = (shards[1] / "evidence.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "evidence.jsonl").write_bytes(b"".join(lines[:-1]))
    results = judge(parse_evidence(merge([read_shard(shards[0]), read_shard(tmp_path)]), "x"))
    assert results.exit_code == Exit.INCOMPLETE
    assert "the run did not come to its end" in results.exit_reasons


def test_a_broken_shard_breaks_the_whole(shards: tuple[Path, Path], broken: Path, tmp_path: Path) -> None:
    assert main(["merge", str(shards[0]), str(broken), "-o", str(tmp_path / "m"), "--report", "none"]) is not None
    assert read_run(tmp_path / "m").broken


def test_the_command_writes_a_run_and_never_over_one(shards: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["merge", *map(str, shards), "-o", str(tmp_path / "m")]
    assert main(words) == 0
    assert (tmp_path / "m" / "results.json").exists()
    before = (tmp_path / "m" / "evidence.jsonl").read_bytes()
    assert main(words) == Exit.USAGE
    assert (tmp_path / "m" / "evidence.jsonl").read_bytes() == before
    assert main(["merge", str(shards[0]), "-o", str(tmp_path / "n")]) == Exit.USAGE
    assert not (tmp_path / "n").exists()
    assert main(["merge", *map(str, shards), "-o", "/proc/m"]) == Exit.USAGE
