"""`sandboxed` and `relayed`: a good report holds under every word, and each single fact that is otherwise is found under its word."""

from __future__ import annotations

from typing import Any

import pytest

from harness.expect.base import Place
from harness.expect.relayed import KIND as RELAYED
from harness.expect.relayed import Params as RelayedParams
from harness.expect.sandbox_scene import GONE, PLACE, changed
from harness.expect.sandboxed import CHECKS, KIND, Params
from harness.expect.scene import ITEM, Scene
from harness.model.evidence import ControlRecord
from harness.model.finding import Finding

HERE = Place(expectation="e", step="", where="f.yaml:1:1")
WRONG: list[tuple[str, str, Any, str]] = [
    ("isolated", "probe.inside.key_file", "read", "fail"),
    ("isolated", "probe.inside.socket", "connected", "fail"),
    ("isolated", "probe.inside.abstract", "connected", "fail"),
    ("isolated", "probe.inside.environment.planted", True, "fail"),
    ("isolated", "probe.inside.memory.found", ["planted"], "fail"),
    ("isolated", "probe.inside.processes", [1, 2, 77], "fail"),
    ("isolated", "probe.inside.mounts", ["/ ext4"], "fail"),
    ("isolated", "probe.inside.files.special", ["/run/docker.sock"], "fail"),
    ("isolated", "probe.outside.key_file", "FileNotFoundError", "error"),
    ("isolated", "probe.outside.socket", "No such file or directory", "error"),
    ("isolated", "probe.outside.environment.planted", False, "error"),
    ("isolated", "probe.outside.memory.found", [], "error"),
    ("isolated", "outside.shared", ["pid"], "fail"),
    ("isolated", "outside.uid", 0, "fail"),
    ("isolated", "inside.uid", 0, "fail"),
    ("isolated", "inside.capabilities", "0000000000200000", "fail"),
    ("isolated", "inside.root_writable", True, "fail"),
    ("unreachable", "probe.inside.gateway", "connected", "fail"),
    ("unreachable", "probe.outside.gateway", "Connection refused", "error"),
    ("unreachable", "outside.shared", ["net"], "fail"),
    ("unreachable", "probe.inside.network.interfaces", {"lo": 0, "eth0": 5}, "fail"),
    ("unreachable", "probe.inside.network.routes", 1, "fail"),
    ("unreachable", "outside.network_bytes", {"lo": 60}, "fail"),
    ("clean", "search.environment.found", ["run-token"], "fail"),
    ("clean", "search.files.found", ["mem0 in /tmp/x"], "fail"),
    ("clean", "search.memory.found", ["mem0"], "fail"),
    ("clean", "probe.inside.memory.found", ["credential"], "fail"),
    ("clean", "probe.inside.files.found", ["/agent/work/x"], "fail"),
    ("clean", "probe.inside.environment.names", ["HOME"], "fail"),
    ("clean", "traffic.found", ["run-token"], "fail"),
    ("clean", "standard_error.found", ["run-token"], "fail"),
    ("clean", "traffic.whole", False, "error"),
    ("clean", "traffic.control_seen", False, "error"),
    ("clean", "search.memory.control_seen", False, "error"),
    ("clean", "search.memory.skipped", 1, "error"),
    ("clean", "probe.inside.files.unreadable", ["/root"], "error"),
    ("clean", "search.looked_for", [], "error"),
    ("clean", "search.looked_for", ["mem0", "operator-token"], "error"),
    ("clean", "search.looked_for", ["operator-token", "run-token"], "error"),
    ("clean", "search.looked_for", ["operator-token", "run-token", "zep"], "error"),
    ("isolated", "probe.inside.descriptors", ["/etc/shadow", "/dev/null", "/dev/null", "pipe", "socket", "socket"], "fail"),
    ("isolated", "probe.inside.descriptors", ["/dev/null", "/dev/null", "pipe", "socket", "socket", "socket"], "fail"),
    ("isolated", "probe.inside.descriptors", ["anon_inode", "socket"], "fail"),
    ("isolated", "outside.descriptors", ["0 /dev/null", "3 script", "5 channel", "6 /etc/shadow"], "fail"),
    ("isolated", "outside.descriptors", ["0 /dev/null", "3 script", "5 channel", "6 socket"], "fail"),
    ("isolated", "outside.descriptors", ["0 /dev/null", "3 script", "5 channel", "6 channel"], "fail"),
    ("isolated", "outside.descriptors", ["0 /etc/notes", "3 script"], "fail"),
    ("isolated", "outside.descriptors", ["3 script", "4 pipe"], "fail"),
    ("unreachable", "outside.descriptors", ["3 script", "5 channel", "6 socket"], "fail"),
    ("unreachable", "probe.inside.descriptors", ["/dev/null", "socket", "socket", "socket"], "fail"),
    ("clean", "outside.descriptors", ["3 script", "5 channel", "6 /etc/notes"], "error"),
    ("clean", "probe.inside.descriptors", ["/etc/notes"], "error"),
    ("as_told", "inside.user", "root", "fail"),
    ("as_told", "inside.platform", "Darwin arm64", "fail"),
    ("as_told", "inside.working_directory", "/", "fail"),
    ("as_told", "inside.runner_digest", "00", "fail"),
    ("as_told", "inside.seconds", 99.0, "fail"),
    ("as_told", "outside.working_directory", "/", "fail"),
    ("as_told", "outside.namespaces.net", "net:[1]", "fail"),
    ("removed", "left.process", True, "fail"),
    ("removed", "left.namespace_members", [5], "fail"),
    ("removed", "left.mounts", ["/place"], "fail"),
    ("removed", "left.folder", True, "fail"),
    ("removed", "ended", "killed", "fail"),
    ("removed", "code", 3, "fail"),
]


