"""What the Papr bridge refuses before anything is sent, and the schemas it offers."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_gateway.bridge.exchange import ArgumentsRefused, BridgeError
from reference_gateway.bridge.papr import CREDENTIALS, PaprBridge, check_base_url, the_credential
from reference_gateway.bridge.papr_rules import ID_UNCHECKED, LIMITS_UNCHECKED, USER_UNNAMED, WEBHOOK_UNCHECKED, Rules
from reference_gateway.bridge.papr_tools import CATEGORIES, TOOLS
from reference_gateway.classify import classify
from reference_gateway.egress import Egress, UrlRejected
from reference_gateway.errors import GatewayError

SCHEMAS: dict[str, Any] = {tool["name"]: tool["inputSchema"] for tool in TOOLS}
RULES = Rules()
ID = "0f8fad5b-d9cb-469f-a165-70867728950e"


def refused(name: str, arguments: dict[str, Any], rules: Rules = RULES) -> ArgumentsRefused:
    with pytest.raises(ArgumentsRefused) as caught:
        rules.check(name, arguments)
    assert (caught.value.code, caught.value.http_status) == ("invalid_arguments", 422)
    assert caught.value.message
    assert caught.value.fix
    return caught.value


def fits(name: str, arguments: dict[str, Any]) -> bool:
    return bool(jsonschema.Draft202012Validator(SCHEMAS[name]).is_valid(arguments))


def test_seven_tools_with_their_risks() -> None:
    assert {tool["name"]: classify("papr", tool).risk for tool in TOOLS} == {
        "add_memory": "write",
        "update_memory": "write",
        "delete_memory": "destructive",
        "get_memory": "read",
        "add_memory_batch": "write",
        "delete_all_memories": "destructive",
        "search_memory": "read",
    }
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["additionalProperties"] is False


WHOLE: dict[str, dict[str, Any]] = {
    "add_memory": {
        "content": "x", "type": "code_snippet", "metadata": {"role": "assistant", "category": "skills", "own": {"a": 1}, "emoji tags": ["🧭"]},
        "context": [{"role": "user", "content": "c"}], "relationships_json": [{"relation_type": "r", "metadata": {}}],
        "graph_generation": {"mode": "manual", "auto": {"schema_id": "s"}, "manual": {"nodes": [{"id": "a", "label": "L", "properties": {}}]}},
        "organization_id": "o", "namespace_id": "n", "user_id": "u", "external_user_id": "e", "skip_background_processing": True,
    },
    "update_memory": {"memory_id": ID, "content": "x", "type": "document", "metadata": {}, "context": [], "relationships_json": []},
    "delete_memory": {"memory_id": ID, "skip_parse": True},
    "get_memory": {"memory_id": ID},
    "add_memory_batch": {
        "memories": [{"content": "x"}] * 50, "batch_size": 50, "webhook_url": "https://hooks.example.com/x?y=1", "webhook_secret": "s3cret",
        "user_id": "u", "external_user_id": "e", "graph_generation": {}, "skip_background_processing": False,
    },
    "delete_all_memories": {"external_user_id": "e", "skip_parse": False},
    "search_memory": {
        "query": "q", "max_memories": 50, "max_nodes": 10, "rank_results": True, "enable_agentic_graph": True, "schema_id": "s",
        "simple_schema_mode": True, "metadata": {"role": "user"}, "user_id": "u", "namespace_id": "n", "organization_id": "o",
        "search_override": {"pattern": {"source_label": "A", "relationship_type": "R", "target_label": "B"}, "return_properties": ["p"]},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEMAS)
def test_whole_arguments_pass_schema_and_rules(name: str) -> None:
    assert fits(name, WHOLE[name])
    RULES.check(name, WHOLE[name])


@settings(max_examples=200)
@given(name=st.sampled_from(sorted(SCHEMAS)), data=st.data())
def test_a_wrong_type_of_any_argument_is_refused_by_the_schema(name: str, data: st.DataObject) -> None:
    argument = data.draw(st.sampled_from(sorted(SCHEMAS[name]["properties"])))
    wrong = data.draw(st.sampled_from([None, 1.5, [7], {"a": 1}, "text", True]))
    right = {"string": str, "boolean": bool, "array": list, "object": dict, "integer": int}[SCHEMAS[name]["properties"][argument]["type"]]
    if isinstance(wrong, right):
        wrong = None
    assert not fits(name, {**WHOLE[name], argument: wrong})
    assert not fits(name, {**WHOLE[name], "unknown": 1})


@pytest.mark.parametrize("text", ["a" * 15_000, "é" * 7_500, "🧭" * 3_750, "あ" * 5_000])
def test_content_is_counted_in_bytes(text: str) -> None:
    for name, arguments in (
        ("add_memory", {"content": text}),
        ("update_memory", {"memory_id": ID, "content": text}),
        ("add_memory_batch", {"memories": [{"content": "x"}, {"content": text}]}),
    ):
        RULES.check(name, arguments)
        longer: dict[str, Any] = {**arguments, "content": text + "a"} if "content" in arguments else {"memories": [{"content": text + "a"}]}
        assert "15001 bytes" in refused(name, longer).message
        Rules(frozenset({LIMITS_UNCHECKED})).check(name, longer)


@settings(max_examples=300)
@given(
    memory_id=st.one_of(
        st.text(max_size=20), st.sampled_from(["all", "ALL", "batch", "search", "status", "..", ".", "a/b", "a%2fb", "a?b", "a#b", ID])
    )
)
def test_a_memory_s_id_is_one_path_segment_that_names_no_operation(memory_id: str) -> None:
    try:
        RULES.check("delete_memory", {"memory_id": memory_id})
    except ArgumentsRefused:
        return
    assert memory_id.lower() not in ("all", "batch", "search", "status")
    assert all(each.isascii() and (each.isalnum() or each in "-_") for each in memory_id)
    assert memory_id[0].isalnum()


def test_the_defect_lets_an_id_name_everything() -> None:
    assert "is not the id" in refused("delete_memory", {"memory_id": "all"}).message
    Rules(frozenset({ID_UNCHECKED})).check("delete_memory", {"memory_id": "all"})


@pytest.mark.parametrize(
    "arguments", [{}, {"skip_parse": True}, {"user_id": ""}, {"external_user_id": " \t"}, {"user_id": "u", "external_user_id": ""}]
)
def test_deleting_all_needs_a_named_user(arguments: dict[str, Any]) -> None:
    refused("delete_all_memories", arguments)


def test_the_defect_deletes_everything_of_nobody() -> None:
    Rules(frozenset({USER_UNNAMED})).check("delete_all_memories", {})


@pytest.mark.parametrize("name", ["user_id", "external_user_id", "organization_id", "namespace_id"])
def test_a_blank_name_is_never_nobody(name: str) -> None:
    for tool in ("add_memory", "search_memory", "add_memory_batch"):
        refused(tool, {**WHOLE[tool], name: "  "})
    refused("add_memory_batch", {"memories": [{"content": "x", name: " "}]})
    if "user" in name:
        refused("add_memory", {"content": "x", "metadata": {name: ""}})


@pytest.mark.parametrize("value", [9, 51, 0, -1, True, "20", 20.0, None])
def test_results_outside_10_to_50_are_refused(value: Any) -> None:
    for name in ("max_memories", "max_nodes"):
        refused("search_memory", {"query": "q", name: value})
        if value != 20.0:  # to JSON it is the same number
            assert not fits("search_memory", {"query": "q", name: value})


@pytest.mark.parametrize(
    "arguments", [{"memories": []}, {"memories": [{"content": "x"}] * 51}, {"memories": "x"}, {"memories": [{"content": "x"}], "batch_size": 51}]
)
def test_batches_outside_1_to_50_are_refused(arguments: dict[str, Any]) -> None:
    refused("add_memory_batch", arguments)
    assert not fits("add_memory_batch", arguments)


def test_a_category_fits_its_role() -> None:
    for role, fit in CATEGORIES.items():
        for category in [each for names in CATEGORIES.values() for each in names]:
            arguments = {"content": "x", "metadata": {"role": role, "category": category}}
            if category in fit:
                RULES.check("add_memory", arguments)
            else:
                refused("add_memory", arguments)
                refused("add_memory_batch", {"memories": [arguments]})


PRIVATE = [
    "http://hooks.example.com/", "https://127.0.0.1/", "https://10.0.0.1/", "https://[::1]/", "https://[::ffff:10.0.0.1]/",
    "https://[64:ff9b::a00:1]/", "https://169.254.169.254/", "https://168.63.129.16/", "https://localhost/", "https://metadata.internal/",
    "https://0x7f000001/", "https://2130706433/", "https://user:pw@example.com/", "ftp://example.com", "", "example.com", "https://exa mple.com/",
]  # fmt: skip


@pytest.mark.parametrize("url", PRIVATE)
def test_a_webhook_goes_to_public_https_only(url: str) -> None:
    error = refused("add_memory_batch", {"memories": [{"content": "x"}], "webhook_url": url, "webhook_secret": "canary-1"})
    assert "webhook_url" in error.message
    assert "canary-1" not in str(error)
    Rules(frozenset({WEBHOOK_UNCHECKED})).check("add_memory_batch", {"memories": [{"content": "x"}], "webhook_url": url})


@pytest.mark.parametrize("secret", ["", "a b", "a\r\nX-Evil: 1", "é", "a" * 1025])
def test_a_webhook_secret_is_one_header_value_and_needs_a_webhook(secret: str) -> None:
    refused("add_memory_batch", {"memories": [{"content": "x"}], "webhook_url": "https://hooks.example.com/", "webhook_secret": secret})
    refused("add_memory_batch", {"memories": [{"content": "x"}], "webhook_secret": "fine"})


@pytest.mark.parametrize(
    "arguments",
    [{"content": " "}, {}, {"content": "\ud800"}, {"content": "x", "metadata": {"a": "\udfff"}}, {"content": "x", "metadata": {"a": float("inf")}}],
)
def test_what_cannot_be_sent_is_refused(arguments: dict[str, Any]) -> None:
    refused("add_memory", arguments)


def test_an_update_changes_something() -> None:
    refused("update_memory", {"memory_id": ID, "organization_id": "o"})


def test_an_unknown_tool_is_no_tool() -> None:
    with pytest.raises(BridgeError) as caught:
        RULES.check("submit_feedback", {})
    assert caught.value.code == "tool_not_found"


@pytest.mark.parametrize(
    "url",
    [
        "http://memory.papr.ai/",
        "http://memory.papr.ai",
        "https://memory.papr.ai/",
        "https://memory.papr.ai/v1",
        "https://memory.papr.ai:8443",
        "https://u@memory.papr.ai",
        "https://memory.papr.ai?x",
        "memory.papr.ai",
        "",
    ],
)
def test_only_an_https_origin_is_a_base_url(url: str) -> None:
    if url == "https://memory.papr.ai/":
        assert check_base_url(url) == "https://memory.papr.ai"
        return
    with pytest.raises(UrlRejected):
        check_base_url(url)


def test_the_base_url_is_spelled_one_way() -> None:
    assert check_base_url("HTTPS://Memory.PAPR.ai:443") == "https://memory.papr.ai"


def test_exactly_one_credential() -> None:
    assert [the_credential((path,)) for path in CREDENTIALS] == list(CREDENTIALS)
    for paths in ((), tuple(CREDENTIALS), ("credentials.api_key", "credentials.bearer"), ("credentials.other",)):
        with pytest.raises(GatewayError) as caught:
            the_credential(paths)
        assert (caught.value.code, caught.value.http_status) == ("invalid_field", 422)


@pytest.mark.parametrize("secret", ["", "a b", "a\r\nb", "é"])
def test_a_credential_that_no_header_carries_is_refused_without_repeating_it(secret: str) -> None:
    with pytest.raises(GatewayError) as caught:
        PaprBridge(Egress(), "https://memory.papr.ai", ("credentials.bearer", secret))
    assert caught.value.code == "invalid_field"
    assert not secret or secret not in str(caught.value)
