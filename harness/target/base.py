"""The seam to a gateway: one small protocol, one file per gateway beside this one.

An adapter declares its abilities; a scenario that needs one the target lacks is red as untestable, never skipped.

audit          a record of calls that can be read
approvals      calls can be held, and decided by an operator
permissions    a tool can be set to allowed, ask first or off
access         what is enforced can be read back
catalog        the gateway's own list of a connection's tools can be read, apart from what an agent is shown
refresh        it can be told to discover a provider again
revoke         a connection's grant can be taken back
runs           agents get short-lived tokens
test_clock     its clock can be moved
mapped         a provider can be mapped to a tap under its real name
defects        it can be broken on purpose
bridges        it speaks REST to a provider that has no MCP endpoint
several        one agent session reaches several connections
credentials    it keeps the provider's credential, so that the agent needs none
quarantine     new tools can be held back
modes          what a run may do can be changed while it runs
setup          connections are set up step by step, and can be paused, rotated and delivered
reasons        it names why it refused, and that it was the one to refuse
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from harness.model.scenario import ConnectionSpec

Ability = Literal[
    "audit",
    "approvals",
    "permissions",
    "access",
    "catalog",
    "refresh",
    "revoke",
    "runs",
    "test_clock",
    "mapped",
    "defects",
    "bridges",
    "several",
    "credentials",
    "quarantine",
    "modes",
    "reasons",
    "setup",
]
ABILITIES: frozenset[Ability] = frozenset(get_args(Ability))


def tell_on_stderr(line: str) -> None:
    """Installing a gateway takes a minute: say so, where no report is written to."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """`mapped` is host pattern → "address:port" for taps that stand in under the provider's real name.

    `tell` gets one line of progress at a time.
    """

    work_dir: Path
    mapped: Mapping[str, str] = field(default_factory=dict)
    ca_file: Path | None = None
    test_clock: bool = False
    defects: Sequence[str] = ()
    allow_loopback: bool = True
    lab: bool = False
    """Names may be scripted, so that where the gateway would dial can be tried without dialling."""
    store: Path | None = None
    """A folder that outlives the gateway, with its store and the key of its vault (live runs, whose tokens are in it); None for neither."""
    tell: Callable[[str], None] = tell_on_stderr


@dataclass(frozen=True, slots=True)
class ConnectionRequest:
    """What the gateway is told of one connection. `credentials` are secret values by vault path."""

    name: str
    provider: str
    transport: Literal["mcp_http", "cognee_cloud", "papr_cloud", "stdio"]
    url: str | None
    protocol: str
    auth: Mapping[str, str]
    credentials: Mapping[str, str]
    spec: ConnectionSpec
    subject: str
    template: str | None = None
    """Of a local server, by the gateway's own list of approved commands."""


@dataclass(frozen=True, slots=True)
class RunGrant:
    """What an agent gets: where, and which bearer token (a run's own; the provider's where the gateway keeps none; "" for none)."""

    run: str
    token: str
    url: str


class RunningTarget(Protocol):
    """A gateway that is up. Every method raises HarnessError when it cannot tell, Untestable where the ability is missing.

    `label`: name and version, for messages. `executes_on_approval`: an approved call is carried out by the gateway itself; where it
    is not, the agent repeats the identical call.
    """

    label: str
    process_id: int | None
    executes_on_approval: bool

    async def open_tenant(self, name: str) -> str: ...
    async def close_tenant(self, tenant: str) -> None: ...
    async def connect(self, tenant: str, request: ConnectionRequest) -> Mapping[str, Any]: ...
    async def disconnect(self, tenant: str, connection: str) -> None: ...
    async def start_run(self, tenant: str, connections: Sequence[str], *, task: str, agent: str, subject: str) -> RunGrant: ...
    async def end_run(self, tenant: str, run: str) -> None: ...
    async def catalog(self, tenant: str, connection: str) -> Mapping[str, Any]: ...
    async def refresh(self, tenant: str, connection: str) -> Mapping[str, Any]: ...
    async def permissions(self, tenant: str, connection: str) -> Mapping[str, str]: ...
    async def set_permissions(self, tenant: str, connection: str, changes: Mapping[str, str]) -> Mapping[str, str]: ...
    async def access(self, tenant: str, connection: str) -> Mapping[str, int]: ...
    async def revoke(self, tenant: str, connection: str) -> None: ...
    async def decide(self, tenant: str, approval: str, *, approve: bool, by: str, reason: str) -> Mapping[str, Any]: ...
    async def audit(self, tenant: str, run: str | None) -> list[Mapping[str, Any]]: ...
    async def advance(self, seconds: float) -> None: ...
    async def health(self) -> Mapping[str, Any]: ...
    def exposed_name(self, connection: str, tool: str) -> str: ...
    def tool_of(self, exposed: str, connection: str = "") -> tuple[str, str]: ...
    def said(self, result: Mapping[str, Any] | None, error: Mapping[str, Any] | None) -> Mapping[str, Any]: ...


class Target(Protocol):
    """`id` is the word for --target and the file's name. `protocols`: the MCP versions its agent side speaks.

    `tap_port`: the tap's fixed port, for a gateway that cannot be told where its upstream is but has been pointed there before; else 0.
    `given`: the target for what stands behind the `=` of `--target ID=VALUE`; raises UsageError where it takes none.
    """

    id: str
    summary: str
    abilities: frozenset[Ability]
    protocols: tuple[str, ...]
    tap_port: int

    def given(self, value: str) -> Target: ...
    def launch(self, options: LaunchOptions) -> AbstractAsyncContextManager[RunningTarget]: ...
