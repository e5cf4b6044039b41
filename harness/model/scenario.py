"""What we intend: a scenario, parsed once, frozen, with positions. Values may hold ${…} templates until rendered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, Field

from harness.model.location import Frozen, Location

Permission = Literal["allowed", "ask_first", "off"]
Place = Literal["host", "sandbox"]
"""Where the agent stands: beside the gateway, or where it cannot reach it and calls through the relay."""
PLACES: tuple[Place, ...] = ("host", "sandbox")
Level = Literal["fake", "replayed", "local", "live"]
LEVELS: tuple[Level, ...] = ("fake", "replayed", "local", "live")
PROTOCOLS = ("2025-06-18", "2025-11-25", "2026-07-28")
NEWEST_PROTOCOL = PROTOCOLS[-1]


class ConsentSpec(Frozen):
    """What the credential may do at the provider; a property of the credential, not of the gateway."""

    access: Literal["read", "read_write"] = "read_write"
    tags: tuple[str, ...] | None = None


class ConnectionSpec(Frozen):
    """One connection a scenario needs. `fake` holds settings of our stand-in (such as index_delay_s), used at level fake only.

    `subject`: whose personal grant it is; None: the user's for whom the run acts.
    `credential`: which of the provider's credentials is used, by its path, where any one of several will do; None: the first.
    """

    provider: str | None = None
    grant: Literal["organization", "personal"] = "organization"
    permissions: Mapping[str, Permission] = Field(default_factory=dict)
    consent: ConsentSpec = ConsentSpec()
    quarantine: bool = False
    credential: str | None = None
    subject: str | None = None
    fake: Mapping[str, Any] = Field(default_factory=dict)
    oauth: Mapping[str, Any] | None = None
    """The provider's stand-in is open only to tokens of an authorization server of its own (settings: docs/language.md); needs `setup: draft`."""
    setup: Literal["made", "draft"] = "made"
    """Whether it is there when the scenario begins, or only begun: then the scenario enters its credentials."""
    transport: Literal["provider", "local"] = "provider"
    """As its provider is spoken to, or as a local server in front of it."""
    managed: Mapping[str, Any] = Field(default_factory=dict)
    """Arguments that are fixed from the beginning (drafts only)."""


class Capture(Frozen):
    """A value read from a step's answer by JSON pointer, in structured content or in JSON-in-text."""

    source: Literal["result"] = "result"
    at: str
    location: Location


class Eventually(Frozen):
    """Poll until every expectation of the step holds or `within_s` has passed. Reads only."""

    within_s: float
    every_s: float = 0.2


class Expectation(Frozen):
    """One line of `expect:`. `word` is the expectation kind; `args` its parameters, unrendered."""

    id: str
    word: str
    args: Any
    location: Location


class Step(Frozen):
    """`verb` is the action's YAML word, `target` its value, `args` the verb's further keys, unrendered."""

    id: str
    verb: str
    target: Any
    args: Mapping[str, Any] = Field(default_factory=dict)
    expect: tuple[Expectation, ...] = ()
    capture: Mapping[str, Capture] = Field(default_factory=dict)
    eventually: Eventually | None = None
    location: Location


class Claim(Frozen):
    claim: str
    by: tuple[str, ...]
    location: Location


class When(Frozen):
    """Where the scenario applies at all; elsewhere it is not_applicable, which satisfies no required claim."""

    level: tuple[Level, ...] | None = None
    target: tuple[str, ...] | None = None


class Scenario(Frozen):
    id: str
    title: str
    area: str
    file: str
    source: str
    connections: Mapping[str, ConnectionSpec]
    tags: tuple[str, ...] = ()
    formerly: tuple[str, ...] = ()
    """Ids it had before; earlier runs under them belong to it."""
    protocols: tuple[str, ...] = (NEWEST_PROTOCOL,)
    when: When = When()
    let: Mapping[str, Any] = Field(default_factory=dict)
    steps: tuple[Step, ...]
    expect: tuple[Expectation, ...] = ()
    proves: tuple[Claim, ...] = ()
    does_not_prove: tuple[str, ...] = ()
    cleanup: tuple[Step, ...] = ()
    private_bench: bool = False
    place: Place = "host"
    location: Location

    def every_expectation(self) -> tuple[Expectation, ...]:
        """Of the steps in order, then of the run; cleanup has none."""
        return tuple(e for s in self.steps for e in s.expect) + self.expect


@dataclass(frozen=True, slots=True)
class Word:
    """One word of the vocabulary: a step verb or an expectation kind, with the pydantic model of its parameters.

    A verb's model has the field `target` for the verb's own value (`call: mem0.add_memory`) beside its further keys.
    An expectation's model is validated against the expectation's value; a scalar value `x` is given as {"value": x}.
    `scopes`: where an expectation may stand. `needs_step_call`: it judges a step that calls a tool.
    `mutates`: the verb moves time or breaks things for everyone, so the scenario gets a bench of its own.
    """

    id: str
    summary: str
    params: type[BaseModel]
    scopes: frozenset[str] = frozenset({"step", "run"})
    mutates: bool = False


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the language knows: verbs, expectations, and the provider manifests' ids."""

    verbs: Mapping[str, Word]
    expectations: Mapping[str, Word]
    providers: tuple[str, ...]
