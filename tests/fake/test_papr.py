"""Papr's stand-in over real HTTP: headers, limits to the byte, batches, users, tenancy, roles, typed bodies, envelopes, compression."""

from __future__ import annotations

import gzip
import itertools
import json
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from tests.fake.conftest import Bench, BenchOf

from harness.fake.kit import Account

FACT = "The zq17 navigator keeps a silver compass in a maple cabinet."
QUESTION = "What does the navigator keep in the maple cabinet?"
HEADERS = {"api_key": "X-API-Key", "session_token": "X-Session-Token", "bearer": "Authorization"}
_numbers = itertools.count(1)


class Caller:
    """One credential and its empty account."""

    def __init__(self, bench: Bench, way: str = "api_key", **options: Any) -> None:
        self.bench = bench
        self.key = f"papr-key-{next(_numbers)}"
        bench.fake.admit(Account(self.key, "developer"))
        bench.fake.configure(self.key, accepts=way, **options)
        self.headers = {HEADERS[way]: f"Bearer {self.key}" if way == "bearer" else self.key, "X-Client-Type": "test"}

    def ask(self, method: str, path: str = "", **options: Any) -> httpx2.Response:
        headers = {**self.headers, **options.pop("headers", {})}
        return self.bench.http(method, f"/v1/memory{path}", headers={k: v for k, v in headers.items() if v is not None}, **options)

    def add(self, content: str = FACT, **more: Any) -> str:
        answer = self.ask("POST", json={"content": content, **more})
        assert answer.status_code == 200, answer.text
        found: str = answer.json()["data"][0]["memoryId"]
        return found

    def search(self, query: str = QUESTION, params: dict[str, Any] | None = None, **more: Any) -> Any:
        answer = self.ask("POST", "/search", json={"query": query, **more}, params=params or {})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def found(self, query: str = QUESTION, **more: Any) -> list[str]:
        return [memory["content"] for memory in self.search(query, **more)["data"]["memories"]]


@pytest.fixture
def caller(bench_of: BenchOf) -> Caller:
    return Caller(bench_of("papr"))


def refused(answer: httpx2.Response, code: int) -> dict[str, Any]:
    """The envelope of an error: its code is the status."""
    body: dict[str, Any] = answer.json()
    assert (answer.status_code, body["code"], body["status"]) == (code, code, "error"), answer.text
    assert body["error"]
    assert body.keys() >= {"code", "status", "data", "error", "details"}
    return body


# who may ask


@pytest.mark.parametrize("way", HEADERS)
def test_each_credential_opens_in_its_own_header_and_in_no_other(bench_of: BenchOf, way: str) -> None:
    caller = Caller(bench_of("papr"), way)
    assert caller.ask("GET", "/none").status_code == 404
    for other in HEADERS.keys() - {way}:
        wrong = {HEADERS[way]: None, HEADERS[other]: f"Bearer {caller.key}" if other == "bearer" else caller.key}
        refused(caller.ask("GET", "/none", headers=wrong), 401)


def test_strangers_and_mixtures_are_refused(bench_of: BenchOf, caller: Caller) -> None:
    refused(caller.ask("GET", "/none", headers={"X-API-Key": None}), 401)
    refused(caller.ask("GET", "/none", headers={"X-API-Key": "wrong"}), 401)
    refused(caller.ask("GET", "/none", headers={"X-API-Key": ""}), 401)
    refused(caller.ask("GET", "/none", headers={"Authorization": "Basic x"}), 401)
    session = Caller(bench_of("papr"), "session_token")
    refused(caller.ask("GET", "/none", headers={"X-Session-Token": session.key}), 401)


def test_a_credential_expires_on_the_clock(bench_of: BenchOf) -> None:
    caller = Caller(bench_of("papr"), expires_in_s=60)
    caller.bench.advance(59)
    assert caller.ask("GET", "/none").status_code == 404
    caller.bench.advance(2)
    refused(caller.ask("GET", "/none"), 401)


