"""The stand-in of Mem0's REST API, asked over loopback as the vendor's client asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.clock import TestClock
from harness.fake.kit import serve_app
from harness.local.mem0_rest import INDEX_DELAY_S, Mem0Rest

KEY = "m0-test"
Talk = Callable[["Api"], Awaitable[None]]


class Api:
    def __init__(self, http: httpx2.AsyncClient, clock: TestClock) -> None:
        self._http = http
        self._clock = clock

    async def ask(self, method: str, path: str, body: Any = None, *, status: int = 200, key: str = KEY) -> Any:
        answer = await self._http.request(method, path, json=body, headers={"Authorization": f"Token {key}"})
        assert answer.status_code == status, answer.text
        return answer.json()

    async def add(self, text: str, **scope: str) -> None:
        said = await self.ask("POST", "/v3/memories/add/", {"messages": [{"role": "user", "content": text}], "enable_graph": False, **scope})
        assert said["status"] == "PENDING"
        await self._clock.advance(INDEX_DELAY_S)

    async def search(self, query: str, **filters: Any) -> list[dict[str, Any]]:
        found = await self.ask("POST", "/v3/memories/search/", {"query": query, "filters": filters})
        return list(found["results"])

    async def wait(self) -> None:
        await self._clock.advance(INDEX_DELAY_S)


def talk(what: Talk) -> None:
    async def whole() -> None:
        clock = TestClock()
        async with serve_app(Mem0Rest(KEY, clock).app) as base, httpx2.AsyncClient(base_url=base, trust_env=False, verify=False) as http:
            await what(Api(http, clock))

    asyncio.run(whole())


TEXTS = st.text(alphabet="abcdefghij äß", min_size=1, max_size=40).filter(str.strip)


@settings(max_examples=15, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=4, unique=True), newer=TEXTS)
def test_create_get_list_search_update_delete_gone(texts: list[str], newer: str) -> None:
    async def family(api: Api) -> None:
        for text in texts:
            await api.add(text, user_id="ann")
        await api.add("somebody else's", user_id="bob")
        listed = await api.ask("POST", "/v3/memories/", {"filters": {"AND": [{"user_id": "ann"}]}})
        assert [m["memory"] for m in listed["results"]] == texts
        first = listed["results"][0]
        path = f"/v1/memories/{first['id']}/"
        assert await api.ask("GET", path) == first
        hits = await api.search(first["memory"], user_id="ann")
        assert first["id"] in [hit["id"] for hit in hits]
        assert {hit["user_id"] for hit in hits} == {"ann"}
        assert (await api.ask("PUT", path, {"text": newer}))["memory"] == newer
        assert (await api.ask("GET", path))["memory"] == newer
        await api.ask("DELETE", path)
        assert await api.ask("GET", path, status=404) == {"detail": "Memory not found!"}
        left = await api.ask("POST", "/v3/memories/", {"filters": {"user_id": "ann"}})
        assert left["count"] == len(texts) - 1

    talk(family)


def test_an_accepted_write_is_no_memory_yet() -> None:
    async def early(api: Api) -> None:
        body = {"messages": [{"role": "user", "content": "a silver compass"}], "user_id": "ann"}
        await api.ask("POST", "/v3/memories/add/", body)
        assert await api.search("compass", user_id="ann") == []
        await api.wait()
        assert [m["memory"] for m in await api.search("compass", user_id="ann")] == ["a silver compass"]

    talk(early)


def test_unrelated_text_finds_nothing() -> None:
    async def unrelated(api: Api) -> None:
        await api.add("The navigator keeps a silver compass.", user_id="ann")
        assert await api.search("quarterly tax forms", user_id="ann") == []

    talk(unrelated)


@pytest.mark.parametrize("authorization", ["Token other", f"Bearer {KEY}", KEY, ""])
@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/ping/"), ("POST", "/v3/memories/add/"), ("DELETE", "/v1/memories/x/")])
def test_no_other_credential_is_taken(authorization: str, method: str, path: str) -> None:
    async def stranger(api: Api) -> None:
        answer = await api._http.request(method, path, headers={"Authorization": authorization} if authorization else {})
        assert answer.status_code == 401

    talk(stranger)


def test_the_key_is_proven_by_ping() -> None:
    async def ping(api: Api) -> None:
        said = await api.ask("GET", "/v1/ping/")
        assert said["status"] == "ok"
        assert said["org_id"]
        assert said["project_id"]

    talk(ping)


@settings(max_examples=10, deadline=None)
@given(total=st.integers(0, 7), size=st.integers(1, 4))
def test_pages_hold_every_memory_once(total: int, size: int) -> None:
    async def pages(api: Api) -> None:
        for number in range(total):
            await api.add(f"fact {number}", user_id="ann")
        path: str | None = f"/v3/memories/?page=1&page_size={size}"
        seen = []
        while path:
            page = await api.ask("POST", path, {"filters": {"user_id": "ann"}})
            seen += [m["memory"] for m in page["results"]]
            path = page["next"]
        assert seen == [f"fact {number}" for number in range(total)]

    talk(pages)


def test_deleting_a_scope_keeps_the_entity_and_deleting_the_entity_takes_both() -> None:
    async def scopes(api: Api) -> None:
        await api.add("one", user_id="ann")
        await api.add("two", user_id="ann", agent_id="helper")
        await api.ask("DELETE", "/v1/memories/?user_id=ann")
        entities = (await api.ask("GET", "/v1/entities/"))["results"]
        assert {(e["type"], e["name"], e["total_memories"]) for e in entities} == {("user", "ann", 0), ("agent", "helper", 0)}
        await api.add("three", agent_id="helper")
        await api.ask("DELETE", "/v2/entities/agent/helper/")
        assert await api.search("three", agent_id="helper") == []
        assert [e["name"] for e in (await api.ask("GET", "/v1/entities/"))["results"]] == ["ann"]
        assert (await api.ask("DELETE", "/v2/entities/agent/helper/", status=404))["detail"] == "Entity not found!"

    talk(scopes)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v3/memories/add/", {"messages": "text", "user_id": "a"}, 400),
        ("POST", "/v3/memories/add/", {"messages": [{"role": "user", "content": "x"}]}, 400),
        ("POST", "/v3/memories/add/", ["x"], 400),
        ("POST", "/v3/memories/search/", {"query": " "}, 400),
        ("POST", "/v3/memories/search/", {"query": "x", "limit": 0}, 400),
        ("POST", "/v3/memories/search/", {"query": "x", "filters": {"colour": "red"}}, 400),
        ("POST", "/v3/memories/?page=0", {}, 400),
        ("POST", "/v3/memories/?page_size=two", {}, 400),
        ("DELETE", "/v1/memories/", None, 400),
        ("PUT", "/v1/memories/nobody/", {"text": "x"}, 404),
        ("DELETE", "/v1/memories/nobody/", None, 404),
    ],
)
def test_bad_requests_say_why(method: str, path: str, body: Any, status: int) -> None:
    async def bad(api: Api) -> None:
        assert (await api.ask(method, path, body, status=status))["detail"]

    talk(bad)
