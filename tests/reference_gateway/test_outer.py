"""The outer side through the operator API: audience, revocation of calls under way, credentials that do not open, the key, scripted names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import apsw
import pytest

from tests.reference_gateway.conftest import SECRET, Bench, Refused, denied, gateway_served, raw_call


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("outer")
    write_key(made / "key", 1)
    return made


@pytest.fixture(scope="module")
def kept(folder: Path) -> Iterator[Any]:
    """A gateway whose store and key lie in files, with a laboratory."""
    with gateway_served(store=str(folder / "gateway.sqlite"), vault_key_file=str(folder / "key"), lab=True) as operator:
        yield operator


@pytest.fixture
def outside(kept: Any, provider: Any) -> Bench:
    made = Bench(kept, provider, kept("POST", "/tenants", {})["tenant"])
    made.connect()
    return made


def write_key(file: Path, byte: int) -> None:
    file.write_bytes(bytes([byte]) * 32)
    file.chmod(0o600)


def reason(result: Any) -> Any:
    return result["_meta"].get("gateway/reason")


def test_an_audience_holds_from_the_next_call_on_and_survives_a_reading(outside: Bench) -> None:
    run, token = outside.run(subject="user-1")
    assert reason(outside.call(token, "get_echo", {"id": 1})) is None
    shown = outside.op("PUT", "/connections/notes/audience", {"audience": ["user-2"]})
    assert shown["grant"] == {"kind": "organization", "audience": ["user-2"]}
    assert reason(outside.call(token, "get_echo", {"id": 1})) == "grant_audience_denied"
    assert outside.trail(run)[-2:] == denied("grant_audience_denied")
    outside.op("PUT", "/connections/notes/audience", {"audience": ["user-1", "user-2"]})
    assert reason(outside.call(token, "get_echo", {"id": 1})) is None
    told = [r["details"]["audience"] for r in outside.records() if r["event"] == "grant_audience_changed"]
    assert told == [["user-2"], ["user-1", "user-2"]]


@pytest.mark.parametrize("body", [{}, {"audience": "user-1"}, {"audience": [1]}, {"audience": [" "]}, {"audience": None, "more": 1}])
def test_an_audience_that_cannot_be_read_changes_nothing(outside: Bench, body: Any) -> None:
    with pytest.raises(Refused) as refused:
        outside.op("PUT", "/connections/notes/audience", body)
    assert refused.value.status == 422
    assert outside.op("GET", "/connections/notes")["grant"] == {"kind": "organization"}


def test_a_personal_grant_has_no_audience_and_no_argument_names_its_user(outside: Bench) -> None:
    outside.connect("mine", grant={"kind": "personal", "subject": "user-1"})
    with pytest.raises(Refused) as refused:
        outside.op("PUT", "/connections/mine/audience", {"audience": ["user-2"]})
    assert refused.value.code == "invalid_field"
    _, token = outside.run("mine", subject="user-2")
    for arguments in ({"user_id": "user-1"}, {"subject": "user-1"}, {"text": "x", "user_id": "user-1"}):
        result = outside.call(token, "mine__get_echo", arguments, meta={"gateway/subject": "user-1", "subject": "user-1"})
        assert reason(result) == "not_granted"


def test_a_call_under_way_when_its_grant_is_revoked_is_named_and_marked(outside: Bench) -> None:
    run, token = outside.run()

    async def both() -> Any:
        async with outside.agent(token) as session, anyio.create_task_group() as group:
            results: list[Any] = []

            async def slow() -> None:
                results.append(await raw_call(session, "get_slow"))

            group.start_soon(slow)
            await anyio.to_thread.run_sync(outside.provider.started.wait)
            await anyio.to_thread.run_sync(lambda: outside.op("POST", "/connections/notes/revoke"))
            refused = await raw_call(session, "get_echo", {"id": 1})
            outside.provider.release.set()
        return results[0], refused

    under_way, refused = anyio.run(both)
    assert reason(under_way) is None
    assert reason(refused) == "grant_revoked"
    records = outside.records()
    revoked = next(r for r in records if r["event"] == "grant_revoked")
    ended = [r for r in records if r["event"] == "call_completed" and r["run"] == run]
    assert revoked["details"]["in_flight"] == [ended[-1]["invocation"]]
    assert ended[-1]["details"]["grant_revoked"] is True


def test_a_credential_that_does_not_open_refuses_the_call_before_anything_is_recorded_as_sent(outside: Bench, folder: Path) -> None:
    run, token = outside.run()
    store = apsw.Connection(str(folder / "gateway.sqlite"))
    store.set_busy_timeout(2000)
    store.execute("UPDATE secrets SET version = version + 1 WHERE tenant = ?", (outside.tenant,))
    assert reason(outside.call(token, "get_echo", {"id": 1})) == "grant_credential_invalid"
    assert outside.trail(run) == denied("grant_credential_invalid")
    store.execute("UPDATE secrets SET version = version - 1 WHERE tenant = ?", (outside.tenant,))
    store.close()
    assert reason(outside.call(token, "get_echo", {"id": 1})) is None


def test_the_key_is_changed_while_calls_go_on(outside: Bench, folder: Path) -> None:
    _, token = outside.run()
    write_key(folder / "key", 2)
    done = outside.operator("POST", "/vault/rotate")
    assert done["secrets"] >= 1
    assert done["key"] != done["before"]
    assert reason(outside.call(token, "get_echo", {"id": 1})) is None
    (record,) = [r for r in outside.records() if r["event"] == "vault_rotated"]
    assert record["details"] == {"secrets": 1, "key": done["key"], "before": done["before"]}
    assert outside.operator("POST", "/vault/rotate") == {"secrets": 0, "key": done["key"], "before": done["key"]}
    (folder / "key").chmod(0o644)
    with pytest.raises(Refused) as refused:
        outside.operator("POST", "/vault/rotate")
    assert refused.value.code == "vault_key_unusable"
    (folder / "key").chmod(0o600)
    assert reason(outside.call(token, "get_echo", {"id": 1})) is None


def test_a_call_that_rests_on_the_loopback_setting_says_so(outside: Bench) -> None:
    run, token = outside.run()
    outside.call(token, "get_echo", {"id": 1})
    started = next(r for r in outside.records(run) if r["event"] == "call_started")
    assert started["details"]["development"] == ["allow_loopback"]
    assert outside.operator("GET", "/health")["development"]["lab"] is True


def test_no_page_of_the_store_holds_the_credential(outside: Bench, folder: Path) -> None:
    files = [file.read_bytes() for file in folder.iterdir() if file.name.startswith("gateway.sqlite") and "-live-" not in file.name]
    assert len(files) == 3
    assert all(SECRET.encode() not in content for content in files)
    assert any(outside.tenant.encode() in content for content in files)  # the scan sees what is there


def test_scripted_names_are_judged_like_any_other(outside: Bench) -> None:
    script = {"names": {"inside.example.com": [["10.0.0.1"]]}, "leads": [{"address": "10.0.0.1", "port": 443, "to": 9}]}
    assert outside.operator("PUT", "/development/names", script) == {"asked": {}}
    with pytest.raises(Refused) as refused:
        outside.connect("inside", url="https://inside.example.com/mcp")
    assert refused.value.code == "provider_unreachable"
    assert outside.operator("GET", "/development/names") == {"asked": {"inside.example.com": 1}}
    outside.operator("PUT", "/development/names", {"names": {}})


def test_without_a_laboratory_no_name_is_scripted(bench: Bench) -> None:
    with pytest.raises(Refused) as refused:
        bench.operator("PUT", "/development/names", {"names": {}})
    assert (refused.value.status, refused.value.code) == (409, "lab_not_open")
