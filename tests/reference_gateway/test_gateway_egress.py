"""The way out: what URLs and addresses are refused, that the judged address is the dialled one, mapping, TLS, bounded reading.

No test dials anything but loopback: resolvers are stubs, and where an address would be public, the dialler is one too.
"""

from __future__ import annotations

import asyncio
import gzip
import ssl
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpcore2
import httpx2
import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from reference_gateway.addresses import public_address, refused_host
from reference_gateway.bounded import TooLarge, Undecodable, read_bounded
from reference_gateway.egress import Egress, EgressRefused, UrlRejected, split_url
from reference_gateway.errors import GatewayError

PUBLIC = "93.184.215.14"


def words(table: str) -> list[str]:
    return table.split()


@pytest.fixture(scope="module")
def plain() -> Egress:
    """For rules that need no network; its client is never used, so it need not be closed."""
    return Egress()


# addresses

NOT_PUBLIC = words(
    """
0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.1.2.3 127.255.255.255
169.254.0.1 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.8 192.0.0.170 192.0.2.1 192.31.196.1 192.52.193.1
192.88.99.1 192.168.0.1 192.168.255.255 192.175.48.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 239.255.255.255
240.0.0.1 255.255.255.255 168.63.129.16
:: ::1 ::2 ::127.0.0.1 ::93.184.215.14 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:93.184.215.14 ::ffff:0:127.0.0.1 64:ff9b::a9fe:a9fe
64:ff9b::5db8:d70e 64:ff9b:1::1 64:ff9b:1:ffff::7f00:1 100::1 2001::1 2001:0:7f00:1:: 2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1::
2002:a00:1:: 2002:5db8:d70e:: 2620:4f:8000::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fd12:3456:789a::1 fe80::1 fe80::1%eth0 febf::1
fec0::1 feff::1 ff00::1 ff02::1 ff0e::1 4000::1 2606:4700::1%1
"""
)

PUBLIC_ADDRESSES = words("1.1.1.1 8.8.8.8 93.184.215.14 104.18.0.1 172.32.0.1 100.128.0.1 2606:4700::1111 2a00:1450:4001::1 2001:4860:4860::8888")


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_that_is_not_public_is_refused(plain: Egress, address: str) -> None:
    assert not public_address(address)
    assert not plain.may_dial("provider.example.com", address)
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(UrlRejected):
        plain.check_url(f"https://{host}/mcp")


@pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
def test_a_public_address_is_not(plain: Egress, address: str) -> None:
    assert public_address(address)
    plain.check_url(f"https://[{address}]/mcp" if ":" in address else f"https://{address}/mcp")


@given(st.ip_addresses(network="127.0.0.0/8") | st.ip_addresses(network="10.0.0.0/8") | st.ip_addresses(network="fc00::/7"))
def test_no_spelling_of_a_private_network_passes(address: Any) -> None:
    assert not public_address(str(address))
    assert not public_address(f"::ffff:{address}" if address.version == 4 else address.exploded)


# hosts

DISGUISED = words(
    """
2130706433 017700000001 0x7f000001 0x7F000001 0x7f.0.0.1 0177.0.0.1 127.1 127.0.1 0 00 1 0x 10.1 0x0a.1 1.2.3.4.5 300.1.1.1 256.256.256.256
127.0.0.01 0127.0.0.1 001.1.1.1 1.1.1.0x1 a.0x7f a.127 example.1 93.184.215.14. 127.0.0.1. example.com. localhost. 3232235777
"""
)

LOCAL = words(
    """
localhost LOCALHOST foo.localhost a.localdomain printer.local metadata.google.internal vault.internal box.lan nas.home db.corp x.intranet
router.home.arpa metadata kubernetes instance-data hidden.onion
"""
)

MALFORMED = words(
    """
.example.com example..com -a.example.com a-.example.com a%2eexample.com a%00.example.com exa_mple-.com a,b.com a;b.com a!b.com a*b.com a+b.com
a=b.com a$b.com a&b.com a(b).com a'b.com a~b.com xn--mnchen-3ya.de xn--80ak6aa92e.com xn--.com
"""
)

FOREIGN = [
    "①②⑦.0.0.1",
    "１２７.0.0.1",
    "127。0。0。1",
    "ⓔxample.com",
    "münchen.de",
    "аpple.com",
    "example\u3002com",
    "exa\u00admple.com",
    "ex\u200bample.com",
]


