"""Cognee Cloud's stand-in, over real HTTP: credentials, indexing on the clock, latency, recall, forget."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
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
UNRELATED = "Which vegetables grow under glass during winter?"
_numbers = itertools.count(1)


class Caller:
    """One API key and its empty tenant."""

    def __init__(self, bench: Bench, **options: Any) -> None:
        self.bench = bench
        self.key = f"cognee-key-{next(_numbers)}"
        bench.fake.admit(Account(self.key, "tenant"))
        bench.fake.configure(self.key, **options)

    def ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        return self.bench.http(method, f"/api/v1/{path}", headers={"X-Api-Key": self.key}, **options)

    def remember(self, text: str, dataset: str = "plans", **more: str) -> httpx2.Response:
        return self.ask(
            "POST", "remember", files={"data": ("memory.txt", text.encode(), "text/plain")}, data={"datasetName": dataset, **more}
        )

    def entry(self, answer: str, session: str, dataset: str = "plans", kind: str = "qa") -> httpx2.Response:
        body = {"entry": {"type": kind, "question": "", "answer": answer, "context": ""}, "dataset_name": dataset, "session_id": session}
        return self.ask("POST", "remember/entry", json=body)

    def recall(self, query: str = QUESTION, **more: Any) -> httpx2.Response:
        return self.ask("POST", "recall", json={"query": query, **more})

    def forget(self, **body: Any) -> httpx2.Response:
        return self.ask("POST", "forget", json=body)

    def names(self) -> list[str]:
        return [one["name"] for one in self.ask("GET", "datasets/").json()]


@pytest.fixture
def caller(bench_of: BenchOf) -> Caller:
    return Caller(bench_of("cognee"))


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "datasets/"), ("POST", "remember"), ("POST", "remember/entry"), ("POST", "recall"), ("POST", "forget")],
)
@pytest.mark.parametrize("headers", [{}, {"X-Api-Key": "wrong"}, {"Authorization": "Bearer wrong"}])
def test_a_stranger_is_challenged_everywhere(bench_of: BenchOf, method: str, path: str, headers: dict[str, str]) -> None:
    refused = bench_of("cognee").http(method, f"/api/v1/{path}", headers=headers)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == 'ApiKey realm="cognee"'
    assert refused.json() == {"detail": "Unauthorized"}


def test_a_revoked_key_is_a_stranger(caller: Caller) -> None:
    caller.bench.fake.revoke(caller.key)
    assert caller.ask("GET", "datasets/").status_code == 401


def test_recall_is_409_until_the_dataset_is_indexed_then_exact(caller: Caller) -> None:
    stored = caller.remember(FACT)
    assert (stored.status_code, stored.json()["status"]) == (200, "running")
    early = caller.recall(datasets=["plans"])
    assert (early.status_code, early.json()) == (409, {"detail": "Dataset is still being indexed: plans"})
    caller.bench.advance(4.9)
    assert caller.recall(datasets=["plans"]).status_code == 409
    caller.bench.advance(0.2)
    (item,) = caller.recall(datasets=["plans"]).json()
    assert item["text"] == FACT
    assert item["dataset_name"] == "plans"
    assert item["id"] == stored.json()["items"][0]["id"]
    assert item["dataset_id"] == stored.json()["dataset_id"]


def test_each_dataset_is_indexed_by_itself(bench_of: BenchOf) -> None:
    caller = Caller(bench_of("cognee"), index_delay_s=10, index_delay_by_dataset={"quick": 0})
    assert caller.remember(FACT, "quick").json()["status"] == "completed"
    caller.remember(FACT, "slow")
    assert caller.recall(datasets=["quick"]).status_code == 200
    assert caller.recall(datasets=["slow"]).status_code == 409
    assert caller.recall(datasets=["quick", "slow"]).status_code == 409
    assert caller.recall().status_code == 409  # neither dataset nor session: all of them
    caller.bench.advance(10)
    assert {one["dataset_name"] for one in caller.recall().json()} == {"quick", "slow"}


def test_a_new_text_makes_its_dataset_wait_again(caller: Caller) -> None:
    caller.remember(FACT)
    caller.bench.advance(5)
    caller.remember("An unrelated second text.")
    assert caller.recall(datasets=["plans"]).status_code == 409


def test_a_dataset_that_does_not_exist_is_404(caller: Caller) -> None:
    missing = caller.recall(datasets=["nowhere"])
    assert (missing.status_code, missing.json()) == (404, {"detail": "Dataset not found: nowhere"})
    assert caller.names() == []


def test_an_empty_tenant_recalls_nothing(caller: Caller) -> None:
    assert caller.recall().json() == []


def test_keys_do_not_share_data(bench_of: BenchOf) -> None:
    one, other = (Caller(bench_of("cognee"), index_delay_s=0) for _ in range(2))
    one.remember(FACT)
    other.remember(FACT, "theirs")
    assert (one.names(), other.names()) == (["plans"], ["theirs"])
    assert other.recall(datasets=["plans"]).status_code == 404
    assert one.recall().json()[0]["id"] != other.recall().json()[0]["id"]


def test_an_entry_is_found_in_its_session_at_once_and_only_there(caller: Caller) -> None:
    stored = caller.entry(FACT, "talk")
    assert stored.json()["status"] == "session_stored"
    (item,) = caller.recall(session_id="talk").json()
    assert (item["text"], item["id"], item["dataset_name"]) == (FACT, stored.json()["entry_id"], "plans")
    assert caller.recall(session_id="other").json() == []
    assert caller.recall(datasets=["plans"]).json() == []


def test_forget_removes_one_dataset_or_everything(bench_of: BenchOf) -> None:
    caller = Caller(bench_of("cognee"), index_delay_s=0)
    for name in ("one", "two", "three"):
        caller.remember(FACT, name)
    caller.entry(FACT, "talk", "one")
    assert caller.forget(everything=False, dataset="one").json() == {"status": "success", "forgotten": ["one"]}
    assert caller.names() == ["two", "three"]
    assert caller.recall(session_id="talk").json() == []
    assert caller.recall(datasets=["one"]).status_code == 404
    assert caller.forget(everything=False, dataset="one").status_code == 404
    assert caller.forget(everything=True, dataset="two").json()["forgotten"] == ["two", "three"]
    assert caller.names() == []


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (lambda c: c.ask("POST", "remember", json={"data": FACT}), 422),
        (lambda c: c.ask("POST", "remember", data={"data": FACT, "datasetName": "x"}), 422),
        (lambda c: c.ask("POST", "remember", files={"other": ("a.txt", b"x")}, data={"datasetName": "x"}), 422),
        (lambda c: c.remember("  "), 422),
        (lambda c: c.remember(FACT, ""), 422),
        (lambda c: c.ask("POST", "remember", files={"data": ("a.txt", b"\xff\xfe")}, data={"datasetName": "x"}), 422),
        (lambda c: c.remember("x" * 10_000_001), 413),
        (lambda c: c.entry(FACT, "talk", kind="trace"), 422),
        (lambda c: c.entry("", "talk"), 422),
        (lambda c: c.entry(FACT, ""), 422),
        (
            lambda c: c.ask("POST", "remember/entry", json={"entry": {"type": "qa", "answer": 5}, "dataset_name": "x", "session_id": "s"}),
            422,
        ),
        (lambda c: c.recall(""), 422),
        (lambda c: c.recall(top_k=0), 422),
        (lambda c: c.recall(top_k=True), 422),
        (lambda c: c.recall(search_type="chunks"), 422),  # lower case: the bridge upper-cases it
        (lambda c: c.recall(datasets="plans"), 422),
        (lambda c: c.recall(system_prompt=7), 422),
        (lambda c: c.ask("POST", "recall", content=b"{"), 400),
        (lambda c: c.ask("POST", "recall", json=[]), 422),
        (lambda c: c.forget(), 422),
        (lambda c: c.forget(everything="yes"), 422),
        (lambda c: c.ask("GET", "remember"), 405),
        (lambda c: c.ask("GET", "nothing"), 404),
    ],
)
def test_what_makes_no_sense_is_refused_in_json_and_changes_nothing(
    caller: Caller, make: Callable[[Caller], httpx2.Response], status: int
) -> None:
    refused = make(caller)
    assert refused.status_code == status
    assert set(refused.json()) == {"detail"}
    assert caller.names() == []


def test_all_documented_arguments_of_recall_are_accepted(bench_of: BenchOf) -> None:
    caller = Caller(bench_of("cognee"), index_delay_s=0)
    caller.remember(FACT, custom_prompt="Names and places.")
    caller.remember(FACT.replace("silver", "brass"))
    full: dict[str, Any] = {"datasets": ["plans"], "search_type": "CHUNKS", "system_prompt": "Be brief.", "session_id": None}
    assert len(caller.recall(**full, top_k=1).json()) == 1
    assert len(caller.recall(**full, top_k=15).json()) == 2
    assert caller.recall(datasets=None, search_type=None, system_prompt=None, top_k=15).status_code == 200


@pytest.mark.parametrize("knob", ["latency_s", "answer_latency_s"])
def test_latency_is_waited_on_the_clock(bench_of: BenchOf, knob: str) -> None:
    caller = Caller(bench_of("cognee"), index_delay_s=0, **{knob: {"recall": 12}})
    caller.remember(FACT)
    pending = caller.bench.portal.start_task_soon(_recall, caller)
    caller.bench.wait_for(lambda: bool(caller.bench.clock._sleepers))
    caller.bench.advance(11.9)
    assert not pending.done()
    caller.bench.advance(0.2)
    assert pending.result(timeout=10).json()[0]["text"] == FACT


async def _recall(caller: Caller) -> httpx2.Response:
    async with httpx2.AsyncClient(verify=caller.bench._tls, trust_env=False) as http:
        url = f"{caller.bench.fake.base_url}/api/v1/recall"
        return await http.post(url, headers={"X-Api-Key": caller.key}, json={"query": QUESTION})


def test_a_write_whose_caller_gave_up_still_happens(bench_of: BenchOf) -> None:
    caller = Caller(bench_of("cognee"), latency_s={"forget": 3}, index_delay_s=0)
    caller.remember(FACT)

    async def give_up() -> None:
        async with httpx2.AsyncClient(verify=caller.bench._tls, trust_env=False) as http:
            url = f"{caller.bench.fake.base_url}/api/v1/forget"
            call = asyncio.create_task(http.post(url, headers={"X-Api-Key": caller.key}, json={"everything": True}))
            while not caller.bench.clock._sleepers:
                await asyncio.sleep(0.005)
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)

    caller.bench.portal.call(give_up)
    assert caller.names() == ["plans"]
    caller.bench.advance(3)
    caller.bench.wait_for(lambda: not caller.bench.clock._sleepers)
    assert caller.names() == []


def test_shape_faults_replace_the_answer_but_not_the_effect(bench_of: BenchOf) -> None:
    caller = Caller(bench_of("cognee"), answers={"datasets": {"not": "a list"}, "remember": None})
    assert caller.remember(FACT).content == b""
    assert caller.ask("GET", "datasets/").json() == {"not": "a list"}
    caller.bench.fake.configure(caller.key, answers={})
    assert caller.names() == ["plans"]


def test_a_failing_operation_changes_nothing(bench_of: BenchOf) -> None:
    caller = Caller(bench_of("cognee"), fail={"remember": "the store is full"})
    refused = caller.remember(FACT)
    assert (refused.status_code, refused.json()) == (500, {"detail": "the store is full"})
    assert caller.names() == []


WORDS = st.lists(st.text("bcdfghjklm", min_size=4, max_size=8).map(lambda w: w + "x"), min_size=3, max_size=6, unique=True)
NAMES = st.text("abcdefgh-_. é", min_size=1, max_size=12).filter(lambda name: bool(name.strip()))


@settings(max_examples=15, deadline=None)
@given(dataset=NAMES, told=WORDS, delay=st.integers(0, 60))
def test_a_dataset_lives_from_remember_to_forget(bench_of: BenchOf, dataset: str, told: list[str], delay: int) -> None:
    """create → not yet → get and list → search → gone; unrelated words find nothing."""
    caller = Caller(bench_of("cognee"), index_delay_s=delay)
    text = " ".join(told)
    memory_id = caller.remember(text, dataset).json()["items"][0]["id"]
    assert caller.names() == [dataset]
    assert caller.recall(text, datasets=[dataset]).status_code == (409 if delay else 200)
    caller.bench.advance(delay)
    for query in (text, told[0], text.upper()):
        (item,) = caller.recall(query, datasets=[dataset]).json()
        assert (item["text"], item["id"], item["dataset_name"]) == (text, memory_id, dataset)
    assert caller.recall(UNRELATED, datasets=[dataset]).json() == []
    assert caller.forget(dataset=dataset, everything=False).status_code == 200
    assert caller.names() == []
    assert caller.recall(text, datasets=[dataset]).status_code == 404
