"""providers/<id>.yaml: what is known of a provider apart from its tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from harness.model.location import Frozen


class RecallShape(Frozen):
    """Where a recall tool's answer keeps its items: JSON pointers, the inner ones relative to an item.

    `items` is looked up in structured content, else in JSON-in-text; "" is the answer itself.
    `scope` maps an argument's name to the pointer of the item's field that must equal it.
    """

    items: str
    text: str
    id: str | None = None
    scope: Mapping[str, str] = Field(default_factory=dict)
    heading: str | None = None
    """Regular expression of the line that opens an item in an answer that is prose only."""


class Operation(Frozen):
    """A REST request that is the dispatch of one tool (bridges only)."""

    method: str
    path: str
    tool: str | None = None
    """None for a request that carries out no tool, such as the probe of a set-up."""


class Auth(Frozen):
    """How the gateway presents the credential, and under which paths its vault keeps it: all of them, or, with `one_of`, exactly one."""

    scheme: Literal["bearer", "token", "header", "oauth", "cognee", "papr"]
    paths: tuple[str, ...]
    one_of: bool = False
    header: str | None = None
    scopes: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


class Thing(Frozen):
    """Something that a tool makes at the provider: how it is known afterwards, and which tools remove it.

    `when`: arguments that the call must have. `id`: JSON pointer into the answer. `name`: arguments that name it.
    `removed_by`: tool → the argument that names what is removed; empty where the provider offers no way. `removed_when`: as `when`.
    """

    kind: str
    made_by: str
    when: Mapping[str, Any] = Field(default_factory=dict)
    id: str | None = None
    name: tuple[str, ...] = ()
    removed_by: Mapping[str, str] = Field(default_factory=dict)
    removed_when: Mapping[str, Any] = Field(default_factory=dict)


class SweepSpec(Frozen):
    """How to find things of earlier runs: `list` with `arguments`, where `items` are, and each one's `name`; `page` names its page number.

    Own ones are removed by the tool `remove` with `removal`; `then` looks inside each own one. In arguments `$name` stands for this
    one's name and `$parent` for that of the one around it.
    """

    kind: str
    list: str
    arguments: Mapping[str, Any] = Field(default_factory=dict)
    items: str
    name: str
    page: str | None = None
    remove: str | None = None
    removal: Mapping[str, Any] = Field(default_factory=dict)
    then: SweepSpec | None = None


class VisibleSpec(Frozen):
    """What a read shows: `raw` is what was written, `derived` what the provider makes of it later. The first that matches counts."""

    tool: str
    kind: Literal["raw", "derived"]
    when: Mapping[str, Any] = Field(default_factory=dict)


class QueuedSpec(Frozen):
    """A write's answer that only says that it was accepted: `at` (a pointer into the answer) is one of `values`."""

    tool: str
    at: str
    values: tuple[str, ...]


class LiveSpec(Frozen):
    """What live runs must know of a provider. `cost`: units by tool, 1 where none is given."""

    things: tuple[Thing, ...] = ()
    sweep: tuple[SweepSpec, ...] = ()
    visible: tuple[VisibleSpec, ...] = ()
    queued: tuple[QueuedSpec, ...] = ()
    cost: Mapping[str, float] = Field(default_factory=dict)


class LocalSpec(Frozen):
    """How the provider's own server is started on this machine: a command that speaks MCP on its standard input and output.

    It runs where the harness was started. `env` is all that it gets besides PATH and the like, and a HOME of its own; `secrets` names
    further variables, taken from the environment of the harness. `memory`: `fake` when what stands behind it is no more than simulated.
    `protocols`: the versions that it speaks; for an agent at another one the gateway has to convert.
    """

    stdio: tuple[str, ...] = Field(min_length=1)
    env: Mapping[str, str] = Field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    memory: Literal["local", "fake"] = "local"
    protocols: tuple[Literal["2025-06-18", "2025-11-25", "2026-07-28"], ...] = Field(default=("2025-06-18", "2025-11-25"), min_length=1)


class Manifest(Frozen):
    id: str
    title: str
    docs: str
    transport: Literal["mcp_http", "cognee_cloud", "papr_cloud"]
    endpoint: str
    path: str
    mount: Literal["reverse", "mapped"]
    auth: Auth
    selectors: tuple[str, ...] = ()
    known_as: str | None = None
    """What a gateway is told the provider is, where it is none that a gateway knows by name; None: the id."""
    instructions: str = ""
    recall: Mapping[str, RecallShape] = Field(default_factory=dict)
    operations: tuple[Operation, ...] = ()
    live: LiveSpec = LiveSpec()
    local: LocalSpec | None = None
    extra: Mapping[str, Any] = Field(default_factory=dict)