@pytest.mark.parametrize("host", [*DISGUISED, *LOCAL, *MALFORMED, *FOREIGN, "a" * 64 + ".com", ".".join(["a" * 60] * 5) + ".com"])
def test_a_host_that_is_not_a_plain_public_name_is_refused(plain: Egress, host: str) -> None:
    with pytest.raises(UrlRejected) as caught:
        plain.check_url(f"https://{host}/mcp")
    assert (caught.value.code, caught.value.http_status) == ("url_rejected", 422)
    assert caught.value.reason


GOOD = words(
    """
https://mcp.mem0.ai/mcp/ https://mcp.mem0.ai:443/mcp https://mcp.mem0.ai:8443/mcp https://MCP.Mem0.AI/mcp https://a.b.c.d.example.co.uk
https://tenant-0f0e.aws.cognee.ai/ https://x.example.com/?a=1&b=c https://x.example.com?q https://x-1.example.com/a%20b/c
https://1password.com/x https://3.example.com/ https://a1.2b.io/ https://_dmarc.example.com/ https://x.example.com/@user/p https://example.com/a:b
https://x.example.com/?redirect=https://127.0.0.1/ https://localhost.example.com/ https://internal.example.com https://0x7f.example.com
"""
)


@pytest.mark.parametrize("url", GOOD)
def test_an_ordinary_url_passes(plain: Egress, url: str) -> None:
    plain.check_url(url)


BAD_URLS = [
    "", "x", "mcp.mem0.ai", "//mcp.mem0.ai", "https:", "https:/", "https://", "https:///mcp", "https:mcp.mem0.ai", "https:/mcp.mem0.ai/x",
    "http://mcp.mem0.ai/", "http://127.0.0.1:8000/", "http://[::1]/", "ftp://mcp.mem0.ai", "file:///etc/passwd", "ws://mcp.mem0.ai", "wss://mcp.mem0.ai",
    "javascript:alert(1)", "data:,x", "gopher://mcp.mem0.ai", "httpss://mcp.mem0.ai", " https://mcp.mem0.ai", "https://mcp.mem0.ai ", "https://mcp.mem0.ai\t/x",
    "https://mcp.mem0.ai/\r\nX-A: b", "https://mcp.mem0.ai\n.evil.com", "https://mcp.mem0.ai/\x00", "https://mcp.mem0.ai/\x7f", "ht\ttps://mcp.mem0.ai",
    "https://user@mcp.mem0.ai/", "https://user:pass@mcp.mem0.ai/", "https://@mcp.mem0.ai/", "https://:@mcp.mem0.ai/", "https://mcp.mem0.ai@127.0.0.1/",
    "https://mcp.mem0.ai:x@127.0.0.1/", "https://a@b@mcp.mem0.ai/", "https://mcp.mem0.ai#@127.0.0.1/", "https://mcp.mem0.ai/#", "https://mcp.mem0.ai/#frag",
    "https://127.0.0.1#.mem0.ai/", "https://127.0.0.1?.mem0.ai/", "https://127.0.0.1/.mem0.ai", "https://127.0.0.1\\.mem0.ai/", "https://mcp.mem0.ai\\@127.0.0.1/",
    "https:\\\\mcp.mem0.ai", "https://mcp.mem0.ai:/", "https://mcp.mem0.ai:0/", "https://mcp.mem0.ai:65536/", "https://mcp.mem0.ai:99999/", "https://mcp.mem0.ai:-1/",
    "https://mcp.mem0.ai:+443/", "https://mcp.mem0.ai:44 3/", "https://mcp.mem0.ai:443:443/", "https://mcp.mem0.ai:0x1bb/", "https://mcp.mem0.ai:٤٤٣/",
    "https://[mcp.mem0.ai]/", "https://[::1/", "https://::1/", "https://[::1]x/", "https://[::1]:443/", "https://[::ffff:127.0.0.1]/", "https://[fe80::1%25eth0]/",
    "https://[v1.x]/", "https://[]/", "https://[2606:4700::1]]/", "https://x.example.com/<a>", 'https://x.example.com/"', "https://x.example.com/{a}",
    "https://x.example.com/a|b", "https://x.example.com/^", "https://x.example.com/`",
    "https://x.example.com/é", "https://x.example.com/" + "a" * 2048,
]  # fmt: skip


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_url_that_can_be_misread_is_refused(plain: Egress, url: str) -> None:
    with pytest.raises(UrlRejected) as caught:
        plain.check_url(url)
    assert caught.value.code == "url_rejected"
    assert not url.strip() or url not in str(caught.value)


