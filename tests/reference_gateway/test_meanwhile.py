"""What operators change while a provider is being asked holds, and what was asked of one connection is never done by another."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.reference_gateway.conftest import SECRET, Bench, Json, Provider, provider_served, tool

NEW = "another-secret-19"
OTHER_PATH = "credentials.other"


def reason(result: Json) -> Any:
    return result["_meta"].get("gateway/reason")


def test_what_is_changed_while_a_credential_is_rotated_stands(bench: Bench, provider: Provider) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def listed(cursor: str | None) -> Json:
        asked.set()
        go_on.wait(20)
        return {"tools": [each.model_dump(by_alias=True, exclude_none=True) for each in (tool("get_echo"),)]}

    provider.list_answer, provider.secret = listed, None
    _, token = bench.run()
    with ThreadPoolExecutor(1) as pool:
        rotating = pool.submit(bench.op, "POST", "/connections/notes/rotate", {"values": {"credentials.authorization": NEW}})
        assert asked.wait(20)
        bench.op("PUT", "/connections/notes/agents", {"agents": []})
        bench.op("PUT", "/connections/notes/offers", {"offers": ["prompts"]})
        bench.op("PUT", "/connections/notes/audience", {"audience": []})
        go_on.set()
        rotated = rotating.result()
    assert (rotated["agents"], rotated["offers"], rotated["grant"]["audience"]) == ([], ["prompts"], [])
    bench.op("PUT", "/connections/notes/audience", {"audience": None})
    assert reason(bench.call(token, "get_echo")) == "not_granted"
    bench.op("PUT", "/connections/notes/agents", {"agents": None})
    assert reason(bench.call(token, "get_echo", {"n": 1})) is None
    assert provider.headers[-1]["authorization"] == f"Bearer {NEW}"


def test_a_revocation_while_a_credential_is_rotated_ends_the_rotation(bench: Bench, provider: Provider) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def listed(cursor: str | None) -> Json:
        asked.set()
        go_on.wait(20)
        return {"tools": []}

    provider.list_answer, provider.secret = listed, None
    with ThreadPoolExecutor(1) as pool:
        rotating = pool.submit(
            bench.operator.http.post,
            f"/tenants/{bench.tenant}/connections/notes/rotate",
            json={"values": {"credentials.authorization": NEW}},
        )
        assert asked.wait(20)
        bench.op("POST", "/connections/notes/revoke")
        go_on.set()
        answer = rotating.result()
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "grant_revoked")
    assert [record["event"] for record in bench.records()][-1] == "grant_revoked"


def test_what_was_asked_of_a_connection_is_never_done_by_another_of_its_name(bench: Bench, provider: Provider) -> None:
    """Another address, and another credential path, whose versions begin at one again."""
    bench.permit(add_note="ask_first")
    _, token = bench.run()
    done, waiting = (str(bench.call(token, "add_note", {"text": text})["_meta"]["gateway/approval"]["id"]) for text in ("done", "waits"))
    assert bench.op("POST", f"/approvals/{done}/approve", {"by": "ann"})["approval"]["state"] == "executed"
    bench.op("DELETE", "/connections/notes")
    with provider_served(Provider(secret=SECRET)) as other:
        auth = {"scheme": "bearer", "path": OTHER_PATH}
        bench.connect(url=other.url, auth=auth, credentials={OTHER_PATH: SECRET}, permissions={"add_note": "ask_first"})
        decided = bench.op("POST", f"/approvals/{waiting}/approve", {"by": "ann"})
        assert (decided["approval"]["state"], decided["approval"]["reason"]) == ("cancelled", "approved_tool_target_changed")
        again = bench.call(token, "add_note", {"text": "done"})
        assert again["_meta"]["gateway/outcome"] == "pending"  # not the stored result of the first provider
        assert other.calls == []
    assert [call["arguments"]["text"] for call in provider.calls] == ["done"]
