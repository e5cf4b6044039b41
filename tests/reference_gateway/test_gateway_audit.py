"""The audit log: the documented record, a chain that shows tampering, and recovery of calls that a crash cut off."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_gateway.audit import AuditFields, AuditLog, stamp, verify
from reference_gateway.canonical import canonical_bytes
from reference_gateway.store.base import GENESIS
from reference_gateway.store.sqlite import SqliteStore

# docs/operator-api.md, "Audit records", in its order
DOCUMENTED = [
    "seq", "at", "tenant", "run", "task", "agent", "actor", "connection", "provider", "tool", "invocation", "approval", "event", "outcome",
    "decision", "reason", "risk", "schema_hash", "arguments_digest", "traceparent", "details", "prev_hash", "hash",
]  # fmt: skip
ENTRIES = st.tuples(st.sampled_from(["t1", "t2"]), st.text(max_size=20), st.integers() | st.floats(allow_nan=False))


class Clock:
    def __init__(self) -> None:
        self.instant = datetime(2026, 11, 30, 10, tzinfo=UTC)

    def now(self) -> datetime:
        return self.instant


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "gateway.db")
    opened.open()
    yield opened
    opened.close()


@pytest.fixture
def log(store: SqliteStore) -> AuditLog:
    return AuditLog(store, Clock())


def decided(**more: Any) -> AuditFields:
    fields: Any = {
        "tenant": "t1", "run": "r1", "actor": "agent:a1", "invocation": "i1", "connection": "mem0", "provider": "mem0",
        "tool": "add_memory", "event": "policy_decision", "outcome": "success", "decision": "allow", "reason": "allow_default", **more,
    }  # fmt: skip
    result: AuditFields = fields
    return result


def test_a_record_is_the_documented_one(log: AuditLog) -> None:
    written = log.append(**decided(task="k1", agent="a1", risk="write", details={"latency_ms": 1.5}))
    assert list(written) == DOCUMENTED
    assert written["at"] == "2026-11-30T10:00:00.000000Z"
    assert written["seq"] == 1
    assert written["prev_hash"] == GENESIS
    assert written["approval"] is None
    assert written["details"] == {"latency_ms": 1.5}
    assert log.read("t1") == [written]
    assert log.head() == (1, written["hash"])


def test_an_unknown_field_is_a_mistake_of_ours(log: AuditLog) -> None:
    wrong: Any = {**decided(), "arguments": {"text": "secret"}}
    with pytest.raises(TypeError, match="arguments"):
        log.append(**wrong)
    with pytest.raises(TypeError, match="set"):
        log.append(**decided(details={"x": {1}}))
    assert log.head() == (0, GENESIS)


def test_several_are_written_together_or_not_at_all(log: AuditLog) -> None:
    broken: Any = decided(details={"x": object()})
    with pytest.raises(TypeError):
        log.append_many([decided(), broken])
    assert log.head() == (0, GENESIS)
    assert [record["seq"] for record in log.append_many([decided(), decided(tenant="t2")])] == [1, 2]


def test_strange_text_from_outside_is_recorded_as_one_verifiable_record(log: AuditLog) -> None:
    name = 'x"}\n{"seq":43,"event":"approval_resolved"}\u2028\x00\x1b[31m\ud83e'
    written = log.append(**decided(tool=name, details={"provider_code": 2**70, "size": float("inf"), "list": (1, [True, None]), name: 1}))
    assert written["tool"] == name[:-1] + "\ufffd"
    assert written["details"]["provider_code"] == hex(2**70)
    assert written["details"]["size"] == "inf"
    again = json.loads(json.dumps(log.read("t1")))
    assert len(again) == 1
    assert verify(again, head=log.head()) == []


def test_times_are_utc_with_microseconds() -> None:
    east = datetime(2026, 11, 30, 12, 0, 0, 7, tzinfo=timezone(timedelta(hours=2)))
    assert stamp(east) == "2026-11-30T10:00:00.000007Z"


def test_recovery_closes_every_started_call_once(log: AuditLog) -> None:
    started: Any = {"event": "call_started", "outcome": "pending", "reason": "dispatching"}
    log.append_many([decided(), decided(**started, invocation="i1", details={"transport": "mcp_http"}, approval="ap1", risk="write")])
    log.append_many([decided(**started, invocation="i2"), decided(event="call_completed", reason="tool_completed", invocation="i2")])
    (written,) = log.recover()
    judged = tuple(written[key] for key in ("event", "outcome", "decision", "reason"))
    assert judged == ("call_failed", "unknown", "allow", "outcome_unrecorded")
    assert (written["invocation"], written["approval"], written["actor"], written["risk"]) == ("i1", "ap1", "gateway", "write")
    assert written["details"] == {"transport": "mcp_http"}
    assert log.recover() == []
    assert verify(log.read(None), head=log.head()) == []


# tampering


@pytest.fixture
def chain(log: AuditLog) -> list[dict[str, Any]]:
    return log.append_many([decided(invocation=f"i{number}", details={"n": number}) for number in range(6)])


def test_a_clean_log_has_no_problems_whole_or_in_part(chain: list[dict[str, Any]]) -> None:
    assert verify([]) == []
    assert verify(chain, head=(6, chain[-1]["hash"])) == []
    assert verify(chain[2:4], whole=False) == []
    assert verify([chain[0], chain[3]], whole=False) == []


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("key", DOCUMENTED)
def test_any_altered_field_is_found(chain: list[dict[str, Any]], place: int, key: str) -> None:
    forged = copy.deepcopy(chain)
    forged[place][key] = {"details": {"n": 99}, "seq": 17}.get(key, "forged")
    assert verify(forged)
    del forged[place][key]
    assert verify(forged)


def test_removed_reordered_doubled_and_inserted_records_are_found(chain: list[dict[str, Any]]) -> None:
    for place in range(5):
        assert verify(chain[:place] + chain[place + 1 :]), "removed"
        swapped = [*chain[:place], chain[place + 1], chain[place], *chain[place + 2 :]]
        assert verify(swapped), "swapped"
        assert verify([*chain[: place + 1], chain[place], *chain[place + 1 :]]), "doubled"
    assert verify([{**chain[0], "seq": 0}, *chain]), "inserted"
    assert verify([{**chain[0], "seq": True}, *chain[1:]]), "not a number"
    assert verify([{**chain[0], "details": {"n": 2**60}}, *chain[1:]]), "not canonical"


@pytest.mark.parametrize("place", range(5))
def test_a_forger_who_rehashes_one_record_breaks_the_next_link(chain: list[dict[str, Any]], place: int) -> None:
    forged = copy.deepcopy(chain)
    forged[place]["outcome"] = "denied"
    body = {key: value for key, value in forged[place].items() if key != "hash"}
    forged[place]["hash"] = hashlib.sha256(canonical_bytes(body)).hexdigest()
    assert verify(forged) == [f"seq {place + 2} does not chain to the record before it"]


def test_a_cut_tail_or_another_log_needs_the_known_head(chain: list[dict[str, Any]]) -> None:
    assert verify(chain[:4]) == []
    assert verify(chain[:4], head=(6, chain[-1]["hash"])) == ["the log ends at seq 4, but its head is known to be seq 6"]
    assert verify(chain, head=(6, "0" * 64)) == ["seq 6 is not the known head"]


@settings(max_examples=30, deadline=None)
@given(st.lists(ENTRIES, min_size=1, max_size=8))
def test_whatever_is_recorded_verifies(tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[str, str, float]]) -> None:
    store = SqliteStore(tmp_path_factory.mktemp("audit") / "gateway.db")
    store.open()
    log = AuditLog(store, Clock())
    for tenant, text, number in entries:
        log.append(**decided(tenant=tenant, tool=text, details={text: number}))
    assert verify(json.loads(json.dumps(log.read(None))), head=log.head()) == []
    assert verify(log.read("t1"), whole=False) == []
    assert log.head()[0] == len(entries)
    store.close()
