"""Case b05, as far as it is judged without a wire: what the provider was told, and what the agent was."""

from __future__ import annotations

from harness.transparency.cancelling import of_the_agent, of_the_provider
from harness.transparency.client import CANCELLED, Reply
from harness.transparency.lab import Seen


def held(ended: str) -> Seen:
    return Seen("tools/call", {"name": "wait_here"}, 4, {}, b"", ended)


def notice(number: object) -> Seen:
    return Seen(CANCELLED, {"requestId": number}, None, {}, b"")


def test_one_notice_with_the_providers_own_number_or_a_hang_up_is_right() -> None:
    assert of_the_provider([held("told")], [notice(4)]) == []
    assert of_the_provider([held("hung up")], []) == []


def test_no_word_another_number_and_two_notices_are_not() -> None:
    assert of_the_provider([held("")], [])[0].startswith("the call goes on")
    assert of_the_provider([held("hung up")], [notice(101)]) == ["the notice names an id that the provider does not know"]
    assert of_the_provider([held("told")], [notice(4), notice(4)]) == ["2 notices came for one call"]


def test_a_cancelled_call_has_no_result() -> None:
    assert of_the_agent(Reply(message={"id": 1, "result": {"content": []}})) == ["a result came for the cancelled call"]
    assert of_the_agent(Reply(message={"id": 1, "error": {"code": -32800}})) == []
    assert of_the_agent(Reply(trouble="the stream ended without an answer")) == []
