"""Run by the Python of .real/papr: the vendor's own SDK as a client of a server at PAPR_BASE_URL. What it saw, as JSON on standard output.

Answers are validated by the SDK's own models, strictly: one that does not fit is an exception here.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import papr_memory  # type: ignore[import-not-found]  # lives in the venv that runs this
from papr_memory import AsyncPapr, Papr
from papr_memory._types import Omit

TYPE = {"X-Client-Type": "sdk-test"}
FACT = "The zq17 navigator keeps a silver compass in a maple cabinet."
QUESTION = "What does the navigator keep in the maple cabinet?"


def client(**more: Any) -> Any:
    headers = {**TYPE, **more.pop("headers", {})}
    settings = {"x_api_key": os.environ["KEY"], "max_retries": 0, "_strict_response_validation": True, **more}
    return Papr(default_headers=headers, **settings)


def outcome(call: Callable[[], Any]) -> list[Any]:
    """[name of the SDK's exception, HTTP status, status in the envelope], or ["ok"]."""
    try:
        call()
    except papr_memory.APIStatusError as error:
        body = error.body if isinstance(error.body, dict) else {}
        return [type(error).__name__, error.status_code, body.get("status")]
    return ["ok"]


def round_trip(papr: Any) -> dict[str, Any]:
    added = papr.memory.add(
        content=FACT,
        type="text",
        external_user_id="ann",
        organization_id="org",
        namespace_id="ns",
        metadata={"role": "user", "category": "task", "topics": ["navigation"], "emoji_tags": ["🧭"], "conversation_id": "c1", "own": 7},
        context=[{"role": "user", "content": "Where is it?"}],
        relationships_json=[{"relation_type": "about", "related_item_id": "i1"}],
        graph_generation={"mode": "manual", "manual": {"nodes": [{"id": "p", "label": "Person", "properties": {"name": "Zora"}}]}},
        skip_background_processing=False,
    )
    memory = added.data[0].memory_id
    got = papr.memory.get(memory).data.memories[0]
    search = {
        "query": QUESTION,
        "max_memories": 10,
        "max_nodes": 10,
        "rank_results": True,
        "enable_agentic_graph": True,
        "metadata": {"role": "user"},
    }
    found = papr.memory.search(**search, external_user_id="ann", organization_id="org", namespace_id="ns")
    updated = papr.memory.update(memory, content=FACT.replace("silver", "golden"), metadata={"location": "hall"})
    again = papr.memory.search(query=QUESTION, external_user_id="ann")
    deleted = papr.memory.delete(memory, skip_parse=True)
    return {
        "added": [added.code, added.status, added.data[0].created_at is not None, len(added.data[0].memory_chunk_ids)],
        "got": [got.content, got.external_user_id, got.metadata, [each.role for each in got.context]],
        "found": [[m.id == memory, m.content, m.external_user_id] for m in found.data.memories],
        "nodes": [[n.label, n.properties] for n in found.data.nodes],
        "search_id": bool(found.search_id),
        "updated": [updated.memory_items[0].content, updated.status_obj.neo4j],
        "again": [m.content for m in again.data.memories],
        "deleted": [deleted.memory_id == memory, deleted.deletion_status.parse, deleted.deletion_status.qdrant],
        "gone": outcome(lambda: papr.memory.get(memory)),
    }


def batches(papr: Any) -> dict[str, Any]:
    partial = papr.memory.add_batch(memories=[{"content": "one compass"}, {"content": "x" * 15_001}, {"content": " "}], batch_size=50, user_id="u1")
    return {
        "partial": [partial.code, partial.status, partial.total_processed, partial.total_successful, partial.total_failed],
        "errors": [[each.index, each.code] for each in partial.errors],
        "stored": [each.data[0].memory_id != "" for each in partial.successful],
        "fifty": papr.memory.add_batch(memories=[{"content": f"note {i}"} for i in range(50)], external_user_id="bob").total_successful,
        "fifty_one": outcome(lambda: papr.memory.add_batch(memories=[{"content": "n"}] * 51)),
        "deleted": papr.memory.delete_all(external_user_id="bob", skip_parse=True).total_successful,
        "nobody": outcome(lambda: papr.memory.delete_all(external_user_id="nobody")),
    }


def limits(papr: Any) -> dict[str, Any]:
    return {
        "largest": outcome(lambda: papr.memory.add(content="é" * 7_500)),
        "too_large": outcome(lambda: papr.memory.add(content="é" * 7_500 + "a")),
        "few": outcome(lambda: papr.memory.search(query="q", max_memories=9)),
        "wrong_type": outcome(lambda: papr.memory.add(content="x", type="image")),
        "sdk_category": outcome(lambda: papr.memory.add(content="x", metadata={"category": "fact"})),
        "private_webhook": outcome(lambda: papr.memory.add_batch(memories=[{"content": "x"}], webhook_url="https://10.0.0.1/", webhook_secret="s")),
    }


def ways_in() -> dict[str, Any]:
    def ask(papr: Any) -> list[Any]:
        return outcome(lambda: papr.memory.get("none"))

    no_key = {"X-API-Key": Omit()}
    return {
        "session": ask(client(x_session_token=os.environ["SESSION"], headers=no_key)),
        "bearer": ask(client(bearer_token=os.environ["BEARER"], headers=no_key)),
        "two_accounts": ask(client(bearer_token=os.environ["BEARER"])),
        "wrong": ask(client(x_api_key="wrong")),
        "no_client_type": ask(client(headers={"X-Client-Type": Omit()})),
    }


def compressed(papr: Any) -> list[str | None]:
    papr.memory.add(content="z" * 4_000, external_user_id="zed")
    raw = papr.memory.with_raw_response
    found = [raw.search(query="z" * 4_000, external_user_id="zed", accept_encoding=word) for word in ("gzip", "identity")]
    assert all(each.parse().data.memories[0].content == "z" * 4_000 for each in found)
    return [each.headers.get("content-encoding") for each in found]


async def concurrently() -> int:
    settings = {"x_api_key": os.environ["KEY"], "max_retries": 0, "_strict_response_validation": True, "default_headers": TYPE}
    async with AsyncPapr(**settings) as papr:
        added = await asyncio.gather(*(papr.memory.add(content=f"async note {i}", external_user_id="eve") for i in range(16)))
        found = await papr.memory.search(query="async note", external_user_id="eve", max_memories=50)
        return len({each.data[0].memory_id for each in added} & {memory.id for memory in found.data.memories})


def main() -> None:
    papr = client()
    seen = {"round_trip": round_trip(papr), "batches": batches(papr), "limits": limits(papr), "ways_in": ways_in(), "compressed": compressed(papr)}
    json.dump({**seen, "concurrent": asyncio.run(concurrently())}, sys.stdout)


if __name__ == "__main__":
    main()
