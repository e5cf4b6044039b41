"""Scenarios as pytest items: the same verdicts, one report, alone and on two workers, and when a worker dies (public case e06)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from harness.bundle.audit_logs import audit_logs
from harness.engine.evidence_log import read_evidence

Write = Callable[..., Path]

KILLER = '''
"""Ends its own worker, once, as soon as the scenario KILLED has an agent's call in its evidence and is not over."""
import os, signal, threading
from pathlib import Path

current = []
stop = threading.Event()

def pytest_runtest_logstart(nodeid):
    current[:] = [nodeid]

def pytest_configure(config):
    if hasattr(config, "workerinput"):
        threading.Thread(target=watch, daemon=True).start()

def pytest_unconfigure(config):
    stop.set()

def watch():
    while not stop.wait(0.002):
        if not current or "KILLED[" not in current[0]:
            continue
        for path in Path("reports").glob("*/items/*KILLED*.jsonl"):
            if '"kind":"client_exchange"' in path.read_text() and not Path("killed").exists():
                Path("killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
'''


def results_of(pytester: pytest.Pytester) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((pytester.path / "reports" / "latest" / "results.json").read_text(encoding="utf-8"))
    return data


def outcomes(data: dict[str, Any]) -> dict[str, str]:
    return {verdict["scenario"]: verdict["outcome"] for verdict in data["verdicts"]}


def cases_of(path: Path) -> dict[str, str]:
    """Name → pass, failure, error or skipped, from a JUnit file; fails on a name that stands twice."""
    found: dict[str, str] = {}
    for case in ET.parse(path).iter("testcase"):
        name = str(case.get("name")).split("[")[0]
        assert name not in found
        found[name] = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "pass")
    return found


def test_verdicts_reports_and_counts_agree(pytester: pytest.Pytester, scenario: Write) -> None:
    scenario("GOOD")
    scenario("BAD", outcome="denied")
    scenario("BLIND")
    elsewhere = scenario("AWAY")
    elsewhere.write_text(elsewhere.read_text(encoding="utf-8") + "when: {level: live}\n", encoding="utf-8")
    done = pytester.runpytest_inprocess("scenarios", "--junitxml=junit.xml", "--alluredir=allure", "-p", "no:cacheprovider")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.assert_outcomes(passed=2, failed=1, skipped=1)
    data = results_of(pytester)
    assert outcomes(data) == {"GOOD": "pass", "BAD": "fail", "BLIND": "pass", "AWAY": "not_applicable"}
    assert cases_of(pytester.path / "junit.xml") == {"GOOD": "pass", "BAD": "failure", "BLIND": "pass", "AWAY": "skipped"}
    assert cases_of(pytester.path / "reports" / "latest" / "junit.xml") == cases_of(pytester.path / "junit.xml")
    said = done.stdout.str()
    assert "Evidence level: fake" in said
    assert "scenarios/memory/BAD.yaml:" in said
    assert "Traceback" not in said
    allure = {path.name: json.loads(path.read_text()) for path in (pytester.path / "allure").glob("*-result.json")}
    assert sorted(result["status"] for result in allure.values()) == ["failed", "passed", "passed", "skipped"]
    runs = [path for path in (pytester.path / "reports").iterdir() if path.is_dir() and not path.is_symlink()]
    assert len(runs) == 1
    assert not (runs[0] / "items").exists(), "the parts became one evidence file"
    audit = audit_logs(read_evidence(runs[0] / "evidence.jsonl"))
    assert [log.kept for log in audit.logs] == [True], "one bench, one signed log"
    assert (audit.findings, audit.unvouched) == ((), ())


def test_what_cannot_be_had_is_pytests_error(pytester: pytest.Pytester, scenario: Write) -> None:
    scenario("LOOK")
    done = pytester.runpytest_inprocess("scenarios", "--harness-level", "live", "--junitxml=junit.xml", "-p", "no:cacheprovider")
    done.assert_outcomes(errors=1)
    assert cases_of(pytester.path / "junit.xml") == {"LOOK": "error"}
    assert outcomes(results_of(pytester)) == {"LOOK": "error"}
    assert "credentials-missing" in done.stdout.str()


def test_reports_that_cannot_be_written_are_never_success(pytester: pytest.Pytester, scenario: Write) -> None:
    scenario("LOOK")
    (pytester.path / "reports").mkdir()
    (pytester.path / "reports" / "latest").mkdir()
    done = pytester.runpytest_inprocess("scenarios", "-p", "no:cacheprovider")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert "real folder" in done.stdout.str()
    (pytester.path / "file").write_text("in the way")
    done = pytester.runpytest_inprocess("scenarios", "--harness-reports", "file/reports", "-p", "no:cacheprovider")
    assert done.ret != 0
    assert "cannot be kept" in done.stdout.str()


@pytest.mark.timeout(420)
@pytest.mark.parametrize("how", ["load", "loadfile"])
def test_a_killed_worker_leaves_one_result_and_nothing_is_run_twice(
    pytester: pytest.Pytester, scenario: Write, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    for name in ("FIRST", "KILLED", "THIRD"):
        scenario(name)
    pytester.makeconftest(KILLER)
    # Four interpreters start; what else is installed beside pytest (hypothesis alone is a third of their start) is not what is tried.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    plugins = [word for name in ("harness.pytest_plugin", "xdist", "allure_pytest.plugin") for word in ("-p", name)]
    done = pytester.runpytest_subprocess(
        "scenarios", *plugins, "-n", "2", "--dist", how, "--junitxml=junit.xml", "--alluredir=allure", "-p", "no:cacheprovider"
    )
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    assert (pytester.path / "killed").exists()
    data = results_of(pytester)
    assert outcomes(data) == {"FIRST": "pass", "KILLED": "error", "THIRD": "pass"}
    assert len(data["verdicts"]) == 3
    killed = next(verdict for verdict in data["verdicts"] if verdict["scenario"] == "KILLED")
    assert any("crashed while this scenario ran" in finding["message"] for finding in killed["findings"])
    assert not any(claim["proven"] for claim in killed["claims"])
    for junit in (pytester.path / "junit.xml", pytester.path / "reports" / "latest" / "junit.xml"):
        assert cases_of(junit) == {"FIRST": "pass", "KILLED": "error", "THIRD": "pass"}
    allure = [json.loads(path.read_text()) for path in (pytester.path / "allure").glob("*-result.json")]
    assert sorted((result["name"].split("[")[0], result["status"]) for result in allure) == [
        ("FIRST", "passed"),
        ("KILLED", "broken"),
        ("THIRD", "passed"),
    ]
    evidence = [json.loads(line) for line in (pytester.path / "reports" / "latest" / "evidence.jsonl").read_text().splitlines()]
    calls = [r for r in evidence if r["kind"] == "client_exchange" and r["item"].startswith("KILLED") and r["method"] == "tools/call"]
    assert len(calls) == 1, "the first attempt is kept, and there was no second"
    assert len({record["run"] for record in evidence if record["kind"] == "run"}) == 1