def judged(word: Any, report: Any) -> list[Finding]:
    scene = Scene()
    scene.control("sandbox_removed" if word == "removed" else "sandbox", report, connection="")
    return KIND.judge(Params(value=word), HERE, scene.view())


def good(word: str) -> Any:
    return GONE if word == "removed" else PLACE


@pytest.mark.parametrize("word", sorted(CHECKS))
def test_a_good_place_holds(word: str) -> None:
    assert judged(word, good(word)) == []


@pytest.mark.parametrize(("word", "path", "value", "severity"), WRONG)
def test_each_fact_counts(word: str, path: str, value: Any, severity: str) -> None:
    found = judged(word, changed(good(word), path.split("."), value))
    assert severity in {f.severity for f in found}
    assert {f.id for f in found} == {"sandboxed"}


@pytest.mark.parametrize("word", sorted(CHECKS))
def test_a_report_that_is_not_whole_or_not_there_is_no_pass(word: str) -> None:
    for report in ({}, {"probe": {}}, "nothing"):
        assert [f.severity for f in judged(word, report)] == ["error"]
    assert [f.severity for f in KIND.judge(Params(value=word), HERE, Scene().view())] == ["error"]  # type: ignore[arg-type]


def relayed(word: Any, *told: Any, **more: Any) -> list[str]:
    scene = Scene()
    scene.records += [ControlRecord(item=ITEM, phase="steps", step="s", action="relay", seq=n, data=data) for n, data in enumerate(told)]
    return [f.severity for f in RELAYED.judge(RelayedParams(is_=word, **more), Place("e", "s", "f:1:1"), scene.view())]


def test_a_channel_is_refused_only_by_the_refusal_of_a_channel() -> None:
    assert relayed("refused", {"what": "borrow", "refused": "channel_of_other_run"}) == []
    assert relayed("refused", {"what": "claim", "refused": None, "answered": True}) == ["fail"]
    assert relayed("refused", {"what": "borrow", "refused": "the channel was closed"}) == ["fail"]
    assert relayed("refused") == ["error"]


def test_a_session_that_resumes_gets_a_new_declaration() -> None:
    told = {"what": "resume", "welcome": {"session": "s2", "replaces": "s1"}, "before": ["a", "b"], "visible": ["a", "c"], "tools": ["a", "c"]}
    assert relayed("redeclared", told) == []
    assert relayed("redeclared", told, without="b") == []
    for worse in (
        {"tools": []},
        {"welcome": None},
        {"welcome": {"session": "s1", "replaces": "s1"}},
        {"welcome": {"session": "s2"}},
        {"tools": ["a", "b"]},  # the old list
        {"tools": ["a", "b", "c"]},
        {"tools": ["a"]},
    ):
        assert relayed("redeclared", {**told, **worse}) == ["fail"]


def test_a_name_that_no_model_could_spell_may_be_left_out_of_a_declaration() -> None:
    told = {"what": "resume", "visible": ["a", "b c"], "tools": ["a"]}
    assert relayed("redeclared", {**told, "welcome": {"session": "s2", "replaces": "s1", "unreadable": 1}}) == []
    assert relayed("redeclared", {**told, "welcome": {"session": "s2", "replaces": "s1", "unreadable": 0}}) == ["fail"]


def test_a_tool_that_is_to_be_gone_was_there_and_is_not() -> None:
    told = {"what": "resume", "welcome": {"session": "s2", "replaces": "s1"}, "before": ["a"], "visible": ["a"], "tools": ["a"]}
    assert relayed("redeclared", told, without="a") == ["fail"]
    assert relayed("redeclared", told, without="never-there") == ["fail"]


def test_a_declaration_beside_which_nothing_is_known_is_no_pass() -> None:
    assert relayed("redeclared", {"what": "resume", "welcome": {"session": "s2", "replaces": "s1"}, "tools": ["a"]}) == ["error"]
