"""Papr's own SDK (papr-memory 2.29, in its own venv): an independent client of our stand-in, and the word for Papr's REST contract.

Our bridge's tools compared with our own inventory prove nothing about Papr. Here they are compared with what the SDK's models state, and
the differences are those that were reviewed. Run by `make real` and by nothing else. Nothing here skips.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.clock import SystemClock
from harness.fake.kit import Account, serve
from harness.local.installation import installation
from harness.scenario.files import inventories_folder

pytestmark = pytest.mark.timeout(300)

HERE = Path(__file__).resolve().parent
PYTHON = installation("papr").python
WAYS = {"KEY": "api_key", "SESSION": "session_token", "BEARER": "bearer"}
METADATA = {
    "add_memory": "/inputSchema/properties/metadata/properties",
    "update_memory": "/inputSchema/properties/metadata/properties",
    "add_memory_batch": "/inputSchema/properties/memories/items/properties/metadata/properties",
    "search_memory": "/inputSchema/properties/metadata/properties",
}


def run_with_sdk(program: str, **variables: str) -> Any:
    """A program of this folder in the SDK's own venv; what it prints, as JSON."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    command = [str(PYTHON), str(HERE / program)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**kept, **variables})
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout)


@pytest.fixture(scope="module")
def stated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The REST contract as the SDK's models state it now: a tool list in a file."""
    found = run_with_sdk("papr_contract.py")
    assert found["sdk"] == "2.29.0"
    path = tmp_path_factory.mktemp("contract") / "papr-rest.json"
    path.write_text(json.dumps({"tools": found["tools"]}), encoding="utf-8")
    return path


def drift(old: Path, new: Path, out: Path) -> dict[str, Any]:
    words = ["drift", str(old), str(new), "--against", "local", "--format", "json", "-o", str(out)]
    ended = subprocess.run([sys.executable, "-m", "harness", *words], capture_output=True, text=True, timeout=200, check=False, cwd=out.parent)
    assert out.exists(), ended.stdout + ended.stderr
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """One run of the SDK against the stand-in."""

    async def run() -> Any:
        async with serve("papr", SystemClock()) as papr:
            variables = {name: f"synthetic-papr-{way}" for name, way in WAYS.items()}
            for name, way in WAYS.items():
                papr.admit(Account(variables[name], way))
                papr.configure(variables[name], accepts=way)
            return await asyncio.to_thread(run_with_sdk, "papr_client.py", PAPR_BASE_URL=papr.base_url, **variables)

    found: dict[str, Any] = asyncio.run(run())
    return found


# the contract


def test_the_contract_is_the_one_that_was_captured(stated: Path, tmp_path: Path) -> None:
    found = drift(HERE / "inventories" / "papr-rest.yaml", stated, tmp_path / "out.json")
    assert (found["verdict"], found["exit_code"], found["findings"]) == ("same", 0, [])
    assert {word: counts["compared"] for word, counts in found["compared"].items() if word != "status"} == dict.fromkeys(
        ("names", "parameters", "risk", "shape", "hash"), 7
    )


def test_what_the_bridge_lets_through_and_the_sdk_does_not_state_is_what_was_reviewed(stated: Path, tmp_path: Path) -> None:
    """Our inventory of the bridge as the agreed side, the SDK's contract as the new one: a breaking finding is a call that the bridge sends and
    the SDK's types refuse."""
    found = drift(inventories_folder() / "papr.yaml", stated, tmp_path / "out.json")
    breaking = {(f["id"], f["tool"], f["pointer"]) for f in found["findings"] if f["severity"] == "breaking"}
    spelled = [("enum-narrowed", "category/enum"), *(("parameter-retyped", each) for each in ("topics", "emoji tags", "emotion tags"))]
    assert breaking == {(rule, tool, f"{at}/{name}") for tool, at in METADATA.items() for rule, name in spelled}
    unknown = {(f["tool"], f["pointer"]) for f in found["findings"] if f["id"] in ("parameter-ignored", "parameter-removed")}
    assert unknown == {("search_memory", "/inputSchema/properties/simple_schema_mode")} | {
        (tool, f"{at}/{name}") for tool, at in METADATA.items() for name in ("emoji_tags", "emotion_tags")
    }
    removed = [f for f in found["findings"] if f["id"] in ("tool-removed", "tool-added", "parameter-required")]
    assert removed == []
    calls = {tool["name"]: tool["input"]["call"]["params"]["arguments"] for tool in found["tools"] if tool["input"] and tool["input"]["call"]}
    assert calls["add_memory"]["metadata"]["category"] == "facts"