@given(st.text(max_size=60) | st.from_regex(r"https?://[a-z0-9@:\\/#?.\[\]%]{0,40}", fullmatch=True))
def test_any_text_is_accepted_or_refused_and_what_is_accepted_is_dialled_as_judged(text: str) -> None:
    try:
        scheme, host, port = split_url(text)
    except UrlRejected:
        return
    read = httpx2.URL(text)
    assert (read.scheme, read.host.strip("[]"), read.port or {"https": 443, "http": 80}[scheme]) == (scheme, host, port)
    assert not read.userinfo
    assert not read.fragment


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/mcp", "http://127.0.0.1/", "https://127.0.0.1:8000/"])
def test_one_loopback_spelling_can_be_allowed(plain: Egress, url: str) -> None:
    Egress(allow_loopback=True).check_url(url)
    with pytest.raises(UrlRejected):
        plain.check_url(url)


@pytest.mark.parametrize("host", ["localhost", "[::1]", "127.0.0.2", "127.1", "0.0.0.0", "[::ffff:127.0.0.1]", "mcp.mem0.ai", "10.0.0.1"])
def test_and_no_other(host: str) -> None:
    with pytest.raises(UrlRejected):
        Egress(allow_loopback=True).check_url(f"http://{host}:8000/mcp")


def test_a_name_is_judged_without_being_resolved() -> None:
    assert refused_host("provider.example.com") is None


# dialling


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
    egress = Egress({"api.provider.example": ("127.0.0.1", 1)}, resolver=Resolver([[PUBLIC]]), dialler=dialler)
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


# bounded reading

LIMIT = 100_000


def read(answer: bytes, limit: int = LIMIT) -> bytes:
    async def run() -> bytes:
        async with served(lambda head: answer) as (port, _):
            egress = Egress(allow_loopback=True)
            try:
                request = egress.client.build_request("GET", f"http://127.0.0.1:{port}/")
                response = await egress.client.send(request, stream=True)
                try:
                    return await read_bounded(response, limit)
                finally:
                    assert response.is_closed
            finally:
                await egress.aclose()

    return asyncio.run(run())


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


PLAIN = b"x" * LIMIT


@pytest.mark.parametrize(
    "answer",
    [
        ok(PLAIN),
        ok(chunked(PLAIN), "transfer-encoding: chunked"),
        ok(gzip.compress(PLAIN), "content-encoding: gzip"),
        ok(gzip.compress(PLAIN), "content-encoding: X-GZIP"),
        ok(PLAIN, "content-encoding: identity"),
        ok(PLAIN, "x-no-length: 1"),
    ],
)
def test_a_body_of_exactly_the_limit_is_read(answer: bytes) -> None:
    assert read(answer) == PLAIN


@pytest.mark.parametrize(
    "answer",
    [
        ok(PLAIN + b"x"),
        ok(b"", "content-length: 99999999999999999999"),
        ok(chunked(PLAIN + b"x"), "transfer-encoding: chunked"),
        ok(PLAIN + b"x", "x-no-length: 1"),
        ok(gzip.compress(PLAIN + b"x"), "content-encoding: gzip"),
    ],
)
def test_one_byte_more_is_too_large(answer: bytes) -> None:
    with pytest.raises(TooLarge) as caught:
        read(answer)
    assert (caught.value.code, caught.value.limit) == ("mcp_remote_response_too_large", LIMIT)


def test_a_compression_bomb_is_stopped_before_it_unfolds() -> None:
    bomb = ok(gzip.compress(bytes(64_000_000), 1), "content-encoding: gzip")
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            read(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"not gzip at all", "content-encoding: gzip"),
        ok(gzip.compress(PLAIN)[:-9], "content-encoding: gzip"),
        ok(gzip.compress(b"a") + b"trailing", "content-encoding: gzip"),
        ok(gzip.compress(gzip.compress(b"a")), "content-encoding: gzip, gzip"),
        ok(zlib.compress(b"a"), "content-encoding: deflate"),
        ok(b"a", "content-encoding: br"),
        ok(b"a", "content-encoding: zstd"),
    ],
)
def test_what_cannot_be_decoded_within_bounds_is_refused(answer: bytes) -> None:
    with pytest.raises(Undecodable):
        read(answer)


def test_an_empty_body_is_empty_however_it_is_labelled() -> None:
    assert read(ok(b"")) == b"" == read(ok(b"", "content-length: 0", "content-encoding: gzip"))


def test_a_body_that_breaks_off_is_a_transport_error() -> None:
    with pytest.raises(httpx2.RemoteProtocolError):
        read(ok(b"half", "content-length: 8"))
