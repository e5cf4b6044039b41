"""What the gateway loosened for development stands in the first line of every report, each thing once."""

from __future__ import annotations

import pytest

from harness.engine.development import phrases
from harness.report.base import load_reports
from tests.engine.conftest import Runner


@pytest.mark.parametrize(
    ("health", "said"),
    [
        ({}, ()),
        ({"development": None, "clock": "test"}, ()),
        ({"development": {"allow_loopback": False, "mapped_hosts": []}, "clock": "system"}, ()),
        (
            {"development": {"allow_loopback": True, "mapped_hosts": ["a.example", "b.example"], "ports": [8443], "lab": True}, "clock": "test"},
            ("loopback addresses allowed", "a.example mapped", "b.example mapped", "port 8443 allowed", "names scripted", "test clock"),
        ),
    ],
)
def test_each_thing_that_was_loosened_is_a_phrase(health: dict[str, object], said: tuple[str, ...]) -> None:
    assert phrases(health) == said


def test_two_benches_with_different_hosts_name_each_once_in_every_report(run: Runner) -> None:
    """COGNEE-SLOW gets a bench of its own, on which time stands still and only Cognee's host is mapped."""
    results = run("MEM-2", "PAPR-2", "COGNEE-SLOW").results
    for words in ("loopback addresses allowed", "*.aws.cognee.ai mapped", "memory.papr.ai mapped", "test clock"):
        assert results.level_line.count(words) == 1, results.level_line
    for name in ("html", "markdown", "junit", "results_json"):
        text = b"".join(load_reports()[name].files(results).values()).decode()
        assert "loopback addresses allowed" in text, name
