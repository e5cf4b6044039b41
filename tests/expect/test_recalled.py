"""Recall is judged on result items alone: echo, empty hits, foreign scope, changed text (public cases c03, c05, c06, c08)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.expect.base import Place
from harness.expect.recalled import KIND, Params
from harness.expect.scene import MEM0, Scene, answer
from harness.expect.text import difference
from harness.model.finding import Finding
from harness.model.manifest import Manifest, RecallShape

FACT = "The k7 navigator keeps a silver compass in a maple cabinet."
PLACE = Place("exact", "act", "s.yaml:1:1")


def judge(result: dict[str, Any], params: dict[str, Any], *, tool: str = "search_memories", manifest: Manifest = MEM0) -> list[Finding]:
    scene = Scene(manifests={"mem0": manifest})
    scene.call(tool, {"query": "what is kept?"}, result=result)
    return KIND.judge(Params.model_validate(params), PLACE, scene.view())


def with_recall(tool: str, shape: RecallShape) -> Manifest:
    return MEM0.model_copy(update={"recall": {tool: shape}})


def test_c03_an_echoed_query_is_not_a_recall() -> None:
    reply = answer({"query": FACT, "results": []}) | {"content": [{"type": "text", "text": f"No memories found for query: {FACT}"}]}
    (finding,) = judge(reply, {"text": FACT})
    assert finding.severity == "fail"
    assert "no hit" in finding.message


def test_c03_without_structured_content_the_echo_is_no_item_either() -> None:
    (finding,) = judge({"content": [{"type": "text", "text": f"No memories found for query: {FACT}"}]}, {"text": FACT})
    assert "no result items" in finding.message


def test_c05_hits_without_content_are_told_from_no_hit() -> None:
    text = "## Relevant Memories\n\n### Memory 1 (74% match)\n\n\n### Memory 2 (73% match)\n\n"
    shape = RecallShape(items="/results", text="/memory", heading=r"^### Memory \d+.*$")
    (finding,) = judge({"content": [{"type": "text", "text": text}]}, {"text": FACT}, tool="search", manifest=with_recall("search", shape))
    assert finding.message == "not recalled: 2 hits, 0 with content"


def test_a_prose_answer_with_content_is_read() -> None:
    text = f"## Relevant Memories\n\n### Memory 1 (74% match)\n{FACT}\n\n### Memory 2 (60% match)\nOther.\n"
    shape = RecallShape(items="/results", text="/memory", heading=r"^### Memory \d+.*$")
    assert judge({"content": [{"type": "text", "text": text}]}, {"text": FACT}, tool="search", manifest=with_recall("search", shape)) == []


def test_c06_a_foreign_item_fails_though_the_fact_is_there() -> None:
    shape = RecallShape(items="/result", text="/text", scope={"datasets": "/dataset_name"})
    foreign = "somebody else's note"
    reply = answer({"result": [{"dataset_name": "ds_mine", "text": FACT}, {"dataset_name": "ds_other", "text": foreign}]})
    found = judge(reply, {"text": FACT, "scope": {"datasets": "ds_mine"}}, tool="recall", manifest=with_recall("recall", shape))
    assert len(found) == 1
    assert "'ds_other'" in found[0].message
    assert foreign not in found[0].model_dump_json(), "a foreign text is shown by its hash only"


def test_c06_an_item_without_its_scope_is_unknown_not_ok() -> None:
    shape = RecallShape(items="/result", text="/text", scope={"datasets": "/dataset_name"})
    reply = answer({"result": [{"text": FACT}]})
    (finding,) = judge(reply, {"text": FACT, "scope": {"datasets": "ds_mine"}}, tool="recall", manifest=with_recall("recall", shape))
    assert "unknown" in finding.message


def test_another_id_is_a_finding() -> None:
    (finding,) = judge(answer({"results": [{"id": "m2", "memory": FACT}]}), {"text": FACT, "id": "m1"})
    assert finding.expected == "m1"
    assert finding.actual == ["m2"]


def test_an_error_result_is_not_a_recall_whatever_it_says() -> None:
    (finding,) = judge(answer({"results": [{"id": "m1", "memory": FACT}]}, is_error=True), {"text": FACT})
    assert "failed" in finding.message


@pytest.mark.parametrize(
    ("sent", "got", "kind"),
    [
        ("x" * 1995 + "\U0001f9ed nonce-7f3", ("x" * 1995 + "\U0001f9ed nonce-7f3")[:2000], "truncated"),
        ("x" * 1999 + "\U0001f9ed nonce", "x" * 1999 + "\ud83e", "truncated"),
        ("cafe\u0301 au lait", "café au lait", "normalised"),
        ("a line\n", "a line", "trimmed"),
        ("one\r\ntwo", "one\ntwo", "line-endings"),
        ("測試記憶", "測試記憶".encode().decode("latin-1"), "re-encoded"),
        ("left\u200fright\u200f", "leftright", "characters-dropped"),
        ("silver", "golden", "different"),
    ],
)
def test_c08_each_way_of_changing_a_text_has_its_name(sent: str, got: str, kind: str) -> None:
    found = difference(sent, got)
    assert found is not None
    assert found.kind == kind
    assert (found.sent, found.got) == (len(sent), len(got))
    assert str(found).isascii()
    str(found).encode("utf-8")


def test_c08_lengths_and_position_are_told() -> None:
    body = "x" * 1995 + "\U0001f9ed nonce-7f3"
    found = difference(body, body[:2000])
    assert found is not None
    assert (found.position, found.sent, found.got) == (2000, 2006, 2000)


@given(st.text(), st.text())
def test_a_difference_is_found_exactly_when_there_is_one(sent: str, got: str) -> None:
    found = difference(sent, got)
    assert (found is None) == (sent == got)
    if found is not None:
        assert sent[: found.position] == got[: found.position]
        str(found).encode("ascii")