def test_the_stand_in_s_bodies_lack_nothing_that_the_document_shares_with_the_sdk(stated: Path) -> None:
    """Fields that only the SDK has came after the document; the stand-in accepts and ignores them. The reverse would be an invention of ours."""
    from harness.fake import papr_bodies as bodies

    models = {
        "add_memory": (bodies.Item, bodies.AddQuery),
        "update_memory": (bodies.Update, bodies.Nothing),
        "delete_memory": (bodies.Nothing, bodies.DeleteQuery),
        "get_memory": (bodies.Nothing, bodies.Nothing),
        "add_memory_batch": (bodies.Batch, bodies.AddQuery),
        "delete_all_memories": (bodies.Nothing, bodies.DeleteAllQuery),
        "search_memory": (bodies.Search, bodies.SearchQuery),
    }
    only_ours, only_theirs = {}, {}
    for tool in json.loads(stated.read_text(encoding="utf-8"))["tools"]:
        theirs = set(tool["inputSchema"]["properties"]) - {"memory_id"}
        ours = {name for model in models[tool["name"]] for name in model.model_fields}
        only_ours[tool["name"]], only_theirs[tool["name"]] = ours - theirs, theirs - ours
    later = {"memory_policy", "policy", "link_to"}
    assert {name: found for name, found in only_ours.items() if found} == {"search_memory": {"simple_schema_mode"}}
    assert only_theirs == {
        "add_memory": later | {"format", "webhook_url", "webhook_secret"},
        "update_memory": later | {"enable_holographic", "frequency_schema_id", "graph_generation"},
        "delete_memory": set(),
        "get_memory": {"exclude_flagged", "max_risk", "require_consent"},
        "add_memory_batch": later | {"enable_holographic", "frequency_schema_id"},
        "delete_all_memories": {"namespace_id"},
        "search_memory": {"holographic_config", "omo_filter", "policy", "reranking_config", "response_format", "search_acl"},
    }


# the SDK as a client


def test_a_round_trip_fits_the_sdk_s_own_models(seen: dict[str, Any]) -> None:
    trip = seen["round_trip"]
    fact = "The zq17 navigator keeps a silver compass in a maple cabinet."
    assert trip["added"] == [200, "success", True, 1]
    content, user, metadata, roles = trip["got"]
    assert (content, user, roles) == (fact, "ann", ["user"])
    assert metadata == {
        "role": "user", "category": "task", "topics": ["navigation"], "emoji tags": ["🧭"], "conversationId": "c1", "own": 7,
    }  # fmt: skip
    assert trip["found"] == [[True, fact, "ann"]]
    assert trip["nodes"] == [["Person", {"id": "p", "name": "Zora"}]]
    assert trip["search_id"] is True
    assert trip["updated"] == [fact.replace("silver", "golden"), True]
    assert trip["again"] == [fact.replace("silver", "golden")]
    assert trip["deleted"] == [True, False, True]
    assert trip["gone"] == ["NotFoundError", 404, "error"]


def test_batches_fit_the_sdk_s_own_models(seen: dict[str, Any]) -> None:
    assert seen["batches"] == {
        "partial": [207, "partial", 3, 1, 2],
        "errors": [[1, 413], [2, 400]],
        "stored": [True],
        "fifty": 50,
        "fifty_one": ["UnprocessableEntityError", 422, "error"],
        "deleted": 50,
        "nobody": ["NotFoundError", 404, "error"],
    }


def test_limits_are_the_sdk_s_exceptions(seen: dict[str, Any]) -> None:
    refused = ["UnprocessableEntityError", 422, "error"]
    assert seen["limits"] == {
        "largest": ["ok"],
        "too_large": ["APIStatusError", 413, "error"],
        "few": refused,
        "wrong_type": refused,
        "sdk_category": refused,  # the SDK says `fact`, the document `facts`: the stand-in follows the document
        "private_webhook": ["BadRequestError", 400, "error"],
    }


def test_three_ways_in_and_the_header_that_the_sdk_does_not_send_by_itself(seen: dict[str, Any]) -> None:
    inside, outside = ["NotFoundError", 404, "error"], ["AuthenticationError", 401, "error"]
    assert seen["ways_in"] == {
        "session": inside,
        "bearer": inside,
        "two_accounts": outside,
        "wrong": outside,
        "no_client_type": ["BadRequestError", 400, "error"],
    }


def test_compression_and_concurrency(seen: dict[str, Any]) -> None:
    assert seen["compressed"] == ["gzip", None]
    assert seen["concurrent"] == 16
