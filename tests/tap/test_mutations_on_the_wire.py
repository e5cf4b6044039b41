"""Mutations between a real server and a real client: JSON and event streams, every protocol version, pages."""

from __future__ import annotations

from typing import Any

import mcp_types as t
import pytest

from harness.tap import MUTATION_KINDS, Mutation
from harness.tap.mutate import LOOP_CURSOR

pytestmark = pytest.mark.anyio

VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")


async def listed(session: Any, cursor: str | None = None) -> Any:
    return await session.list_tools(params=t.PaginatedRequestParams(cursor=cursor) if cursor is not None else None)


@pytest.mark.parametrize("json_response", [False, True], ids=["sse", "json"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_every_kind_reaches_the_client(bench: Any, version: str, json_response: bool) -> None:
    async with bench.provider(json_response=json_response) as (_, mount), bench.session(mount.url("/mcp"), version) as session:
        honest = await listed(session)
        count = 1
        for kind in sorted(MUTATION_KINDS):
            if kind == "cursor-dropped":
                continue  # there is one page only; see below
            mount.mutations[:] = [Mutation(kind=kind, tool=None if kind == "tool-added" else "add_memory")]
            mutated = await listed(session)
            count += 1
            assert mutated != honest, kind
            seen = mount.exchanges[-1]
            assert (seen.fault, seen.outcome, seen.rpc_method) == ("mutation", "answered", "tools/list")
            assert seen.result["tools"] != bench.TOOLS or seen.result["nextCursor"] == LOOP_CURSOR
            names = [tool.name for tool in mutated.tools]
            if kind == "tool-removed":
                assert names == ["search", "slow", "boom"]
            elif kind == "tool-added":
                assert names == [*(tool["name"] for tool in bench.TOOLS), "harness_added_tool"]
            elif kind == "enum-narrowed":
                assert mutated.tools[0].input_schema["properties"]["mode"]["enum"] == ["a", "b"]
            elif kind == "hint-flipped":
                assert mutated.tools[0].annotations.read_only_hint is True
        mount.mutations.clear()
        assert await listed(session) == honest
        assert mount.discoveries == count + 1
        assert mount.exchanges[-1].fault is None


async def test_what_does_not_apply_leaves_every_byte(bench: Any) -> None:
    async with bench.provider() as (_, mount), bench.session(mount.url("/mcp"), "2025-11-25") as session:
        await listed(session)
        mount.mutations.append(Mutation(kind="tool-removed", tool="not-there"))
        await listed(session)
        await session.call_tool("search", {})
        first, second = [e for e in mount.exchanges if e.rpc_method == "tools/list"]
        assert (second.fault, second.result_digest) == (None, first.result_digest)
        assert mount.dispatches()[0].fault is None


async def test_a_dropped_cursor_loses_pages_without_a_trace(bench: Any) -> None:
    async with bench.provider() as (provider, mount), bench.session(mount.url("/mcp"), "2026-07-28") as session:
        provider.page_size = 3
        mount.mutations.append(Mutation(kind="cursor-dropped"))
        page = await listed(session)
        assert (len(page.tools), page.next_cursor) == (3, None)


@pytest.mark.parametrize("page_size", [2, 100])
async def test_a_cursor_loop_serves_the_first_page_for_ever(bench: Any, page_size: int) -> None:
    async with bench.provider() as (provider, mount), bench.session(mount.url("/mcp"), "2025-11-25") as session:
        provider.page_size = page_size
        mount.mutations.append(Mutation(kind="cursor-loop"))
        cursor, pages = None, []
        for _ in range(4):
            page = await listed(session, cursor)
            pages.append([tool.name for tool in page.tools])
            cursor = page.next_cursor
            assert cursor == LOOP_CURSOR
        assert pages == [pages[0]] * 4
        assert mount.discoveries == 4


async def test_a_mutation_can_hit_one_page_of_many(bench: Any) -> None:
    async with bench.provider() as (provider, mount), bench.session(mount.url("/mcp"), "2026-07-28") as session:
        provider.page_size = 1
        mount.mutations += [Mutation(kind="parameter-retyped", tool="search"), Mutation(kind="tool-added")]
        cursor, tools = None, []
        while True:
            page = await listed(session, cursor)
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        assert [tool.name for tool in tools] == ["add_memory", "search", "slow", "boom", "harness_added_tool"]
        assert tools[1].input_schema["properties"]["query"] == {"type": "integer"}
        assert [e.fault for e in mount.exchanges if e.rpc_method == "tools/list"] == [None, "mutation", None, "mutation"]