def test_the_client_type_is_required_where_the_document_says_so(caller: Caller) -> None:
    no_type = {"X-Client-Type": None}
    asked = [("POST", ""), ("POST", "/batch"), ("DELETE", "/all"), ("GET", "/x"), ("PUT", "/x"), ("DELETE", "/x")]
    for method, path in asked:
        options: dict[str, Any] = {} if method in ("GET", "DELETE") else {"json": {}}
        assert "X-Client-Type" in refused(caller.ask(method, path, headers=no_type, **options), 400)["error"]
    assert caller.ask("POST", "/search", json={"query": "x"}, headers=no_type).status_code == 200


# limits and types


def test_content_is_counted_in_bytes_of_utf8(caller: Caller) -> None:
    for content, code in (("a" * 15_000, 200), ("a" * 15_001, 413), ("é" * 7_500, 200), ("é" * 7_500 + "a", 413), ("🧭" * 3_750, 200), (" ", 400)):
        answer = caller.ask("POST", json={"content": content})
        assert answer.status_code == code
        if code == 413:
            assert refused(answer, 413)["details"] == {"max_content_length": 15_000}
    memory = caller.add("short")
    refused(caller.ask("PUT", f"/{memory}", json={"content": "é" * 7_501}), 413)
    assert caller.ask("GET", f"/{memory}").json()["data"]["memories"][0]["content"] == "short"


def test_a_batch_has_1_to_50_memories_and_a_batch_size_of_1_to_50(caller: Caller) -> None:
    for size, code in ((0, 422), (1, 200), (50, 200), (51, 422)):
        assert caller.ask("POST", "/batch", json={"memories": [{"content": f"n{i}"} for i in range(size)]}).status_code == code
    sizes: tuple[tuple[Any, int], ...] = ((0, 422), (1, 200), (50, 200), (51, 422), (None, 200), (True, 422), ("10", 422))
    for asked, code in sizes:
        assert caller.ask("POST", "/batch", json={"memories": [{"content": "n"}], "batch_size": asked}).status_code == code


def test_a_search_asks_for_10_to_50_and_gets_20_by_default(caller: Caller) -> None:
    caller.ask("POST", "/batch", json={"memories": [{"content": f"compass {i}"} for i in range(30)]})
    for name in ("max_memories", "max_nodes"):
        for value, code in ((9, 422), (10, 200), (50, 200), (51, 422), ("x", 422)):
            assert caller.ask("POST", "/search", json={"query": "compass"}, params={name: value}).status_code == code
    assert len(caller.found("compass")) == 20
    assert len(caller.search("compass", params={"max_memories": 50})["data"]["memories"]) == 30


@pytest.mark.parametrize("role", ["user", "assistant", None])
def test_a_category_fits_its_role(caller: Caller, role: str | None) -> None:
    fit = {"user": {"preference", "task", "goal", "facts", "context"}, "assistant": {"skills", "learning"}}
    allowed = fit[role] if role else fit["user"] | fit["assistant"]
    for category in ("preference", "task", "goal", "facts", "context", "skills", "learning", "fact", "other"):
        answer = caller.ask("POST", json={"content": "x", "metadata": {"category": category, **({"role": role} if role else {})}})
        assert answer.status_code == (200 if category in allowed else 422), category
    refused(caller.ask("POST", json={"content": "x", "metadata": {"role": "system"}}), 422)


WHOLE: dict[str, Any] = {
    "content": FACT,
    "type": "code_snippet",
    "metadata": {"role": "user", "category": "task", "topics": ["a"], "emoji tags": "🧭", "createdAt": "2026-01-01T00:00:00Z", "own": {"x": 1}},
    "context": [{"role": "assistant", "content": "Which cabinet?"}],
    "relationships_json": [{"relation_type": "updates", "related_item_id": "m1", "metadata": {"relevance": "high"}}],
    "graph_generation": {
        "mode": "manual",
        "auto": {"schema_id": "schema_own", "property_overrides": [{"nodeLabel": "Person", "set": {"name": "N"}}]},
        "manual": {
            "nodes": [{"id": "p", "label": "Person", "properties": {"name": "Zora"}}, {"id": "t", "label": "Tool", "properties": {"name": "Lathe"}}],
            "relationships": [{"relationship_type": "USES", "source_node_id": "p", "target_node_id": "t"}],
        },
    },
    "organization_id": "org",
    "namespace_id": "ns",
}


