"""The way out: the judged address is the dialled one; mapping, certificates, redirects, proxies.

No test dials anything but loopback: resolvers are stubs, and where an address would be public, the dialler is one too.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpcore2
import httpx2
import pytest
import trustme

from reference_gateway.egress import Egress, EgressRefused, UrlRejected
from reference_gateway.errors import GatewayError

PUBLIC = "93.184.215.14"


@dataclass
class Dialler(httpcore2.AsyncNetworkBackend):
    """Records where connections would go; `to` is a loopback port that it leads them to instead, or None to refuse them."""

    to: int | None = None
    dialled: list[tuple[str, int]] = field(default_factory=list)

    async def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, local_address: str | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        self.dialled.append((host, port))
        if self.to is None:
            raise httpcore2.ConnectError("refused")
        return await httpcore2.AnyIOBackend().connect_tcp("127.0.0.1", self.to, timeout=timeout)


@dataclass
class Resolver:
    answers: list[Sequence[str]]
    asked: list[tuple[str, int]] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if not answer:
            raise OSError("no such name")
        return answer


def fetch(egress: Egress, url: str, times: int = 1) -> list[Exception | int]:
    async def run() -> list[Exception | int]:
        seen: list[Exception | int] = []
        for _ in range(times):
            try:
                seen.append((await egress.client.get(url)).status_code)
            except (httpx2.HTTPError, GatewayError) as error:
                seen.append(error)
        await egress.aclose()
        return seen

    return asyncio.run(run())


def test_a_name_is_resolved_once_and_the_judged_address_is_dialled() -> None:
    dialler, resolver = Dialler(), Resolver([[PUBLIC, "2606:4700::1111", PUBLIC], ["127.0.0.1"]])
    (failed,) = fetch(Egress(resolver=resolver, dialler=dialler), "https://provider.example.com/mcp")
    assert isinstance(failed, httpx2.ConnectError)
    assert resolver.asked == [("provider.example.com", 443)]
    assert dialler.dialled == [(PUBLIC, 443), ("2606:4700::1111", 443)]


@pytest.mark.parametrize("answer", [["127.0.0.1"], [PUBLIC, "10.0.0.1"], ["::1", PUBLIC], ["64:ff9b::a9fe:a9fe"], ["fe80::1%eth0"], ["nonsense"], []])
@pytest.mark.parametrize("allow_loopback", [False, True])
def test_a_name_that_leads_inside_is_never_dialled(answer: list[str], allow_loopback: bool) -> None:
    dialler = Dialler()
    egress = Egress(resolver=Resolver([answer]), dialler=dialler, allow_loopback=allow_loopback)
    (failed,) = fetch(egress, "https://provider.example.com/mcp")
    assert isinstance(failed, EgressRefused)
    assert isinstance(failed, httpx2.ConnectError)
    assert dialler.dialled == []


def test_a_name_that_changes_its_address_is_judged_at_every_connection() -> None:
    dialler = Dialler()
    resolver = Resolver([[PUBLIC], ["127.0.0.1"], [PUBLIC, "169.254.169.254"]])
    seen = fetch(Egress(resolver=resolver, dialler=dialler), "https://provider.example.com/mcp", times=3)
    assert [isinstance(error, EgressRefused) for error in seen] == [False, True, True]
    assert dialler.dialled == [(PUBLIC, 443)]


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1/", "http://provider.example.com/", "https://user:pw@provider.example.com/", "https://2130706433/"]
)
def test_the_client_itself_refuses_what_the_rules_refuse(url: str) -> None:
    dialler = Dialler()
    (failed,) = fetch(Egress(resolver=Resolver([[PUBLIC]]), dialler=dialler), url)
    assert isinstance(failed, UrlRejected)
    assert dialler.dialled == []


def test_a_host_that_was_good_once_does_not_excuse_the_next_url() -> None:
    async def run() -> None:
        egress = Egress(resolver=Resolver([[PUBLIC]]), dialler=Dialler())
        with pytest.raises(httpx2.ConnectError):
            await egress.client.get("https://provider.example.com/")
        for url in ("https://user:pw@provider.example.com/", "http://provider.example.com/"):
            with pytest.raises(UrlRejected):
                await egress.client.get(url)
        await egress.aclose()

    asyncio.run(run())


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    dialler = Dialler()
    fetch(Egress(resolver=Resolver([[PUBLIC]]), dialler=dialler), "https://provider.example.com/mcp")
    assert dialler.dialled == [(PUBLIC, 443)]


# servers on loopback


@asynccontextmanager
async def served(answer: Callable[[bytes], bytes], context: ssl.SSLContext | None = None) -> AsyncIterator[tuple[int, list[bytes]]]:
    """An HTTP/1.1 server that answers each request head with raw bytes and closes; yields its port and the heads it saw."""
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            heads.append(head)
            writer.write(answer(head))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client gave up first, which is what some tests are about
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1], heads


def ok(body: bytes = b"{}", *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", *(headers or (f"content-length: {len(body)}",)), "connection: close", "", ""]
    return "\r\n".join(lines).encode() + body


@dataclass(frozen=True)
class Authority:
    ca: trustme.CA
    pem: str

    def context(self, *names: str) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.ca.issue_cert(*names).configure_cert(context)
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    ca = trustme.CA()
    pem = tmp_path_factory.mktemp("ca") / "ca.pem"
    ca.cert_pem.write_to_path(str(pem))
    return Authority(ca, str(pem))


def test_a_mapped_host_keeps_its_name_in_url_certificate_and_host_header(authority: Authority) -> None:
    async def run() -> None:
        async with served(lambda head: ok(), authority.context("api.provider.example")) as (port, heads):
            resolver = Resolver([[]])
            egress = Egress({"API.Provider.example": ("127.0.0.1", port)}, authority.pem, resolver=resolver)
            response = await egress.client.get("https://api.provider.example/mcp")
            assert response.status_code == 200
            assert str(response.url) == "https://api.provider.example/mcp"
            assert b"host: api.provider.example\r\n" in heads[0].lower()
            assert b"accept-encoding: identity\r\n" in heads[0].lower()
            assert resolver.asked == []
            await egress.aclose()

    asyncio.run(run())


def test_a_mapped_host_with_another_hosts_certificate_is_refused(authority: Authority) -> None:
    async def run() -> None:
        async with served(lambda head: ok(), authority.context("evil.example")) as (port, heads):
            egress = Egress({"api.provider.example": ("127.0.0.1", port)}, authority.pem)
            with pytest.raises(httpx2.ConnectError, match=r"(?i)certificate"):
                await egress.client.get("https://api.provider.example/mcp")
            assert heads == []
            await egress.aclose()

    asyncio.run(run())


def test_development_authorities_are_trusted_for_mapped_hosts_alone(authority: Authority) -> None:
    async def run() -> None:
        async with served(lambda head: ok(), authority.context("other.example")) as (port, heads):
            egress = Egress({"api.provider.example": ("127.0.0.1", port)}, authority.pem, resolver=Resolver([[PUBLIC]]), dialler=Dialler(to=port))
            with pytest.raises(httpx2.ConnectError, match=r"(?i)certificate"):
                await egress.client.get("https://other.example/mcp")
            assert heads == []
            await egress.aclose()

    asyncio.run(run())


def test_the_wildcard_stands_for_exactly_one_label() -> None:
    egress = Egress({"*.aws.cognee.ai": ("127.0.0.1", 1), "x.aws.cognee.ai": ("127.0.0.1", 2)})
    assert egress.mapped_hosts == ["*.aws.cognee.ai", "x.aws.cognee.ai"]
    assert egress.mapped_target("tenant-1.AWS.cognee.ai") == ("127.0.0.1", 1)
    assert egress.mapped_target("x.aws.cognee.ai") == ("127.0.0.1", 2)
    for host in ("a.b.aws.cognee.ai", "aws.cognee.ai", "evilaws.cognee.ai", "tenant.aws.cognee.ai.evil", "cognee.ai", "ai", ""):
        assert not egress.is_mapped(host)


def test_mapping_replaces_the_resolver_only() -> None:
    egress = Egress({"metadata.internal": ("127.0.0.1", 1), "10.0.0.1": ("127.0.0.1", 1)})
    for url in ("https://metadata.internal/", "https://10.0.0.1/"):
        with pytest.raises(UrlRejected):
            egress.check_url(url)


def test_a_mapped_host_is_reached_on_443_only() -> None:
    dialler = Dialler()
    egress = Egress({"api.provider.example": ("127.0.0.1", 1)}, ports={443, 8443}, resolver=Resolver([[PUBLIC]]), dialler=dialler)
    (failed,) = fetch(egress, "https://api.provider.example:8443/")
    assert isinstance(failed, EgressRefused)
    assert dialler.dialled == []


def test_an_unreadable_authority_is_a_clear_refusal(tmp_path: Path) -> None:
    (tmp_path / "junk.pem").write_text("no certificate")
    for name in ("junk.pem", "missing.pem"):
        with pytest.raises(GatewayError) as caught:
            Egress({"a.example.com": ("127.0.0.1", 1)}, str(tmp_path / name))
        assert (caught.value.code, caught.value.where) == ("invalid_field", "--map-ca")


def test_loopback_works_when_allowed_and_redirects_are_not_followed() -> None:
    async def run() -> None:
        redirect = b"HTTP/1.1 307 Temporary Redirect\r\nlocation: https://127.0.0.1:1/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        async with served(lambda head: redirect) as (port, heads):
            egress = Egress(allow_loopback=True)
            assert (await egress.client.get(f"http://127.0.0.1:{port}/mcp")).status_code == 307
            assert len(heads) == 1
            await egress.aclose()

    asyncio.run(run())
