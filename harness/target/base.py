"""The seam to a gateway: one small protocol, one file per gateway beside this one.

An adapter declares its abilities; a scenario that needs one the target lacks is red as untestable, never skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from harness.model.scenario import ConnectionSpec

Ability = Literal["audit", "approvals", "permissions", "access", "catalog", "refresh", "revoke", "runs", "test_clock", "mapped", "defects"]


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """`mapped` is host pattern → "address:port" for taps that stand in under the provider's real name."""

    work_dir: Path
    mapped: Mapping[str, str] = field(default_factory=dict)
    ca_file: Path | None = None
    test_clock: bool = False
    defects: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ConnectionRequest:
    """What the gateway is told of one connection. `credentials` are secret values by vault path."""

    name: str
    provider: str
    transport: Literal["mcp_http", "cognee_cloud"]
    url: str | None
    protocol: str
    auth: Mapping[str, str]
    credentials: Mapping[str, str]
    spec: ConnectionSpec
    subject: str


@dataclass(frozen=True, slots=True)
class RunGrant:
    """What an agent gets: where, and with which short-lived token."""

    run: str
    token: str
    url: str


class RunningTarget(Protocol):
    """A gateway that is up. Every method raises HarnessError when it cannot tell."""

    process_id: int | None

    async def open_tenant(self, name: str) -> str: ...
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
    def tool_of(self, exposed: str) -> tuple[str, str]: ...
    def said(self, result: Mapping[str, Any] | None, error: Mapping[str, Any] | None) -> Mapping[str, Any]: ...


class Target(Protocol):
    """`id` is the word for --target and the file's name."""

    id: str
    summary: str
    abilities: frozenset[Ability]

    def launch(self, options: LaunchOptions) -> AbstractAsyncContextManager[RunningTarget]: ...