def test_a_whole_body_is_kept_and_every_part_may_be_null(caller: Caller) -> None:
    memory = caller.add(**{k: v for k, v in WHOLE.items() if k != "content"})
    (kept,) = caller.ask("GET", f"/{memory}").json()["data"]["memories"]
    assert kept["metadata"] == WHOLE["metadata"]
    assert (kept["context"], kept["type"], kept["organization_id"], kept["namespace_id"]) == (WHOLE["context"], "code_snippet", "org", "ns")
    caller.add(FACT, **dict.fromkeys(WHOLE.keys() - {"content", "type"}))
    caller.add(unknown_field={"is": "accepted"}, graph_override={"nodes": []})


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in WHOLE that is typed: all of them, but what stands in free objects."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    free = ("own", "properties", "set", "match")
    deeper = [each for key, part in inner if at[-1:] not in {(f,) for f in free} for each in paths(part, (*at, key))]
    return (
        [at] if at and at[-1] != "own" and at[-1:] != ("metadata",) and not (at[:1] == ("relationships_json",) and "metadata" in at) else []
    ) + deeper


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_wrong_type_anywhere_is_refused_and_nothing_is_stored(bench_of: BenchOf, data: st.DataObject) -> None:
    caller = Caller(bench_of("papr"))
    at = data.draw(st.sampled_from([p for p in paths(WHOLE) if p[-1] != "x"]))
    body = json.loads(json.dumps(WHOLE))
    parent = body
    for step in at[:-1]:
        parent = parent[step]
    parent[at[-1]] = data.draw(st.sampled_from([7, True, 1.5]))
    answer = refused(caller.ask("POST", json=body), 422)
    assert answer["details"][0]["loc"][0] == "body"
    assert caller.found() == []


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'"x"', b"null", b'{"content": NaN}', b'{"content": "\\ud800"}', b"\xff", b"[" * 100_000])
def test_what_is_no_object_is_refused(caller: Caller, raw: bytes) -> None:
    answer = caller.ask("POST", content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    refused(answer, answer.status_code)
    refused(caller.ask("POST", content=b"content=x", headers={"Content-Type": "application/x-www-form-urlencoded"}), 415)


def test_unknown_paths_and_methods_have_the_envelope_too(caller: Caller) -> None:
    refused(caller.ask("GET", "/a/b"), 404)
    refused(caller.ask("PATCH", "/a"), 405)


# envelopes


def test_every_answer_is_in_its_envelope(caller: Caller) -> None:
    added = caller.ask("POST", json={"content": FACT, "metadata": {"topics": "a"}}).json()
    (item,) = added["data"]
    assert (added["code"], added["status"], added["error"]) == (200, "success", None)
    assert item.keys() == {"memoryId", "objectId", "createdAt", "memoryChunkIds"}
    updated = caller.ask("PUT", f"/{item['memoryId']}", json={"metadata": {"location": "hall"}}).json()
    assert updated["status_obj"] == {"pinecone": True, "neo4j": True, "parse": True}
    assert updated["memory_items"][0]["metadata"] == {"topics": "a", "location": "hall"}
    found = caller.search()
    assert found["search_id"] != caller.search()["search_id"]
    assert found["data"]["memories"][0]["id"] == item["memoryId"]
    deleted = caller.ask("DELETE", f"/{item['memoryId']}", params={"skip_parse": "true"}).json()
    assert deleted["deletion_status"] == {"pinecone": True, "neo4j": True, "parse": False, "qdrant": True}
    assert (deleted["memoryId"], deleted["objectId"]) == (item["memoryId"], item["objectId"])
    for method in ("GET", "DELETE"):
        refused(caller.ask(method, f"/{item['memoryId']}"), 404)
    refused(caller.ask("PUT", f"/{item['memoryId']}", json={}), 404)
    assert caller.found() == []


def test_a_partial_batch_tells_each_failure_by_index_and_adds_up(bench_of: BenchOf) -> None:
    caller = Caller(bench_of("papr"), failing_items=[3])
    texts = ["one compass", "x" * 15_001, "two compass", "three compass", " "]
    answer = caller.ask("POST", "/batch", json={"memories": [{"content": text} for text in texts]})
    body = answer.json()
    assert (answer.status_code, body["code"], body["status"]) == (207, 207, "partial")
    assert [(e["index"], e["code"], e["status"]) for e in body["errors"]] == [(1, 413, "error"), (3, 500, "error"), (4, 400, "error")]
    assert (body["total_processed"], body["total_successful"], body["total_failed"]) == (5, 2, 3)
    assert body["total_content_size"] == len("one compasstwo compass") < body["total_storage_size"]
    assert sorted(caller.found("compass")) == ["one compass", "two compass"]
    assert all(each["data"][0]["memoryId"] for each in body["successful"])
    whole = caller.ask("POST", "/batch", json={"memories": [{"content": "ok"}]}).json()
    assert (whole["status"], whole["code"], whole["errors"], whole["total_failed"]) == ("success", 200, [], 0)
    failed = caller.ask("POST", "/batch", json={"memories": [{"content": " "}]})
    assert (failed.status_code, failed.json()["status"], failed.json()["total_successful"]) == (400, "error", 0)


# users and tenancy


def test_user_id_wins_and_without_either_it_is_the_developers_own(caller: Caller) -> None:
    caller.add("ann compass", external_user_id="ann")
    caller.add("bob compass", metadata={"external_user_id": "bob"})
    caller.add("own compass")
    (ann,) = caller.search("compass", external_user_id="ann")["data"]["memories"]
    assert (ann["content"], ann["external_user_id"]) == ("ann compass", "ann")
    assert caller.found("compass", user_id=ann["user_id"], external_user_id="bob") == ["ann compass"]
    assert caller.found("compass", external_user_id="bob") == ["bob compass"]
    assert caller.found("compass") == ["own compass"]
    assert caller.found("compass", external_user_id="nobody") == []
    caller.ask("POST", "/batch", json={"memories": [{"content": "batch compass", "external_user_id": "bob"}], "external_user_id": "ann"})
    assert sorted(caller.found("compass", external_user_id="ann")) == ["ann compass", "batch compass"]


def test_deleting_all_with_a_key_alone_deletes_the_developers_own(caller: Caller) -> None:
    kept = caller.add("ann compass", external_user_id="ann")
    caller.add("own compass")
    deleted = caller.ask("DELETE", "/all").json()
    assert (deleted["status"], deleted["total_processed"], deleted["total_successful"]) == ("success", 1, 1)
    assert caller.found("compass") == []
    assert caller.ask("GET", f"/{kept}").status_code == 200
    refused(caller.ask("DELETE", "/all"), 404)
    refused(caller.ask("DELETE", "/all", params={"external_user_id": "nobody"}), 404)
    assert caller.ask("DELETE", "/all", params={"external_user_id": "ann", "skip_parse": "false"}).json()["total_successful"] == 1


def test_organization_and_namespace_bound_search_and_update(caller: Caller) -> None:
    memory = caller.add(organization_id="o1", namespace_id="n1")
    assert caller.found(organization_id="o1", namespace_id="n1") == [FACT]
    assert caller.found(organization_id="o2") == caller.found(namespace_id="n2") == []
    refused(caller.ask("PUT", f"/{memory}", json={"content": "x", "organization_id": "o2"}), 404)
    caller.ask("POST", "/batch", json={"memories": [{"content": "batch compass"}], "namespace_id": "n3"})
    assert caller.found("compass", namespace_id="n3") == ["batch compass"]


def test_metadata_narrows_a_search(caller: Caller) -> None:
    caller.add("red compass", metadata={"role": "user", "category": "task", "topics": ["a", "b"], "own": 1})
    caller.add("blue compass", metadata={"role": "assistant", "category": "skills", "topics": ["c"]})
    assert caller.found("compass", metadata={"role": "user"}) == ["red compass"]
    assert caller.found("compass", metadata={"category": "skills"}) == ["blue compass"]
    assert caller.found("compass", metadata={"topics": ["b", "x"]}) == ["red compass"]
    assert caller.found("compass", metadata={"own": 1}) == ["red compass"]
    assert caller.found("compass", metadata={"own": 2}) == []


# graph, background, compression


def test_nodes_of_ones_own_name_their_schema(caller: Caller) -> None:
    caller.add(**{k: v for k, v in WHOLE.items() if k != "content"})
    data = caller.search()["data"]
    assert [(node["label"], node.get("schema_id")) for node in data["nodes"]] == [("Person", None), ("Tool", "schema_own")]
    assert data["schemas_used"] == ["schema_own"]
    assert [n["label"] for n in caller.search(schema_id="another")["data"]["nodes"]] == ["Person"]
    override = {"pattern": {"source_label": "Tool", "relationship_type": "USES", "target_label": "Memory"}}
    assert [n["label"] for n in caller.search(search_override=override, simple_schema_mode=True)["data"]["nodes"]] == ["Tool"]
    assert caller.found("Zora and her lathe") == []
    assert caller.found("Zora and her lathe", enable_agentic_graph=True) == [FACT]
    assert "reranker_score" in caller.search(rank_results=True)["data"]["memories"][0]
    graph = {**WHOLE["graph_generation"], "manual": {"nodes": [], "relationships": WHOLE["graph_generation"]["manual"]["relationships"]}}
    refused(caller.ask("POST", json={**WHOLE, "graph_generation": graph}), 422)
    refused(caller.ask("POST", "/search", json={"query": "x", "search_override": {"pattern": {}}}), 422)


def test_without_background_processing_there_is_no_graph(caller: Caller) -> None:
    caller.ask("POST", json=WHOLE, params={"skip_background_processing": "true"})
    assert caller.search()["data"]["nodes"] == []
    assert caller.found() == [FACT]


def test_what_was_added_is_found_later(bench_of: BenchOf) -> None:
    caller = Caller(bench_of("papr"), index_delay_s=5)
    memory = caller.add()
    assert caller.found() == []
    assert caller.ask("GET", f"/{memory}").status_code == 200
    caller.bench.advance(5)
    assert caller.found() == [FACT]


def test_answers_over_1_kb_are_compressed_when_asked(caller: Caller) -> None:
    small, large = caller.add("y" * 100), caller.add("z" * 2000)
    for path, accepted, encoding in ((large, "gzip", "gzip"), (large, "identity", None), (small, "gzip", None)):
        answer = caller.ask("GET", f"/{path}", headers={"Accept-Encoding": accepted})
        assert answer.headers.get("content-encoding") == encoding
        assert answer.json()["status"] == "success"
    assert len(gzip.compress(b"z" * 2000)) < 100


def test_failures_and_latency_are_keyed_by_tool(bench_of: BenchOf) -> None:
    caller = Caller(bench_of("papr"), fail={"search_memory": "the index is away"})
    caller.add()
    assert refused(caller.ask("POST", "/search", json={"query": "x"}), 500)["error"] == "the index is away"


def test_accounts_never_see_one_another(bench_of: BenchOf, caller: Caller) -> None:
    memory = caller.add()
    other = Caller(bench_of("papr"))
    refused(other.ask("GET", f"/{memory}"), 404)
    refused(other.ask("DELETE", f"/{memory}"), 404)
    assert other.found() == []
