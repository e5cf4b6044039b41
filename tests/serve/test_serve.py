"""`harness serve` as a browser meets it: read-only, for one Host, and nothing but reports."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

RUN = "20261130T000000Z-abc123"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    run = folder / RUN
    run.mkdir()
    totals = {"pass": 2, "fail": 1}
    summary = {"level_line": "Evidence level: fake <b>", "started_at": "2026-11-30T00:00:00Z", "exit_code": 1, "totals": totals}
    (run / "results.json").write_text(json.dumps(summary), encoding="utf-8")
    (run / "report.html").write_text("<!doctype html><title>a run</title>", encoding="utf-8")
    (run / "gateway.log").write_text("not ours to show", encoding="utf-8")
    broken = folder / "20261129T000000Z-broken"
    broken.mkdir()
    (broken / "results.json").write_text("[" * 100_000, encoding="utf-8")
    outside = tmp_path_factory.mktemp("outside")
    (outside / "report.html").write_text("elsewhere", encoding="utf-8")
    (folder / "20261128T000000Z-link00").symlink_to(outside)
    linked = folder / "20261127T000000Z-file00"
    linked.mkdir()
    (linked / "report.html").symlink_to(outside / "report.html")
    return folder


@pytest.fixture(scope="module")
def address(reports: Path) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "serve", str(reports)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line.startswith("http://127.0.0.1:"), line
    yield line
    # A job in the background may have inherited an ignored SIGINT; SIGTERM is never ignored.
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=address, trust_env=False, timeout=30) as client:
        yield client


def test_lists_runs_newest_first_with_their_answer(client: httpx2.Client) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert page.text.index(RUN) < page.text.index("20261129T000000Z-broken")
    assert "not accepted (1)" in page.text
    assert "2 pass, 1 fail" in page.text
    assert "results.json cannot be read" in page.text
    assert "&lt;b&gt;" in page.text
    assert "20261128T000000Z-link00" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_shows_the_files_of_a_run_and_no_others(client: httpx2.Client) -> None:
    assert client.get(f"/runs/{RUN}/report.html").text.endswith("<title>a run</title>")
    data = client.get(f"/runs/{RUN}/results.json")
    assert data.json()["exit_code"] == 1
    assert data.headers["content-security-policy"] == "default-src 'none'; sandbox"
    for path in (
        f"/runs/{RUN}/gateway.log",
        "/runs/20261128T000000Z-link00/report.html",
        "/runs/20261127T000000Z-file00/report.html",
        f"/runs/..%2f..%2f{RUN}/report.html",
        "/runs/..%2fetc/passwd",
        f"/runs/{RUN}%00/report.html",
        "/runs/none/report.html",
    ):
        assert client.get(path).status_code == 404, path


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(client: httpx2.Client, method: str) -> None:
    assert client.request(method, "/").status_code == 405


@pytest.mark.parametrize(
    "headers",
    [{"host": "attacker.example"}, {"host": "127.0.0.1"}, {"origin": "http://attacker.example"}, {"origin": "null"}],
)
def test_another_host_or_origin_is_refused(client: httpx2.Client, headers: dict[str, str]) -> None:
    answer = client.get("/", headers=headers)
    assert answer.status_code == 403
    assert RUN not in answer.text


def test_without_a_history_the_page_says_how_to_get_one(client: httpx2.Client) -> None:
    page = client.get("/history")
    assert page.status_code == 200
    assert "there is no history yet" in page.text


def test_what_is_no_folder_or_no_port_is_a_usage_error(tmp_path: Path, address: str) -> None:
    taken = address.rstrip("/").rpartition(":")[2]
    for arguments, words in ((["nowhere"], "not a folder"), ([str(tmp_path), "--port", taken], "cannot listen")):
        ended = subprocess.run(
            [sys.executable, "-m", "harness", "serve", *arguments], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
        )
        assert (ended.returncode, ended.stdout) == (2, "")
        assert words in ended.stderr
