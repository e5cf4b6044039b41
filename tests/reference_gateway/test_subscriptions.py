"""News reach whom they are for, and nobody else: judged when an agent asks for them, and anew whenever there are any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import anyio
import httpx2
import pytest
from mcp.server.subscriptions import ResourceUpdated, ToolsListChanged

from .conftest import TLS, Bench, Operator
from .wide import ALL, LEGACY, MODERN, Json, Wide, ask, connected, listening, methods, passed, request, served, until

LISTEN = ("subscriptions/listen", {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["memo://1"]}})
NOBODYS: dict[str, Callable[[Bench, str], Any]] = {
    "run_ended": lambda bench, run: bench.op("POST", f"/runs/{run}/end"),
    "grant_revoked": lambda bench, run: bench.op("POST", "/connections/notes/revoke"),
    "not_granted": lambda bench, run: bench.op("PUT", "/connections/notes/agents", {"agents": []}),
    "policy_block": lambda bench, run: bench.op("PUT", "/policies", {"policies": [{"id": "p", "permission": "off"}]}),
    "task_not_owned": lambda bench, run: bench.run(takes_task=True),
    "connection_inactive": lambda bench, run: bench.op("POST", "/connections/notes/state", {"state": "paused"}),
}
"""What an operator does to a run or its connection, by the reason that is given afterwards."""


@pytest.fixture
def wide() -> Iterator[Wide]:
    with served(Wide()) as provider:
        yield provider


@pytest.fixture
def bench(gateway: Operator, wide: Wide) -> Bench:
    return connected(gateway, wide, offers=ALL)


def opening(bench: Bench, token: str) -> Json:
    """The capabilities that an agent is told of at its first word."""
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    text = httpx2.post(bench.operator.mcp, json=body, headers=headers, verify=TLS, trust_env=False).text
    found: Json = httpx2.Response(200, text=text.partition("data:")[2].partition("\n")[0] or text).json()["result"]["capabilities"]
    return found


@pytest.mark.parametrize("reason", NOBODYS)
def test_who_may_not_use_a_connection_may_not_listen_to_it_either(bench: Bench, wide: Wide, reason: str) -> None:
    run, token = bench.run()
    assert opening(bench, token)["tools"] == {"listChanged": True}
    NOBODYS[reason](bench, run)
    wide.asked.clear()
    assert ask(bench, token, MODERN, LISTEN)[0]["error"]["data"] == {"gateway/reason": reason}
    assert passed(bench, run) == [("subscriptions/listen", "denied", reason)]
    assert set(opening(bench, token)) == {"tools"}
    assert opening(bench, token)["tools"] == {}
    assert wide.asked == []


@pytest.mark.parametrize("reason", NOBODYS)
def test_a_stream_ends_when_its_run_may_not_use_the_connection_any_more(bench: Bench, wide: Wide, reason: str) -> None:
    run, token = bench.run()
    with listening(bench, token, "memo://1") as told:
        anyio.run(until, lambda: wide.listening == 1)
        wide.publish(ResourceUpdated(uri="memo://1"))
        anyio.run(until, lambda: methods(told) == ["resources/updated"])
        NOBODYS[reason](bench, run)
        wide.publish(ResourceUpdated(uri="memo://1"))
        anyio.run(until, lambda: "result" in told[-1])
        assert methods(told) == ["resources/updated"]
        anyio.run(until, lambda: wide.listening == 0)
    assert passed(bench, run) == [
        ("subscriptions/listen", "success", "subscriptions/listen"), ("notifications/resources/updated", "denied", reason)
    ]  # fmt: skip


def test_a_stream_ends_with_its_token(bench: Bench, wide: Wide) -> None:
    """Nobody has to say anything for that."""
    run, token = bench.run(ttl_s=60)
    with listening(bench, token, "memo://1") as told:
        anyio.run(until, lambda: wide.listening == 1)
        bench.advance(59)
        wide.publish(ResourceUpdated(uri="memo://1"))
        anyio.run(until, lambda: methods(told) == ["resources/updated"])
        bench.advance(10)
        anyio.run(until, lambda: "result" in told[-1])
        anyio.run(until, lambda: wide.listening == 0)
    assert passed(bench, run)[-1] == ("subscriptions/listen", "denied", "token_expired")


def test_a_provider_that_nobody_may_use_any_more_is_not_listened_to(bench: Bench, wide: Wide) -> None:
    """Also when the last agent had left before; and its list is not read again."""
    _, token = bench.run()
    with listening(bench, token):
        anyio.run(until, lambda: wide.listening == 1)
    bench.op("POST", "/connections/notes/revoke")
    wide.asked.clear()
    wide.publish(ToolsListChanged())
    anyio.run(until, lambda: wide.listening == 0)
    assert "tools/list" not in wide.asked


def test_a_stream_that_may_still_hear_of_one_connection_falls_silent_about_the_other(bench: Bench, wide: Wide) -> None:
    with served(Wide()) as other:
        bench.connect("more", url=other.url, auth={"scheme": "none"}, credentials={}, offers=ALL)
        run, token = bench.run("notes", "more")
        with listening(bench, token, "notes+memo://1", "more+memo://1") as told:
            anyio.run(until, lambda: (wide.listening, other.listening) == (1, 1))
            bench.op("POST", "/connections/notes/revoke")
            for _ in range(3):
                wide.publish(ResourceUpdated(uri="memo://1"))
            anyio.run(until, lambda: len(passed(bench, run)) == 3)
            other.publish(ResourceUpdated(uri="memo://1"))
            anyio.run(until, lambda: methods(told) == ["resources/updated"])
            assert told[-1]["params"]["uri"] == "more+memo://1"
    assert passed(bench, run)[2:] == [("notifications/resources/updated", "denied", "grant_revoked")]


def test_what_is_regained_is_heard_of_again(bench: Bench, wide: Wide) -> None:
    with served(Wide()) as other:
        bench.connect("more", url=other.url, auth={"scheme": "none"}, credentials={}, offers=ALL)
        run, token = bench.run("notes", "more")
        with listening(bench, token, "notes+memo://1") as told:
            anyio.run(until, lambda: wide.listening == 1)
            for agents, records, heard in (([], 3, 0), (None, 3, 1), ([], 4, 1)):
                bench.op("PUT", "/connections/notes/agents", {"agents": agents})
                wide.publish(ResourceUpdated(uri="memo://1"))
                anyio.run(until, lambda records=records, heard=heard: (len(passed(bench, run)), len(methods(told))) == (records, heard))


# agents of the handshake era


async def subscribed(session: Any, method: str = "resources/subscribe", uri: str = "memo://1") -> Json:
    return await request(session, method, uri=uri)


def subscriptions(provider: Wide) -> list[tuple[str, str]]:
    return [(method.removeprefix("resources/"), str(uri)) for method, uri in provider.seen if "subscribe" in method]


def test_a_stranger_may_not_subscribe_to_what_somebody_else_has_already(bench: Bench, wide: Wide) -> None:
    _, token = bench.run()
    run, strange = bench.run(agent="stranger")

    async def go() -> list[Json]:
        async with bench.agent(token, LEGACY) as known:
            assert "error" not in await subscribed(known)
            await anyio.to_thread.run_sync(lambda: bench.op("PUT", "/connections/notes/agents", {"agents": ["agent-1"]}))
            async with bench.agent(strange, LEGACY) as session:
                return [await subscribed(session, method) for method in ("resources/subscribe", "resources/unsubscribe")]

    assert [each["error"]["data"] for each in anyio.run(go)] == [{"gateway/reason": "not_granted"}] * 2
    assert passed(bench, run) == [("resources/subscribe", "denied", "not_granted"), ("resources/unsubscribe", "denied", "not_granted")]
    assert subscriptions(wide) == [("subscribe", "memo://1")]


def test_one_uri_at_two_providers_is_two_resources(bench: Bench, wide: Wide) -> None:
    with served(Wide()) as other:
        bench.connect("more", url=other.url, auth={"scheme": "none"}, credentials={}, offers=ALL)
        tokens = [bench.run(name)[1] for name in ("notes", "more")]

        async def go() -> None:
            async with bench.agent(tokens[0], LEGACY) as one, bench.agent(tokens[1], LEGACY) as two:
                for method in ("resources/subscribe", "resources/unsubscribe"):
                    for session in (one, two):
                        assert "error" not in await subscribed(session, method)

        anyio.run(go)
        assert subscriptions(wide) == subscriptions(other) == [("subscribe", "memo://1"), ("unsubscribe", "memo://1")]


def test_another_connection_of_the_same_name_is_told_anew(bench: Bench, wide: Wide) -> None:
    _, token = bench.run()
    with served(Wide()) as other:

        async def go() -> None:
            async with bench.agent(token, LEGACY) as one, bench.agent(token, LEGACY) as two:
                assert "error" not in await subscribed(one)
                await anyio.to_thread.run_sync(lambda: bench.op("DELETE", "/connections/notes"))
                await anyio.to_thread.run_sync(lambda: bench.connect(url=other.url, auth={"scheme": "none"}, credentials={}, offers=ALL))
                assert "error" not in await subscribed(two)

        anyio.run(go)
        assert subscriptions(other) == [("subscribe", "memo://1")]


def test_what_the_provider_refused_nobody_has_subscribed_to(bench: Bench, wide: Wide) -> None:
    run, token = bench.run()

    async def go() -> list[Json]:
        async with bench.agent(token, LEGACY) as one, bench.agent(token, LEGACY) as two:
            return [await subscribed(session, uri="memo://none") for session in (one, two)]

    assert [each["error"]["message"] for each in anyio.run(go)] == ["no such memo"] * 2
    assert passed(bench, run) == [("resources/subscribe", "failure", "remote_mcp_error")] * 2


def test_a_subscription_that_the_provider_need_not_be_told_of_is_recorded_all_the_same(bench: Bench, wide: Wide) -> None:
    run, token = bench.run()

    async def go() -> None:
        async with bench.agent(token, LEGACY) as one, bench.agent(token, LEGACY) as two:
            for session in (one, two):
                assert "error" not in await subscribed(session)

    anyio.run(go)
    assert passed(bench, run) == [("resources/subscribe", "success", "resources/subscribe")] * 2
    assert subscriptions(wide) == [("subscribe", "memo://1")]


@pytest.mark.parametrize("reason", NOBODYS)
def test_a_session_hears_nothing_more_of_what_its_run_may_not_use(bench: Bench, wide: Wide, reason: str) -> None:
    run, token = bench.run()
    _, another = bench.run()  # whose stream brings the news to the gateway
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(message.method)

    async def go() -> None:
        async with bench.agent(token, LEGACY, message_handler=hear) as session:
            assert "error" not in await subscribed(session)
            await anyio.to_thread.run_sync(lambda: wide.publish(ResourceUpdated(uri="memo://1")))
            await until(lambda: heard == ["notifications/resources/updated"])
            await anyio.to_thread.run_sync(lambda: NOBODYS[reason](bench, run))
            await anyio.to_thread.run_sync(lambda: wide.publish(ResourceUpdated(uri="memo://1")))
            await until(lambda: passed(bench, run)[-1] == ("notifications/resources/updated", "denied", reason))
            await session.send_ping()
            assert heard == ["notifications/resources/updated"]

    with listening(bench, another, "memo://1"):
        anyio.run(until, lambda: wide.listening == 1)
        anyio.run(go)
