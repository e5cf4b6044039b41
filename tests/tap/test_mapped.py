"""Mapped mounts: the gateway dials the provider's real name, the tap answers under a test authority."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import httpx2
import pytest

from harness.tap import Tap

pytestmark = pytest.mark.anyio

HOST = "t123.aws.cognee.ai"
OPERATIONS = [("POST", "/api/v1/remember", "remember"), ("POST", "/api/v1/recall", "recall")]


async def over_tls(bench: Any, host: str, path: str, **kwargs: Any) -> httpx2.Response:
    """A request to the real name, its connection mapped to the tap; the certificate is checked for the real name."""
    answer: httpx2.Response = await bench.http.post(
        f"https://{bench.tap.tls_address}{path}", headers={"host": host}, extensions={"sni_hostname": host}, **kwargs
    )
    return answer


async def test_a_mapped_host_is_served_under_its_own_name(bench: Any) -> None:
    async with bench.served(bench.rest_app()) as url:
        mount = bench.tap.mount("cognee", url, host=HOST, operations=OPERATIONS)
        assert mount.url("/api/v1/remember") == f"https://{HOST}/api/v1/remember"
        answer = await over_tls(bench, HOST, "/api/v1/remember", json={"data": "x"})
        assert answer.json() == {"stored": len('{"data":"x"}'), "host": url.removeprefix("http://")}
        assert (await over_tls(bench, HOST.upper() + ":443", "/api/v1/recall", json={})).status_code == 409
        assert [(e.tool, e.status, e.path) for e in mount.dispatches()] == [("remember", 200, "/api/v1/remember"), ("recall", 409, "/api/v1/recall")]
        assert bench.tap.strays == []


async def test_wildcards_match_one_label_and_exact_names_come_first(bench: Any) -> None:
    async with bench.served(bench.rest_app()) as url:
        wild = bench.tap.mount("wild", url, host="*.aws.cognee.ai")
        exact = bench.tap.mount("exact", url, host=HOST)
        for host, status in [(HOST, 200), ("other.aws.cognee.ai", 200), ("a.b.aws.cognee.ai", 404), ("aws.cognee.ai", 404)]:
            assert (await over_tls(bench, host, "/api/v1/remember", json={})).status_code == status
        assert (len(exact.exchanges), len(wild.exchanges)) == (1, 1)
        assert [s.host for s in bench.tap.strays] == ["a.b.aws.cognee.ai", "aws.cognee.ai"]


async def test_the_two_listeners_do_not_serve_each_others_mounts(bench: Any) -> None:
    async with bench.served(bench.rest_app()) as url:
        bench.tap.mount("mapped", url, host=HOST)
        plain = bench.tap.mount("plain", url)
        assert (await bench.http.post(f"{bench.tap.url}/m/mapped/api/v1/remember", json={})).status_code == 404
        assert (await bench.http.post(f"{bench.tap.url}/api/v1/remember", json={}, headers={"host": HOST})).status_code == 404
        assert (await over_tls(bench, "x.example.com", "/m/plain/api/v1/remember", json={})).status_code == 404
        assert plain.exchanges == ()
        assert len(bench.tap.strays) == 3


async def test_the_certificate_is_for_the_name_that_was_asked_for(bench: Any) -> None:
    host, _, port = bench.tap.tls_address.partition(":")
    trusting = ssl.create_default_context(cafile=str(bench.tap.ca_file))
    _, writer = await asyncio.open_connection(host, int(port), ssl=trusting, server_hostname=HOST)
    names = [name for _, name in writer.get_extra_info("peercert")["subjectAltName"]]
    writer.close()
    await writer.wait_closed()
    assert names == [HOST]
    with pytest.raises(ssl.SSLCertVerificationError):
        await asyncio.open_connection(host, int(port), ssl=ssl.create_default_context(), server_hostname=HOST)
    with pytest.raises(OSError):  # an address is no server name, so there is no certificate
        await asyncio.open_connection(host, int(port), ssl=trusting, server_hostname="127.0.0.1")


async def test_redirects_keep_the_real_name(bench: Any) -> None:
    async with bench.served(bench.rest_app()) as url:
        bench.tap.mount("cognee", url, host=HOST)
        answer = await bench.http.get(f"https://{bench.tap.tls_address}/api/v1/datasets", headers={"host": HOST}, extensions={"sni_hostname": HOST})
        assert answer.headers["location"] == f"https://{HOST}/api/v1/datasets/"


async def test_hanging_up_and_breaking_off_work_through_tls(bench: Any) -> None:
    ended = asyncio.Event()

    async def upstream(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n: x\n\n\r\n")
        if b"/break" in head:
            raise ConnectionError
        await reader.read()
        ended.set()

    async with bench.scripted(upstream) as url:
        mount = bench.tap.mount("cognee", url, host=HOST)
        real = {"headers": {"host": HOST}, "extensions": {"sni_hostname": HOST}}
        async with bench.http.stream("GET", f"https://{bench.tap.tls_address}/x", **real) as answer:
            assert await anext(answer.aiter_raw()) == b": x\n\n"
        await asyncio.wait_for(ended.wait(), 10)
        with pytest.raises((httpx2.ReadError, httpx2.RemoteProtocolError)):
            await bench.http.get(f"https://{bench.tap.tls_address}/break", **real)
        await mount.wait_for(lambda seen: [e.outcome for e in seen] == ["client_gone", "upstream_failed"])


async def test_the_authority_file_goes_with_the_tap(bench: Any) -> None:
    async with Tap(bench.clock, bench.sequencer) as tap:
        path = tap.ca_file
        assert path.read_bytes().startswith(b"-----BEGIN CERTIFICATE-----")
    assert not path.exists()
