"""A small vocabulary with the shapes that real words have: bare values, nested models, aliases, unions, durations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import pytest
from pydantic import Field, model_validator

from harness.errors import LoadErrors
from harness.model.location import Frozen, Yes
from harness.model.scenario import Scenario, Vocabulary, Word
from harness.scenario.durations import Seconds
from harness.scenario.load import load_scenario

EXAMPLE = """\
scenario: MEM-1
title: A Mem0 write waits for approval, runs once, and is recalled exactly
connections: {mem0: {grant: personal, permissions: {add_memory: ask_first}}}
tags: [release, nightly]
let:
  user: "harness-${run.id}"
  fact: "The ${nonce} navigator keeps a silver compass in a maple cabinet."
steps:
  - id: write
    call: mem0.add_memory
    with: {text: "${fact}", user_id: "${user}", infer: false}
    expect:
      - {id: held, pending: approval}
      - {id: not-dispatched, dispatched: 0}
  - id: allow
    approve: write
    as: operator
    capture: {memory_id: {from: result, at: "/results/0/id"}}
    expect:
      - {id: dispatched-once, dispatched: {step: write, count: 1, after: allow}}
  - id: recall
    call: mem0.search_memories
    with: {query: "What does the navigator keep in the maple cabinet?", filters: {user_id: "${user}"}}
    eventually: {within: 30s}
    expect:
      - {id: exact, recalled: {text: "${fact}", id: "${allow.memory_id}", scope: {user_id: "${user}"}}}
expect:                       # on the whole run
  - {id: trail, audited: {tool: add_memory, is: approved_success}}
  - {id: quiet, nothing_else: true}
  - {id: clean, no_secret: true}
proves:
  - {claim: a write under Ask first reaches the provider only after approval and exactly once,
     by: [held, not-dispatched, dispatched-once, trail, quiet]}
  - {claim: the written fact is recalled exactly, by: [exact]}
does_not_prove:
  - that memories inferred by the provider's model are correct
  - that user_id isolates one user from another
cleanup:
  - call: mem0.delete_memory
    with: {memory_id: "${allow.memory_id}"}
"""


class Call(Frozen):
    target: str
    with_: Mapping[str, Any] = Field(default_factory=dict, alias="with")
    timeout: Seconds | None = None
    during: Mapping[str, Any] | None = None


class Approve(Frozen):
    target: str
    as_: str = Field(default="operator", alias="as")


class Refresh(Frozen):
    target: str


class Advance(Frozen):
    target: Seconds


class SetPermission(Frozen):
    target: str
    to: Literal["allowed", "ask_first", "off"]


class Say(Frozen):
    target: Literal["success", "failure"]
    about: str


class Pending(Frozen):
    value: Literal["approval"]


class Flag(Frozen):
    value: Yes


class Dispatched(Frozen):
    count: int
    step: str | None = None
    after: str | None = None
    before: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return {"count": value["value"]} if isinstance(value, dict) and set(value) == {"value"} else value


class Recalled(Frozen):
    text: str
    id: str | None = None
    scope: Mapping[str, Any] = Field(default_factory=dict)


class Audited(Frozen):
    is_: Literal["success", "approved_success", "denied"] = Field(alias="is")
    tool: str | None = None


class Result(Frozen):
    contains: str | tuple[str, ...] | None = None
    is_error: bool | None = None
    at: Mapping[str, Any] | None = None


def words(*entries: Word) -> dict[str, Word]:
    return {word.id: word for word in entries}


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    step, run = frozenset({"step"}), frozenset({"run"})
    return Vocabulary(
        verbs=words(
            Word("call", "calls a tool", Call),
            Word("approve", "lets a held call run", Approve),
            Word("refresh", "discovers again", Refresh),
            Word("advance", "moves time", Advance, mutates=True),
            Word("say", "states", Say),
            Word("set_permission", "changes a permission", SetPermission),
        ),
        expectations=words(
            Word("pending", "held", Pending, step),
            Word("dispatched", "count", Dispatched),
            Word("recalled", "found", Recalled, step),
            Word("audited", "trail", Audited),
            Word("result", "answer", Result, step),
            Word("nothing_else", "quiet", Flag, run),
            Word("no_secret", "clean", Flag, run),
        ),
        providers=("cognee", "honcho", "mem0", "supermemory", "zep"),
    )


@pytest.fixture(scope="session")
def load(vocabulary: Vocabulary) -> Callable[[str], Scenario]:
    return lambda text: load_scenario(text, "scenarios/mem/case.yaml", vocabulary)


@pytest.fixture(scope="session")
def refusals(load: Callable[[str], Scenario]) -> Callable[[str], list[tuple[str, str, str]]]:
    """What is wrong with a text, as (line:column, what, fix)."""

    def of(text: str) -> list[tuple[str, str, str]]:
        try:
            load(text)
        except LoadErrors as errors:
            return [(e.where.removeprefix("scenarios/mem/case.yaml:"), e.what, e.fix) for e in errors.errors]
        return []

    return of


@pytest.fixture(scope="session")
def example() -> str:
    """The example of the language's documentation."""
    return EXAMPLE
