"""Public cases b01 and b02: an empty cursor, and ids that a double cannot carry, through the gateway and on the harness's own wire."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harness.discover.capture import capture_url

from .conftest import SECRET, VERSIONS, Bench, Provider, Refused, provider_served

AUTHORIZED = {"Authorization": f"Bearer {SECRET}"}
TOO_LONG_FOR_A_DOUBLE = 725653563933458433


def listed(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


class Paged:
    """A provider's list by cursor, and the cursors that it was asked for (None where the request had none)."""

    def __init__(self, second: Any) -> None:
        self.second = second
        self.asked: list[str | None] = []

    def __call__(self, cursor: str | None) -> dict[str, Any]:
        self.asked.append(cursor)
        return {"tools": [listed("get_memory")], "nextCursor": ""} if cursor is None else dict(self.second)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("end", [{}, {"nextCursor": None}], ids=["absent", "null"])
def test_b01_an_empty_cursor_leads_to_the_next_page_and_only_null_or_nothing_ends_the_list(bench: Bench, version: str, end: dict[str, Any]) -> None:
    paged = Paged({"tools": [listed("delete_memory")], **end})
    with provider_served(Provider(list_answer=paged)) as odd:
        other = Bench(bench.operator, odd, bench.tenant, "odd")
        assert other.connect("odd", protocol_version=version)["tools"] == 2
        assert paged.asked == [None, ""]
        again = other.op("POST", "/connections/odd/refresh")
        assert (again["discovered"], again["pages"], again["complete"], again["removed"]) == (2, 2, True, [])
        paged.asked.clear()
        found = asyncio.run(capture_url(odd.url, protocol_version=version, headers=AUTHORIZED))
    assert paged.asked == [None, ""]
    assert ([tool.name for tool in found.tools], found.pages, found.complete) == (["get_memory", "delete_memory"], 2, True)


@pytest.mark.parametrize("version", VERSIONS)
def test_b01_an_empty_cursor_that_comes_back_ends_the_walk_as_incomplete(bench: Bench, version: str) -> None:
    paged = Paged({"tools": [listed("get_memory")], "nextCursor": ""})
    with provider_served(Provider(list_answer=paged)) as odd:
        other = Bench(bench.operator, odd, bench.tenant, "odd")
        with pytest.raises(Refused) as refused:
            other.connect("odd", protocol_version=version)
        assert refused.value.code == "mcp_catalog_pagination"
        assert paged.asked == [None, ""]
        paged.asked.clear()
        found = asyncio.run(capture_url(odd.url, protocol_version=version, headers=AUTHORIZED))
    assert paged.asked == [None, ""]
    assert not found.complete
    assert found.reason.startswith("cursor-loop")


@pytest.mark.parametrize("version", VERSIONS)
def test_b02_an_id_that_no_double_can_carry_keeps_every_digit_and_has_an_approval_of_its_own(bench: Bench, version: str) -> None:
    paged = Paged({"tools": [listed("delete_memory", memory_id={"type": "integer"})]})
    with provider_served(Provider(list_answer=paged)) as odd:
        other = Bench(bench.operator, odd, bench.tenant, "odd")
        other.connect("odd", permissions={"delete_memory": "ask_first"})
        run, token = other.run("odd")

        def ask(number: int) -> Any:
            return other.call(token, "delete_memory", {"memory_id": number}, version=version)["_meta"]

        first = ask(TOO_LONG_FOR_A_DOUBLE)["gateway/approval"]
        done = other.op("POST", f"/approvals/{first['id']}/approve", {"by": "ann"})
        assert odd.calls[0]["arguments"] == {"memory_id": TOO_LONG_FOR_A_DOUBLE}
        assert done["approval"]["arguments"] == {"memory_id": TOO_LONG_FOR_A_DOUBLE}
        assert done["result"]["structuredContent"] == {"got": {"memory_id": TOO_LONG_FOR_A_DOUBLE}}
        neighbour = ask(TOO_LONG_FOR_A_DOUBLE - 1)
        assert neighbour["gateway/outcome"] == "pending"
        assert neighbour["gateway/approval"]["id"] != first["id"]
        assert neighbour["gateway/approval"]["arguments_digest"] != first["arguments_digest"]
        assert ask(TOO_LONG_FOR_A_DOUBLE)["gateway/outcome"] == "replayed"
        assert len(odd.calls) == 1
        assert len({r["arguments_digest"] for r in other.records(run) if r["tool"] == "delete_memory"}) == 2
