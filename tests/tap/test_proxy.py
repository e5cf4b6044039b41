"""The proxy on bare sockets: nothing is buffered, nothing is added, and no end is made to look clean that was not."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import httpx2
import pytest

from harness.errors import UsageError
from harness.tap import proxy

pytestmark = pytest.mark.anyio

EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def body_of(head: bytes, reader: asyncio.StreamReader) -> bytes:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return await reader.readexactly(int(line.partition(b":")[2]))
    return b""


def post(body: bytes, *extra: bytes) -> bytes:
    return b"\r\n".join([b"POST", b"Content-Type: application/json", b"Content-Length: %d" % len(body), *extra])


async def test_response_chunks_pass_as_they_come(bench: Any) -> None:
    go_on = asyncio.Event()

    async def upstream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(EVENTS + chunk(b": hello\n\n"))
        await go_on.wait()
        writer.write(chunk(b"data: 2\n\n") + chunk(b""))

    async with bench.scripted(upstream) as url:
        mount = bench.tap.mount("p", url)
        async with bench.http.stream("GET", mount.url("/mcp")) as response:
            parts = response.aiter_raw()
            assert await anext(parts) == b": hello\n\n"
            assert mount.exchanges[0].outcome is None
            go_on.set()
            assert b"".join([part async for part in parts]) == b"data: 2\n\n"
        assert (mount.exchanges[0].outcome, mount.exchanges[0].response_bytes) == ("answered", 18)


async def test_an_answer_event_is_logged_before_its_stream_ends(bench: Any) -> None:
    go_on = asyncio.Event()

    async def upstream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await body_of(head, reader)
        writer.write(EVENTS + chunk(b'event: message\ndata: {"jsonrpc":"2.0","id":"7","result":{}}\n\n'))  # another id type
        writer.write(chunk(b'event: message\r\ndata: {"jsonrpc":"2.0",\r\ndata: "id":7,"result":{"isError":true}}\r\n\r\n'))
        await go_on.wait()
        writer.write(chunk(b""))

    async with bench.scripted(upstream) as url:
        mount = bench.tap.mount("p", url)
        async with bench.http.stream("POST", mount.url("/mcp"), json=bench.call("x", rpc_id=7)) as response:
            seen = b""
            async for part in response.aiter_raw():
                seen += part
                if b"isError" in seen:
                    (logged,) = mount.exchanges
                    assert (logged.outcome, logged.is_error, logged.rpc_id) == ("answered", True, "7")
                    go_on.set()


async def test_request_bodies_that_are_not_json_stream(bench: Any) -> None:
    first = asyncio.Event()

    async def upstream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"transfer-encoding: chunked" in head.lower()
        assert await reader.readexactly(8) == b"3\r\none\r\n"
        first.set()
        assert await reader.readexactly(13) == b"3\r\ntwo\r\n0\r\n\r\n"
        writer.write(bench.answered(b"{}"))

    async def parts() -> Any:
        yield b"one"
        await first.wait()
        yield b"two"

    async with bench.scripted(upstream) as url:
        mount = bench.tap.mount("p", url)
        answer = await bench.http.post(mount.url("/up"), content=parts(), headers={"content-type": "application/octet-stream"})
        assert answer.status_code == 200
        assert mount.exchanges[0].request_bytes == 6


async def test_headers_go_through_untouched_but_for_the_hops(bench: Any) -> None:
    heads: list[bytes] = []

    async def upstream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(head)
        await body_of(head, reader)
        writer.write(bench.answered(b"{}", extra=b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nConnection: x-hop\r\nX-Hop: 1\r\nX-End: 1\r\n"))

    async with bench.scripted(upstream) as url:
        mount = bench.tap.mount("p", url + "/base/")
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping", "n":1.10}'
        head = post(body, b"Authorization: Bearer k", b"Connection: keep-alive, X-Mine", b"X-Mine: 1", b"X-Two: 1", b"X-Two: 2", b"TE: trailers")
        async with bench.raw(mount.url("/mcp/a%2Fb?q=%20&r"), head, body) as (reader, _):
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
        lines = heads[0].split(b"\r\n")
        assert lines[0] == b"POST /base/mcp/a%2Fb?q=%20&r HTTP/1.1"
        assert [line for line in lines[1:] if line] == [
            b"host: " + url.removeprefix("http://").encode(), b"content-type: application/json", b"authorization: Bearer k",
            b"x-two: 1", b"x-two: 2", b"content-length: %d" % len(body),
        ]  # fmt: skip
        assert b"set-cookie: a=1\r\nset-cookie: b=2" in answer
        assert b"x-end: 1" in answer
        assert b"x-hop" not in answer
        assert b"server:" not in answer
        assert b"date:" not in answer
        assert mount.exchanges[0].path == "/mcp/a%2Fb"


@pytest.mark.parametrize(("asked", "expected"), [({}, "none"), ({"accept-encoding": "gzip, br"}, "identity")])
async def test_compression_is_never_asked_for(bench: Any, asked: dict[str, str], expected: str) -> None:
    async with bench.served(bench.rest_app()) as url:
        mount = bench.tap.mount("p", url)
        request = bench.http.build_request("GET", mount.url("/api/v1/datasets/"))
        del request.headers["accept-encoding"]
        request.headers.update(asked)
        assert (await bench.http.send(request)).headers["x-seen-encoding"] == expected


async def test_a_provider_that_compresses_all_the_same_is_read(bench: Any) -> None:
    packed = gzip.compress(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"ok": 1}}).encode())

    async def upstream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await body_of(head, reader)
        writer.write(bench.answered(packed, extra=b"Content-Encoding: gzip\r\n"))

    async with bench.scripted(upstream) as url:
        mount = bench.tap.mount("p", url)
        answer = await bench.http.post(mount.url("/"), json=bench.call("x"))
        assert answer.json()["result"] == {"ok": 1}
        assert (mount.exchanges[0].result, mount.exchanges[0].response_bytes) == ({"ok": 1}, len(packed))


async def test_redirects_to_the_provider_lead_through_the_tap(bench: Any) -> None:
    locations: list[bytes] = []

    async def upstream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 307 Go\r\nContent-Length: 0\r\nLocation: %s\r\n\r\n" % locations[0])

    async with bench.scripted(upstream) as url:
        mount = bench.tap.mount("p", url)
        elsewhere = [(other, other) for other in (url + "0/x", "https://else/x", "/x")]
        for location, expected in [(url + "/there?x=1", mount.url("/there?x=1")), (url, mount.url()), *elsewhere]:
            locations[:] = [location.encode()]
            assert (await bench.http.get(mount.url("/a"))).headers["location"] == expected


@pytest.mark.parametrize("when", ["before the head", "within the body"])
async def test_a_gateway_that_hangs_up_ends_the_provider_side_at_once(bench: Any, when: str) -> None:
    arrived, ended = asyncio.Event(), asyncio.Event()

    async def upstream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await body_of(head, reader)
        arrived.set()
        if when == "within the body":
            writer.write(EVENTS + chunk(b": x\n\n"))
        assert await reader.read(1) == b""
        ended.set()

    async with bench.scripted(upstream) as url:
        mount = bench.tap.mount("p", url)
        body = json.dumps(bench.call("x")).encode()
        async with bench.raw(mount.url("/mcp"), post(body), body) as (reader, _):
            if when == "within the body":
                await reader.readuntil(b": x")
            await asyncio.wait_for(arrived.wait(), 10)
        await asyncio.wait_for(ended.wait(), 10)
        (seen,) = await mount.wait_for(lambda seen: seen[0].outcome is not None)
        assert (seen.outcome, seen.forwarded) == ("client_gone", True)


async def test_a_gateway_that_hangs_up_within_its_request_dispatches_nothing(bench: Any) -> None:
    async def upstream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise AssertionError("nothing may arrive")

    async with bench.scripted(upstream) as url:
        mount = bench.tap.mount("p", url)
        async with bench.raw(mount.url("/mcp"), post(b"x" * 100), b"half"):
            await mount.wait_for(lambda seen: len(seen) == 1)
        (seen,) = await mount.wait_for(lambda seen: seen[0].outcome is not None)
        assert (seen.outcome, seen.forwarded, seen.status) == ("client_gone", False, None)


async def test_a_provider_that_is_not_there_resets_the_gateway(bench: Any) -> None:
    async with bench.served(bench.rest_app()) as url:
        pass
    mount = bench.tap.mount("p", url)
    with pytest.raises(httpx2.NetworkError):
        await bench.http.post(mount.url("/mcp"), json=bench.call("x"))
    assert (mount.exchanges[0].outcome, mount.exchanges[0].status) == ("upstream_failed", None)


BROKEN = {
    "closes without a word": b"",
    "half a head": b"HTTP/1.1 200 OK\r\nContent-",
    "not HTTP": b"SSH-2.0-server\r\n\r\n",
    "half a counted body": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    "half a chunked body": EVENTS + chunk(b"data: 1\n\n"),
}


@pytest.mark.parametrize("sent", list(BROKEN.values()), ids=list(BROKEN))
async def test_a_provider_that_breaks_off_is_never_a_clean_end(bench: Any, sent: bytes) -> None:
    async def upstream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await body_of(head, reader)
        writer.write(sent)
        raise ConnectionError

    async with bench.scripted(upstream) as url:
        mount = bench.tap.mount("p", url)
        with pytest.raises((httpx2.NetworkError, httpx2.RemoteProtocolError)):
            await bench.http.post(mount.url("/mcp"), json=bench.call("x"))
        assert mount.exchanges[0].outcome == "upstream_failed"
        assert mount.exchanges[0].status == (200 if sent.startswith(b"HTTP/1.1 200 OK\r\nContent-Type") else None)


async def test_half_a_body_is_a_reset_for_a_client_that_ends_bodies_by_closing(bench: Any) -> None:
    async def upstream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(EVENTS + chunk(b"data: 1\n\n"))
        raise ConnectionError

    async with bench.scripted(upstream) as url:
        mount = bench.tap.mount("p", url)
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx2.URL(mount.url()).port)
        writer.write(b"GET /m/p/x HTTP/1.0\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()


async def test_unmounting_breaks_off_what_is_in_flight(bench: Any) -> None:
    ended = asyncio.Event()

    async def upstream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(EVENTS)
        await reader.read(1)
        ended.set()

    async with bench.scripted(upstream) as url:
        mount = bench.tap.mount("p", url)
        async with bench.http.stream("GET", mount.url("/mcp")) as response:
            mount.close()
            with pytest.raises(httpx2.NetworkError):
                await response.aread()
        await asyncio.wait_for(ended.wait(), 10)
        assert (await mount.wait_for(lambda seen: seen[0].outcome is not None))[0].outcome == "unmounted"
        bench.tap.mount("p", url)  # the name is free again


async def test_a_batch_is_refused_and_counted(bench: Any) -> None:
    async with bench.served(bench.rest_app()) as url:
        mount = bench.tap.mount("p", url)
        answer = await bench.http.post(mount.url("/api/v1/remember"), json=[bench.call("a"), bench.call("b")])
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, -32600)
        (seen,) = mount.dispatches()
        assert (seen.rpc_method, seen.outcome, seen.fault, seen.forwarded) == ("batch", "fault", "batch-refused", False)


async def test_a_request_too_large_to_witness_is_refused(bench: Any) -> None:
    async with bench.served(bench.rest_app()) as url:
        mount = bench.tap.mount("p", url)
        body = b"[" + b"1," * (proxy.REQUEST_BOUND // 2) + b"1]"
        try:
            answer = await bench.http.post(mount.url("/api/v1/remember"), content=body, headers={"content-type": "application/json"})
            assert answer.status_code == 413
        except (httpx2.WriteError, httpx2.ReadError):
            pass  # refused while the client was still writing
        (seen,) = mount.exchanges
        assert (seen.status, seen.fault, seen.forwarded) == (413, "request-too-large", False)


async def test_a_large_result_is_known_by_its_digest(bench: Any) -> None:
    async with bench.provider() as (_, mount), bench.session(mount.url("/mcp"), "2026-07-28") as session:
        await session.call_tool("search", {"query": "x" * 70_000})
        (seen,) = mount.dispatches()
        assert seen.result is None
        assert len(seen.result_digest) == 64
        assert len(seen.arguments["query"]) == 70_000


async def test_unreadable_requests_pass_on_and_are_logged(bench: Any) -> None:
    async with bench.served(bench.rest_app()) as url:
        mount = bench.tap.mount("p", url)
        odd = [b"{", b"\xff", b"[" * 100_000, b'{"a":NaN}', b"3", b'{"jsonrpc":"2.0","id":{},"method":7,"params":[]}']
        for body in odd:
            answer = await bench.http.post(mount.url("/api/v1/remember"), content=body, headers={"content-type": "application/json"})
            assert answer.json()["stored"] == len(body)
        assert [e.request_bytes for e in mount.exchanges] == [len(body) for body in odd]
        assert {e.rpc_method for e in mount.exchanges} == {None}


async def test_numbers_beyond_a_double_have_no_digest(bench: Any) -> None:
    async with bench.served(bench.rest_app()) as url:
        mount = bench.tap.mount("p", url)
        for number in (b"1e400", b"9" * 5000):
            body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":%s}}}' % number
            await bench.http.post(mount.url("/api/v1/remember"), content=body, headers={"content-type": "application/json"})
        infinite, huge = mount.dispatches("x")
        assert infinite.arguments_digest is None
        assert len(huge.arguments_digest) == 64  # integers are exact whatever their size


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified", b"200 OK", b"299 Odd", b"503 Down"])
@pytest.mark.parametrize("method", ["HEAD", "GET", "DELETE", "OPTIONS"])
async def test_answers_without_a_body(bench: Any, method: str, status: bytes) -> None:
    async def upstream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"content-length" not in head.lower()
        length = b"" if status.startswith((b"204", b"304")) else b"Content-Length: %d\r\n" % (7 if method == "HEAD" else 0)
        writer.write(b"HTTP/1.1 " + status + b"\r\n" + length + b"\r\n")

    async with bench.scripted(upstream) as url:
        mount = bench.tap.mount("p", url)
        for _ in range(2):  # the connection is still good
            answer = await bench.http.request(method, mount.url("/x"))
            assert (answer.status_code, answer.content) == (int(status[:3]), b"")
        assert [(e.outcome, e.response_bytes) for e in mount.exchanges] == [("answered", 0)] * 2


async def test_a_status_that_is_none_is_a_broken_provider(bench: Any) -> None:
    async def upstream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n")

    async with bench.scripted(upstream) as url:
        mount = bench.tap.mount("p", url)
        with pytest.raises(httpx2.NetworkError):
            await bench.http.get(mount.url("/x"))
        assert mount.exchanges[0].outcome == "upstream_failed"


async def test_connections_to_the_provider_are_kept_until_it_closes_them(bench: Any) -> None:
    connections = set()

    async def upstream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(writer)
        closing = b"/close" in head
        writer.write(bench.answered(b"{}", extra=b"Connection: close\r\n" if closing else b""))
        if b"/drop" in head or closing:
            raise ConnectionError  # also without having said so

    async with bench.scripted(upstream) as url:
        mount = bench.tap.mount("p", url)
        for path, expected in [("/", 1), ("/", 1), ("/close", 1), ("/", 2), ("/drop", 2), ("/", 3)]:
            assert (await bench.http.get(mount.url(path))).status_code == 200
            assert len(connections) == expected
            for _ in range(10):
                await asyncio.sleep(0)  # all ends are in this event loop: let the end of the connection arrive


@pytest.mark.parametrize(
    ("name", "upstream", "host"),
    [("", "http://127.0.0.1:1", None), ("a/b", "http://127.0.0.1:1", None), ("x", "ftp://127.0.0.1", None), ("x", "http://", None),
     ("x", "http://127.0.0.1:1?q", None), ("taken", "http://127.0.0.1:1", None), ("x", "http://127.0.0.1:1", "T.example.com")],
)  # fmt: skip
async def test_a_bad_mount_is_refused(bench: Any, name: str, upstream: str, host: str | None) -> None:
    bench.tap.mount("taken", "http://127.0.0.1:1", host="t.example.com")
    with pytest.raises(UsageError):
        bench.tap.mount(name, upstream, host=host)
