"""The Supermemory stand-in, through real MCP clients over loopback."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from harness.fake.kit import Account, Consent

if TYPE_CHECKING:
    from tests.fake.conftest import Answer, Bench, BenchOf, Wire

VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
FACT = "The navigator keeps a turquoise compass in a maple cabinet.\nAlways."
QUESTION = "Where is the navigator's turquoise compass?"
TAG = "smoke"
DELAY = 5
NOWHERE = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(scope="module")
def bench(bench_of: BenchOf) -> Bench:
    return bench_of("supermemory")


@pytest.fixture
def wire(bench: Bench) -> Iterator[Wire]:
    """Full consent."""
    with bench.open(index_delay_s=DELAY) as opened:
        yield opened


@pytest.fixture
def scoped(bench: Bench) -> Iterator[Wire]:
    """Read and write, one tag."""
    with bench.open(consent=Consent(tags=(TAG,)), index_delay_s=DELAY) as opened:
        yield opened


@pytest.fixture
def reader(bench: Bench) -> Iterator[Wire]:
    """One tag, read only."""
    with bench.open(consent=Consent(access="read", tags=(TAG,)), index_delay_s=DELAY) as opened:
        yield opened


def found(wire: Wire, query: str, **more: Any) -> list[str]:
    return [hit["memory"] for hit in wire.get("search_memory", query=query, **more)["results"]]


def counts(wire: Wire) -> tuple[int, int]:
    """(documents, memories)"""
    return tuple(wire.get(tool)["pagination"]["totalItems"] for tool in ("list_documents", "list_memories"))  # type: ignore[return-value]


def refused(answer: Answer, status: int) -> None:
    assert answer.is_error
    assert answer.text.startswith(f"Error: {status} ")
    assert answer.result.structured_content is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_document_is_queued_then_done_and_only_then_found(bench: Bench, version: str) -> None:
    with bench.open(version=version, consent=Consent(tags=(TAG,)), index_delay_s=DELAY) as wire:
        saved = wire.get("add_memory", content=FACT, containerTag=TAG)
        assert saved["status"] == "queued"
        bench.advance(DELAY - 1)
        queued = wire.get("get_document", documentId=saved["id"])
        assert (queued["status"], queued["content"]) == ("queued", FACT)
        assert wire.get("search_memory", query=QUESTION) == {"results": [], "total": 0}
        bench.advance(1)
        done = wire.get("get_document", documentId=saved["id"])
        assert (done["status"], done["content"], done["containerTag"]) == ("done", FACT, TAG)
        (hit,) = wire.get("search_memory", query=QUESTION, containerTag=TAG)["results"]
        assert (hit["memory"], hit["documentId"], hit["containerTag"]) == (FACT, saved["id"], TAG)


def test_the_list_has_sixteen_tools_and_the_providers_claims(wire: Wire) -> None:
    pages = wire.pages()
    assert len({page.next_cursor for page in pages}) == len(pages) > 1
    tools = {tool.name: tool for tool in wire.tools()}
    assert len(tools) == 16
    for name in ("select-space", "guided-save", "upload-file"):
        hints = tools[name].annotations
        assert hints is not None
        assert hints.read_only_hint is True
    hints = tools["add_memory"].annotations
    assert hints is not None
    assert hints.destructive_hint is True
    assert tools["save-memory"].meta == {"ui": {"visibility": ["app"]}}


def test_searching_inside_the_consent_is_an_honest_zero(scoped: Wire) -> None:
    assert scoped.get("search_memory", query=QUESTION, containerTag=TAG) == {"results": [], "total": 0}


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("add_memory", {"content": FACT}),
        ("add_memory", {"content": FACT, "action": "forget"}),
        ("save-memory", {"content": FACT}),
        ("search_memory", {"query": QUESTION}),
        ("list_documents", {}),
        ("list_memories", {}),
        ("get_profile", {}),
        ("memory-graph", {}),
        ("fetch-graph-data", {}),
        ("set-active-tag", {}),
    ],
)
def test_a_tag_outside_the_consent_is_forbidden(scoped: Wire, tool: str, arguments: dict[str, Any]) -> None:
    refused(scoped.ask(tool, containerTag="other", **arguments), 403)
    assert counts(scoped) == (0, 0)
    assert scoped.get("who_am_i")["activeTag"] == TAG


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("add_memory", {"content": FACT, "containerTag": TAG}),
        ("add_memory", {"content": FACT, "action": "forget"}),
        ("save-memory", {"content": FACT, "containerTag": TAG}),
        ("prepare-file-upload", {}),
    ],
)
def test_a_read_only_consent_cannot_write(reader: Wire, tool: str, arguments: dict[str, Any]) -> None:
    refused(reader.ask(tool, **arguments), 403)
    assert counts(reader) == (0, 0)


def test_who_am_i_tells_scope_and_permission(wire: Wire, scoped: Wire, reader: Wire) -> None:
    told = [w.get("who_am_i") for w in (wire, scoped, reader)]
    assert [(t["permission"], t["scope"]["containerTags"]) for t in told] == [("write", None), ("write", [TAG]), ("read", [TAG])]
    assert len({t["userId"] for t in told}) == 3


def test_a_document_of_a_tag_that_was_taken_away_is_forbidden(bench: Bench, wire: Wire) -> None:
    document = wire.get("add_memory", content=FACT, containerTag="private")["id"]
    bench.fake.admit(Account(wire.credential, "narrower", Consent(tags=(TAG,))))
    refused(wire.ask("get_document", documentId=document), 403)
    assert counts(wire) == (0, 0)


def test_a_consent_without_any_tag_opens_nothing(bench: Bench) -> None:
    with bench.open(consent=Consent(tags=())) as wire:
        refused(wire.ask("add_memory", content=FACT), 403)
        assert found(wire, QUESTION) == []
        assert wire.get("list_spaces") == {"spaces": []}


def test_forgetting_leaves_the_document_but_no_memory(bench: Bench, wire: Wire) -> None:
    document = wire.get("add_memory", content=FACT)["id"]
    bench.advance(DELAY)
    assert counts(wire) == (1, 1)
    assert wire.get("add_memory", content=FACT, action="forget")["documentId"] == document
    assert (found(wire, QUESTION), counts(wire)) == ([], (1, 0))
    assert wire.get("fetch-graph-data")["documents"][0]["memories"] == []
    assert wire.get("get_document", documentId=document)["content"] == FACT
    refused(wire.ask("add_memory", content=FACT, action="forget"), 404)


def test_forgetting_what_is_queued_drops_it(bench: Bench, wire: Wire) -> None:
    document = wire.get("add_memory", content=FACT)["id"]
    wire.get("add_memory", content=FACT, action="forget")
    bench.advance(DELAY)
    refused(wire.ask("get_document", documentId=document), 404)
    assert (found(wire, QUESTION), counts(wire)) == ([], (0, 0))


def test_forgetting_keeps_to_the_tag_it_names(bench: Bench, wire: Wire) -> None:
    for tag in ("a", "b"):
        wire.get("add_memory", content=FACT, containerTag=tag)
    bench.advance(DELAY)
    wire.get("add_memory", content=FACT, containerTag="a", action="forget")
    assert (found(wire, QUESTION, containerTag="a"), found(wire, QUESTION, containerTag="b")) == ([], [FACT])


@pytest.mark.parametrize("content", ["", "  \n"])
def test_nothing_cannot_be_saved(wire: Wire, content: str) -> None:
    refused(wire.ask("add_memory", content=content), 400)
    assert counts(wire) == (0, 0)


def test_an_unknown_document_is_not_found(wire: Wire) -> None:
    refused(wire.ask("get_document", documentId="nothing"), 404)


def test_the_active_tag_is_where_things_go(wire: Wire) -> None:
    view = wire.get("select-space")["viewId"]
    assert wire.get("set-active-tag", containerTag="diary", viewId=view) == {"activeTag": "diary"}
    assert wire.get("who_am_i")["activeTag"] == "diary"
    assert wire.get("add_memory", content=FACT)["containerTag"] == "diary"
    spaces = {space["containerTag"]: space for space in wire.get("list_spaces")["spaces"]}
    assert (spaces["diary"]["active"], spaces["diary"]["documentCount"], spaces["sm_project_default"]["active"]) == (True, 1, False)


@pytest.mark.parametrize("opener", ["select-space", "guided-save", "upload-file", "memory-graph"])
def test_a_view_that_was_opened_can_be_used(wire: Wire, opener: str) -> None:
    view = wire.get(opener)["viewId"]
    saved = wire.get("save-memory", content=FACT, containerTag=TAG, viewId=view)
    assert wire.get("get_document", documentId=saved["id"])["content"] == FACT


@pytest.mark.parametrize("tool", ["save-memory", "set-active-tag"])
def test_a_view_that_is_not_open_is_refused(wire: Wire, tool: str) -> None:
    extra = {"content": FACT} if tool == "save-memory" else {}
    refused(wire.ask(tool, containerTag=TAG, viewId=NOWHERE, **extra), 400)
    assert counts(wire) == (0, 0)
    assert wire.get("who_am_i")["activeTag"] == "sm_project_default"


def test_a_guided_save_stores_nothing_by_itself(wire: Wire) -> None:
    assert wire.get("guided-save", prefill=FACT)["prefill"] == FACT
    assert counts(wire) == (0, 0)


def test_a_prepared_upload_takes_one_text_once(bench: Bench, scoped: Wire) -> None:
    ticket = scoped.get("prepare-file-upload")
    assert ticket["containerTag"] == TAG
    mine = {"Authorization": f"Bearer {scoped.credential}"}
    assert bench.http("PUT", ticket["path"], content=FACT.encode()).status_code == 401
    assert bench.http("POST", ticket["path"], content=FACT.encode(), headers=mine).status_code == 405
    assert bench.http("PUT", ticket["path"], content=b"\xff\xfe", headers=mine).status_code == 415
    assert bench.http("PUT", ticket["path"], content=b"x" * 1_000_001, headers=mine).status_code == 413
    put = bench.http("PUT", ticket["path"], content=FACT.encode(), headers=mine)
    assert (put.status_code, put.json()["status"]) == (201, "queued")
    assert scoped.get("get_document", documentId=put.json()["id"])["content"] == FACT
    assert bench.http("PUT", ticket["path"], content=FACT.encode(), headers=mine).status_code == 404
    assert bench.http("GET", "/elsewhere").status_code == 404


def test_a_prepared_upload_expires(bench: Bench, wire: Wire) -> None:
    ticket = wire.get("prepare-file-upload")
    bench.advance(15 * 60)
    put = bench.http("PUT", ticket["path"], content=b"late", headers={"Authorization": f"Bearer {wire.credential}"})
    assert put.status_code == 404
    assert counts(wire) == (0, 0)


def test_the_profile_splits_recent_from_lasting(bench: Bench, wire: Wire) -> None:
    assert wire.get("get_profile")["profile"] == {"static": [], "dynamic": []}
    for n in range(6):
        wire.get("add_memory", content=f"habit {n}")
    assert wire.get("get_profile")["profile"] == {"static": [], "dynamic": []}
    bench.advance(DELAY)
    profile = wire.get("get_profile")["profile"]
    assert (profile["static"], profile["dynamic"][0], len(profile["dynamic"])) == (["habit 0"], "habit 5", 5)


def test_the_graph_counts_and_shows_what_is_there(bench: Bench, wire: Wire) -> None:
    ids = [wire.get("add_memory", content=f"node {n}", containerTag=TAG)["id"] for n in range(3)]
    assert (wire.get("memory-graph")["documentCount"], wire.get("memory-graph")["memoryCount"]) == (3, 0)
    bench.advance(DELAY)
    assert wire.get("memory-graph", containerTag=TAG)["memoryCount"] == 3
    data = wire.get("fetch-graph-data", limit=2, page=2)
    assert data["pagination"] == {"currentPage": 2, "limit": 2, "totalItems": 3, "totalPages": 2}
    assert [(d["id"], d["memories"][0]["memory"]) for d in data["documents"]] == [(ids[0], "node 0")]


@pytest.mark.parametrize(("tool", "key"), [("list_documents", "documents"), ("list_memories", "memories")])
def test_pages_cover_the_list_once(bench: Bench, wire: Wire, tool: str, key: str) -> None:
    for n in range(5):
        wire.get("add_memory", content=f"entry {n}")
    bench.advance(DELAY)
    pages = [wire.get(tool, page=n, limit=2) for n in (1, 2, 3, 4)]
    assert [len(page[key]) for page in pages] == [2, 2, 1, 0]
    assert len({item["id"] for page in pages for item in page[key]}) == 5
    assert wire.get(tool)["pagination"]["limit"] == 10


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("add_memory", {}),
        ("add_memory", {"content": "x", "action": "burn"}),
        ("add_memory", {"content": "x", "containerTag": ""}),
        ("save-memory", {"content": "x"}),
        ("save-memory", {"content": "x", "containerTag": "t", "viewId": "no uuid"}),
        ("search_memory", {"query": "x" * 1001}),
        ("get_document", {}),
        ("list_documents", {"limit": 51}),
        ("fetch-graph-data", {"page": "1"}),
        ("set-active-tag", {}),
        ("guided-save", {"prefill": 1}),
    ],
)
def test_wrong_arguments_are_an_error_result(wire: Wire, tool: str, arguments: dict[str, Any]) -> None:
    answer = wire.ask(tool, **arguments)
    assert answer.is_error
    assert answer.text.startswith("MCP error -32602")
    assert counts(wire) == (0, 0)


def test_an_unknown_tool_is_a_protocol_error(wire: Wire) -> None:
    with pytest.raises(MCPError) as caught:
        wire.ask("whoAmI")
    assert caught.value.code == -32602


def test_an_internal_error_keeps_the_shape(wire: Wire) -> None:
    wire.configure(fail={"search_memory": "the index is away"})
    answer = wire.ask("search_memory", query="x")
    assert (answer.is_error, answer.text) == (True, "Error: the index is away")


def test_two_sign_ins_share_nothing(bench: Bench, wire: Wire, scoped: Wire) -> None:
    document = wire.get("add_memory", content=FACT, containerTag=TAG)["id"]
    bench.advance(DELAY)
    refused(scoped.ask("get_document", documentId=document), 404)
    assert found(scoped, QUESTION) == []


def test_a_stranger_is_pointed_at_the_resource_metadata(bench: Bench) -> None:
    answer = bench.http("POST", "/mcp", json={})
    assert (answer.status_code, answer.json()) == (401, {"error": "Unauthorized"})
    assert f'resource_metadata="{bench.fake.base_url}/.well-known/oauth-protected-resource/mcp"' in answer.headers["www-authenticate"]
    assert bench.http("GET", "/.well-known/oauth-protected-resource").json()["resource"] == bench.fake.mcp_url


def _sentence(letters: str) -> st.SearchStrategy[str]:
    return st.lists(st.text(alphabet=letters, min_size=4, max_size=9), min_size=1, max_size=5).map(" ".join)


@settings(max_examples=10, deadline=None)
@given(
    texts=st.lists(_sentence(string.ascii_lowercase[:13]), min_size=1, max_size=4, unique=True),
    unrelated=_sentence(string.ascii_lowercase[14:]),
    tag=st.text(min_size=1, max_size=12),
)
def test_a_memory_lives_from_create_to_gone(bench: Bench, texts: list[str], unrelated: str, tag: str) -> None:
    with bench.open(consent=Consent(tags=(tag,)), index_delay_s=DELAY) as wire:
        ids = [wire.get("add_memory", content=text, containerTag=tag)["id"] for text in texts]
        assert len(set(ids)) == len(texts)
        assert counts(wire) == (len(texts), 0)
        bench.advance(DELAY)
        assert [wire.get("get_document", documentId=i)["content"] for i in ids] == texts
        assert [m["memory"] for m in wire.get("list_memories")["memories"]] == texts[::-1]
        assert texts[0] in found(wire, texts[0])
        assert found(wire, unrelated) == []
        for text in texts:
            wire.get("add_memory", content=text, action="forget")
            assert text not in found(wire, text)
        assert counts(wire) == (len(texts), 0)
