"""What the Cognee bridge offers and refuses before anything is sent: its tools, tenant URLs, keys and arguments."""

from __future__ import annotations

from typing import Any

import pytest

from reference_gateway.bridge.cognee import TOOLS, ArgumentsRefused, BridgeError, CogneeBridge, check_arguments, check_base_url
from reference_gateway.canonical import schema_hash
from reference_gateway.classify import classify
from reference_gateway.egress import Egress, UrlRejected
from reference_gateway.errors import GatewayError

ORIGIN = "https://tenant-0f0e0d0c-1111-2222-3333-444455556666.aws.cognee.ai"


def test_the_three_tools_have_their_reviewed_hashes_and_risks() -> None:
    assert {tool["name"]: schema_hash(tool["inputSchema"]) for tool in TOOLS} == {
        "remember": "0b7303340d89c018050f49fbcd4af0cb041a1b2878693e6494eadc9cd4c75f94",
        "recall": "b6288c8c7996f3026f8b89ab06eb4339c1f5eb220c62294462ec569f1b6580f4",
        "forget": "a2cd38085419a8adb22cb7adc0724ad6cc83b65910a8eaccd553eaccf1be3d29",
    }
    assert {tool["name"]: classify("cognee", tool).risk for tool in TOOLS} == {"remember": "write", "recall": "read", "forget": "destructive"}


@pytest.mark.parametrize("url", [ORIGIN, ORIGIN + "/", ORIGIN.upper().replace("HTTPS", "https"), ORIGIN + ":443", ORIGIN + ":443/"])
def test_a_tenant_origin_is_accepted(url: str) -> None:
    assert check_base_url(url) == ORIGIN


@pytest.mark.parametrize(
    "url",
    [
        "", "https://", "aws.cognee.ai", "https://aws.cognee.ai", "https://a.b.aws.cognee.ai", "https://.aws.cognee.ai", "https://evilaws.cognee.ai",
        "https://t.aws.cognee.ai.evil.com", "https://t.aws.cognee.ai@evil.com", "https://evil.com/t.aws.cognee.ai", "https://evil.com#.aws.cognee.ai",
        "https://evil.com\\.aws.cognee.ai", "https://evil.com?.aws.cognee.ai", "https://api.cognee.ai", "https://t.aws.cognee.com", "https://t.awsxcognee.ai",
        "http://t.aws.cognee.ai", "HTTP://t.aws.cognee.ai", "ftp://t.aws.cognee.ai", "//t.aws.cognee.ai", "https:t.aws.cognee.ai", "https://t.aws.cognee.ai:8443",
        "https://t.aws.cognee.ai:80", "https://t.aws.cognee.ai:", "https://t.aws.cognee.ai/api", "https://t.aws.cognee.ai//", "https://t.aws.cognee.ai/.",
        "https://t.aws.cognee.ai?", "https://t.aws.cognee.ai/?a=b", "https://t.aws.cognee.ai#", "https://t.aws.cognee.ai/#x", "https://u@t.aws.cognee.ai",
        "https://u:p@t.aws.cognee.ai", "https://t.aws.cognee.ai.", "https://t_t.aws.cognee.ai", "https://-t.aws.cognee.ai", "https://t-.aws.cognee.ai",
        "https://t%2e.aws.cognee.ai", "https://ⓣ.aws.cognee.ai", "https://xn--t.aws.cognee.ai\t", "https://t.aws.cognee.ai\n", " https://t.aws.cognee.ai",
        "https://*.aws.cognee.ai", "https://127.0.0.1", "https://[::1]", f"https://{'t' * 64}.aws.cognee.ai",
    ],
)  # fmt: skip
def test_any_other_url_is_not(url: str) -> None:
    with pytest.raises(UrlRejected) as caught:
        check_base_url(url)
    assert (caught.value.code, caught.value.http_status) == ("cognee_cloud_url_invalid", 422)


@pytest.mark.parametrize("key", ["", "a b", "a\r\nX-Evil: 1", "a\n", "ключ", "k" * 5000])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(GatewayError) as caught:
        CogneeBridge(Egress(), ORIGIN, key)
    assert caught.value.code == "invalid_field"
    assert not key or key not in str(caught.value)


REFUSED = [
    ("forget", {}),
    ("forget", {"everything": False}),
    ("forget", {"everything": "true"}),
    ("forget", {"dataset": ""}),
    ("forget", {"dataset": "  "}),
    ("forget", {"dataset": "ds", "everything": True}),
    ("forget", {"dataset": "", "everything": True}),
    ("remember", {}),
    ("remember", {"data": None}),
    ("remember", {"data": "x", "session_id": "s", "custom_prompt": "p"}),
    ("remember", {"data": "x", "session_id": " "}),
    ("recall", {}),
    ("recall", {"query": "q", "datasets": ""}),
    ("recall", {"query": "q", "datasets": " , ,"}),
    ("recall", {"query": "q", "session_id": ""}),
]


@pytest.mark.parametrize(("name", "arguments"), REFUSED)
def test_arguments_that_mean_too_much_or_nothing_are_refused(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentsRefused) as caught:
        check_arguments(name, arguments)
    assert caught.value.code == "invalid_arguments"
    assert caught.value.fix


@pytest.mark.parametrize("name", ["cognify", "", "Remember", "remember ", "__init__"])
def test_the_bridge_has_three_tools_only(name: str) -> None:
    with pytest.raises(BridgeError) as caught:
        check_arguments(name, {"data": "x", "query": "q", "everything": True})
    assert caught.value.code == "tool_not_found"
