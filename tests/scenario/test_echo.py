"""An expectation whose text the request already holds is refused: an answer that repeats the question would pass it."""

from __future__ import annotations

from collections.abc import Callable

from harness.model.scenario import Scenario

Refusal = tuple[str, str, str]

ECHO = """\
scenario: ECHO
title: A recall that an echo would pass
connections: [mem0]
let: {fact: "The ${nonce} navigator", user: "u-${run.id}"}
steps:
  - id: recall
    call: search_memories
    with: {query: "${fact}", filters: {user_id: "${user}"}}
    eventually: {within: 30s}
    expect:
      - result: {contains: "${fact}", is_error: false}
"""


def test_c03_text_that_the_request_already_holds_proves_no_recall(refusals: Callable[[str], list[Refusal]]) -> None:
    fix = "expect text that only the answer can hold, or name the place (at: …, equals: …), or use `recalled`, which judges result items"
    assert refusals(ECHO) == [("11:28", "the expected text '${fact}' is already in the request of step 'recall'", fix)]


def test_a_part_of_the_request_is_an_echo_too_whatever_its_case(refusals: Callable[[str], list[Refusal]]) -> None:
    text = ECHO.replace('contains: "${fact}"', 'contains: "NAVIGATOR"')
    assert [what for _, what, _ in refusals(text)] == ["the expected text 'NAVIGATOR' is already in the request of step 'recall'"]


def test_text_that_only_the_answer_can_hold_is_accepted(load: Callable[[str], Scenario]) -> None:
    load(ECHO.replace('query: "${fact}"', 'query: "who keeps the compass?"'))


def test_an_expectation_on_an_approval_is_held_against_the_call_it_carries_out(example: str, refusals: Callable[[str], list[Refusal]]) -> None:
    text = example.replace("      - {id: dispatched-once,", '      - {id: stored, result: {contains: "${fact}"}}\n      - {id: dispatched-once,')
    assert [(where, what) for where, what, _ in refusals(text)] == [
        ("20:41", "the expected text '${fact}' is already in the request of step 'allow'")
    ]
