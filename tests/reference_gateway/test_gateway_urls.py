"""Which URLs, names and addresses the gateway may dial: tables of spellings, and properties over generated ones. Nothing is dialled."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_gateway.addresses import public_address, refused_host
from reference_gateway.egress import Egress, UrlRejected, split_url


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
https://mcp.mem0.ai/mcp/ https://mcp.mem0.ai:443/mcp https://MCP.Mem0.AI/mcp https://a.b.c.d.example.co.uk
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
