"""What the plug-in collects, and that it costs nothing where there is nothing to collect."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., Path]


def test_inert_without_scenarios(tmp_path: Path) -> None:
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n", encoding="utf-8")
    (tmp_path / "data.yaml").write_text("scenario: not below a folder of that name\n", encoding="utf-8")
    code = (
        "import sys, pytest; status = pytest.main(['-p', 'no:cacheprovider', '-p', 'no:allure_pytest', '-p', 'no:anyio', '-q', '.']);"
        "print('LOADED', sorted(m for m in sys.modules if m.startswith('harness')), 'pydantic' in sys.modules); sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "LOADED ['harness', 'harness.pytest_plugin'] False" in done.stdout
    assert not (tmp_path / "reports").exists()


def test_one_item_for_each_protocol_version(pytester: pytest.Pytester, scenario: Write) -> None:
    scenario("LOOK")
    done = pytester.runpytest_inprocess("--collect-only", "-q", "scenarios", "--harness-protocol", "all")
    done.stdout.fnmatch_lines(
        [f"scenarios/memory/LOOK.yaml::LOOK[[]fake,reference,{version}]" for version in ("2025-06-18", "2025-11-25", "2026-07-28")]
    )
    assert not (pytester.path / "reports").exists(), "collecting writes nothing"


def test_where_scenarios_may_be(pytester: pytest.Pytester, scenario: Write) -> None:
    scenario("HERE")
    elsewhere = scenario("THERE", folder="data/memory")
    (pytester.path / "scenarios" / "notes.yaml").write_text("title: no scenario at all\n", encoding="utf-8")
    done = pytester.runpytest_inprocess("--collect-only", "-q")
    assert "HERE.yaml::HERE" in done.stdout.str()
    assert "THERE" not in done.stdout.str()
    assert "THERE.yaml::THERE" in pytester.runpytest_inprocess("--collect-only", "-q", str(elsewhere)).stdout.str()
    named = pytester.runpytest_inprocess("--collect-only", "-q", "-o", "harness_folders=data", "data")
    assert "THERE.yaml::THERE" in named.stdout.str()


def test_tags_are_marks_also_when_marks_are_strict(pytester: pytest.Pytester, scenario: Write) -> None:
    scenario("ONE", tag="quick")
    scenario("TWO", tag="late-2")
    done = pytester.runpytest_inprocess("--collect-only", "-q", "--strict-markers", "-m", "late-2")
    assert "TWO.yaml::TWO" in done.stdout.str()
    assert "ONE.yaml" not in done.stdout.str()
    done = pytester.runpytest_inprocess("--collect-only", "-q", "-k", "ONE and reference")
    assert "ONE.yaml::ONE" in done.stdout.str()
    assert "TWO.yaml" not in done.stdout.str()


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("audited:", "auditted:", "did you mean 'audited'"),
        ("mem0.search_memories", "mem1.search_memories", "mem1"),
        ("title:", "titel:", "did you mean 'title'"),
    ],
)
def test_an_invalid_file_stops_the_session(pytester: pytest.Pytester, scenario: Write, old: str, new: str, said: str) -> None:
    scenario("GOOD")
    bad = scenario("BAD")
    bad.write_text(bad.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    done = pytester.runpytest_inprocess("scenarios")
    assert done.ret == pytest.ExitCode.INTERRUPTED
    assert "BAD.yaml:" in done.stdout.str()
    assert said in done.stdout.str()
    assert "Traceback" not in done.stdout.str()
    assert not (pytester.path / "reports").exists(), "nothing was run"


def test_two_files_with_one_id_are_refused(pytester: pytest.Pytester, scenario: Write) -> None:
    scenario("SAME")
    scenario("SAME", folder="scenarios/other")
    done = pytester.runpytest_inprocess("scenarios")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert "rename one of them" in done.stderr.str()


def test_unknown_words_in_options(pytester: pytest.Pytester, scenario: Write) -> None:
    scenario("LOOK")
    for option, value, said in (
        ("--harness-level", "fakee", "did you mean 'fake'"),
        ("--harness-target", "referense", "did you mean 'reference'"),
        ("--harness-protocol", "2025", "2025-"),
    ):
        done = pytester.runpytest_inprocess("scenarios", option, value)
        assert done.ret != 0
        assert said in done.stdout.str()
