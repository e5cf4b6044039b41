"""MEM-1, with its approval given by clicking in a real browser; the verdict rests on the same three witnesses as ever."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser_tests.conftest import Watched

ROOT = Path(__file__).parents[1]
WAITING = re.compile(r"waiting for a person: (?P<console>\S+) tenant (?P<tenant>\S+) token (?P<token>\S+): approval \S+ is to be \w+")
Opened = Callable[..., Watched]


class Attended:
    """A harness run that waits for us."""

    def __init__(self, reports: Path) -> None:
        command = [sys.executable, "-u", "-m", "harness", "run", "MEM-1", "--protocol", "2025-11-25"]
        command += ["--target", "attended", "--reports-dir", str(reports)]
        self.reports = reports
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def waits(self) -> re.Match[str]:
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            if found := WAITING.search(line):
                return found
        raise AssertionError("the run ended without waiting for anybody: " + "".join(said))

    def sign_in(self, page: Page) -> None:
        waiting = self.waits()
        page.goto(waiting["console"])
        page.get_by_label("Tenant").fill(waiting["tenant"])
        page.get_by_label("Operator token").fill(waiting["token"])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Approvals").click()

    def verdict(self) -> tuple[int, dict[str, object]]:
        self.process.communicate(timeout=60)
        (path,) = [folder / "results.json" for folder in self.reports.iterdir() if folder.is_dir() and not folder.is_symlink()]
        (found,) = json.loads(path.read_text())["verdicts"]
        return self.process.returncode, found


@pytest.fixture
def attended(tmp_path: Path) -> Iterator[Attended]:
    made = Attended(tmp_path)
    yield made
    if made.process.poll() is None:
        made.process.terminate()
        made.process.communicate(timeout=30)


def test_a_person_approves_and_the_scenario_passes(attended: Attended, opened: Opened, shot: Callable[[Page, str], None]) -> None:
    page = opened().page
    attended.sign_in(page)
    shot(page, "attended-approval")
    page.get_by_role("button", name="Approve & run").click()
    expect(page.locator("tbody tr").first).to_contain_text("executed")
    code, verdict = attended.verdict()
    assert (code, verdict["outcome"], verdict["findings"]) == (0, "pass", [])
    assert any("approve by person: executed" in said for row in verdict["timeline"] for said in row["operator"])  # type: ignore[attr-defined]


def test_a_person_who_declines_makes_it_fail(attended: Attended, opened: Opened) -> None:
    page = opened().page
    attended.sign_in(page)
    page.get_by_label("Reason").fill("not today")
    page.get_by_role("button", name="Decline").click()
    expect(page.locator("tbody tr").first).to_contain_text("not today")
    code, verdict = attended.verdict()
    assert code == 1
    assert verdict["outcome"] in ("fail", "error")  # what comes after the declined step cannot be told
