"""Ids that no double can carry, in a recording: every digit on the way there, in the file, and on the way back."""

from __future__ import annotations

from typing import Any

import pytest

from harness.cassette.redact import Redactor
from harness.cassette.seal import seal

from .test_record_replay import ERAS, SECRET, draft, left, lost, play, recording, sealed

pytestmark = pytest.mark.anyio
TOO_LONG_FOR_A_DOUBLE = 725653563933458433


@pytest.mark.parametrize("version", ERAS)
async def test_b02_an_id_keeps_every_digit_in_a_recording_and_its_neighbour_is_another_request(bench: Any, version: str) -> None:
    def arguments(number: int) -> dict[str, Any]:
        return {"text": "the id", "count": number}

    async with recording(bench) as (provider, mount):
        async with bench.session(mount.url("/mcp"), version) as session:
            await session.list_tools()
            then = await session.call_tool("add_memory", arguments(TOO_LONG_FOR_A_DOUBLE))
        assert provider.calls == [("add_memory", arguments(TOO_LONG_FOR_A_DOUBLE))]
        redactor = Redactor()
        redactor.know({"p:key": SECRET})
        content = seal(draft(), mount.recorder.finished(), redactor)
        cassette = sealed(mount)
    assert then.structured_content == {"got": arguments(TOO_LONG_FOR_A_DOUBLE)}
    assert content.count(str(TOO_LONG_FOR_A_DOUBLE).encode()) >= 3, "in the request, in the text and in the structured content of the answer"
    assert str(TOO_LONG_FOR_A_DOUBLE - 1).encode() not in content
    replay = play(bench, cassette)
    async with bench.session(replay.url("/mcp"), version) as session:
        await session.list_tools()
        again = await session.call_tool("add_memory", arguments(TOO_LONG_FOR_A_DOUBLE))
    assert again.structured_content == then.structured_content
    assert [what for what in left(replay) if "tools/call" in what] == []
    assert lost(replay) == []


async def test_b02_a_neighbouring_id_finds_no_recorded_answer(bench: Any) -> None:
    said = {"accept": "application/json"}
    async with recording(bench, json_response=True) as (_, mount):
        await bench.http.post(mount.url("/mcp"), json=bench.call("add_memory", {"text": "a", "count": TOO_LONG_FOR_A_DOUBLE}), headers=said)
        cassette = sealed(mount)
    replay = play(bench, cassette)
    numbers = (TOO_LONG_FOR_A_DOUBLE - 1, TOO_LONG_FOR_A_DOUBLE)
    answers = [
        await bench.http.post(replay.url("/mcp"), json=bench.call("add_memory", {"text": "a", "count": each}), headers=said) for each in numbers
    ]
    assert [answer.status_code == 502 for answer in answers] == [True, False]
    (found,) = lost(replay)
    assert str(TOO_LONG_FOR_A_DOUBLE - 1) in found.diff
