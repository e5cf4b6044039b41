"""What the small gateways have in common: one upstream per process, so one process per connection, started and ended by the harness."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from harness.errors import HarnessError, Untestable, UsageError
from harness.target.base import Ability, ConnectionRequest, LaunchOptions, RunGrant, RunningTarget
from harness.target.child import Child, Command, free_port
from harness.target.dialect import Dialect, Reply, first
from harness.target.installed import Installation, installation
from harness.target.names import Naming


@dataclass
class Served:
    """One connection of one tenant: its gateway process, and the private folder that holds its configuration and state."""

    request: ConnectionRequest
    home: Path
    port: int
    log: Path
    child: Child | None = None


class LightTarget(ABC):
    """`package`: the distribution whose pinned version is the gateway's. `naming` and `dialects` are declarations about what it does."""

    id: ClassVar[str]
    summary: ClassVar[str]
    package: ClassVar[str]
    abilities: ClassVar[frozenset[Ability]] = frozenset()
    protocols: ClassVar[tuple[str, ...]]
    naming: ClassVar[Naming] = Naming()
    dialects: ClassVar[Sequence[Dialect]] = ()
    path: ClassVar[str] = "/mcp"
    tap_port: int = 0

    def installation(self) -> Installation:
        return installation(self.id, self.package)

    @abstractmethod
    def command(self, installed: Installation, served: Served) -> Command:
        """How it is started for one connection; may write its configuration into `served.home`, which nobody else can read."""

    def given(self, value: str) -> LightTarget:
        """For what stands behind the `=` of --target; most targets take nothing there."""
        raise UsageError(f"target {self.id} takes no value, {value!r} was given", where="--target", fix=f"write --target {self.id}")

    def gateway(self, installed: Installation, options: LaunchOptions) -> LightGateway:
        """What speaks to it once it runs."""
        return LightGateway(self, installed.label, options)

    @asynccontextmanager
    async def launch(self, options: LaunchOptions) -> AsyncIterator[RunningTarget]:
        """Installs it on first use. Raises Unreachable (4) when it cannot be had."""
        installed = self.installation()
        await installed.ensure(options.tell)
        gateway = self.gateway(installed, options)
        try:
            yield gateway
        finally:
            await gateway.close()


class LightGateway:
    """A RunningTarget without a control plane. A subclass overrides what its gateway can do and declares the ability."""

    process_id: int | None = None
    executes_on_approval = True

    def __init__(self, kind: LightTarget, label: str, options: LaunchOptions) -> None:
        self.kind = kind
        self.options = options
        self.label = label
        self.served: dict[tuple[str, str], Served] = {}

    # ---- life

    async def close(self) -> None:
        """Ends whatever is still up. The first trouble is told once everything is gone."""
        troubles: list[HarnessError] = []
        for tenant in {tenant for tenant, _ in self.served}:
            try:
                await self.close_tenant(tenant)
            except HarnessError as error:
                troubles.append(error)
        if troubles:
            raise troubles[0]

    async def open_tenant(self, name: str) -> str:
        return name

    async def close_tenant(self, tenant: str) -> None:
        """Raises Unreachable when a gateway had ended by itself, Incomplete when it left processes behind."""
        troubles: list[HarnessError] = []
        for key in [key for key in self.served if key[0] == tenant]:
            served = self.served.pop(key)
            try:
                await self.ended(served)
            except HarnessError as error:
                troubles.append(error)
        if troubles:
            raise troubles[0]

    async def _end(self, served: Served) -> None:
        if served.child is None:
            return
        child, served.child = served.child, None
        died: HarnessError | None = None
        await child.settle()
        try:
            child.must_live()
        except HarnessError as error:
            died = error
        await child.end()
        if died is not None:
            raise died

    async def connect(self, tenant: str, request: ConnectionRequest) -> Mapping[str, Any]:
        """Starts the gateway with the tap as its upstream."""
        served = self.made(tenant, request.name, request)
        await self.start(served)
        return {"name": request.name, "gateway": self.label, "port": served.port}

    def made(self, tenant: str, name: str, request: ConnectionRequest) -> Served:
        """A port and a private folder for one more process, which end with the tenant at the latest."""
        home = Path(tempfile.mkdtemp(prefix=f"{self.kind.id}-"))
        served = self.served[tenant, name] = Served(request, home, free_port(), self.options.work_dir / f"{self.kind.id}.log")
        return served

    async def start(self, served: Served) -> None:
        served.child = await Child.start(self.label, self.kind.command(self.kind.installation(), served))

    async def disconnect(self, tenant: str, connection: str) -> None:
        served = self.need(tenant, connection)
        del self.served[tenant, connection]
        await self.ended(served)

    async def ended(self, served: Served) -> None:
        """Its process ends, and its folder with it. Raises as close_tenant does."""
        try:
            await self._end(served)
        finally:
            shutil.rmtree(served.home, ignore_errors=True)

    def need(self, tenant: str, connection: str) -> Served:
        served = self.served.get((tenant, connection))
        if served is None or served.child is None:
            raise Untestable(f"{self.label} was not started for {connection}", where=tenant, fix="see the trouble that came before")
        served.child.must_live()
        return served

    async def start_run(self, tenant: str, connections: Sequence[str], *, task: str, agent: str, subject: str) -> RunGrant:
        if len(connections) != 1:
            self.lacks("several")
        served = self.need(tenant, connections[0])
        return RunGrant(run="", token=self.token(served), url=f"http://127.0.0.1:{served.port}{self.kind.path}")

    def token(self, served: Served) -> str:
        """The agent's bearer token: none, unless the gateway leaves the provider's credential to the agent."""
        return "" if "credentials" in self.kind.abilities else secret_of(served.request)

    async def health(self) -> Mapping[str, Any]:
        return {"gateway": self.label, "processes": [s.child.process_id for s in self.served.values() if s.child is not None]}

    # ---- names and words

    def exposed_name(self, connection: str, tool: str) -> str:
        return self.kind.naming.shown(connection, tool)

    def tool_of(self, exposed: str, connection: str = "") -> tuple[str, str]:
        return self.kind.naming.own(exposed, connection)

    def said(self, result: Mapping[str, Any] | None, error: Mapping[str, Any] | None) -> Mapping[str, Any]:
        return first(self.kind.dialects, Reply(result, error))

    # ---- abilities that it lacks

    def lacks(self, ability: Ability) -> NoReturn:
        raise Untestable(f"{ability}: {self.label} has no such ability", where=self.kind.id, fix="see docs/targets.md")

    async def end_run(self, tenant: str, run: str) -> None:
        self.lacks("runs")

    async def catalog(self, tenant: str, connection: str) -> Mapping[str, Any]:
        self.lacks("catalog")

    async def refresh(self, tenant: str, connection: str) -> Mapping[str, Any]:
        self.lacks("refresh")

    async def permissions(self, tenant: str, connection: str) -> Mapping[str, str]:
        self.lacks("permissions")

    async def set_permissions(self, tenant: str, connection: str, changes: Mapping[str, str]) -> Mapping[str, str]:
        self.lacks("permissions")

    async def access(self, tenant: str, connection: str) -> Mapping[str, int]:
        self.lacks("access")

    async def revoke(self, tenant: str, connection: str) -> None:
        self.lacks("revoke")

    async def decide(self, tenant: str, approval: str, *, approve: bool, by: str, reason: str) -> Mapping[str, Any]:
        self.lacks("approvals")

    async def audit(self, tenant: str, run: str | None) -> list[Mapping[str, Any]]:
        self.lacks("audit")

    async def advance(self, seconds: float) -> None:
        self.lacks("test_clock")


def secret_of(request: ConnectionRequest) -> str:
    """The provider's credential of this connection."""
    return next(iter(request.credentials.values()), "")


def private_file(path: Path, text: str) -> Path:
    """Written for the owner alone: it may hold a credential."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return path


async def run_tool(words: Sequence[str], *, cwd: Path, env: Mapping[str, str], answer: str, within_s: float) -> tuple[int, str]:
    """A gateway's own command, with `answer` on its standard input: (exit code, what it wrote). Raises Untestable when it does not end."""
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=cwd,
        env=dict(env),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(within_s):
            output, _ = await process.communicate(answer.encode())
    except TimeoutError:
        process.kill()
        await process.wait()
        raise Untestable(f"{Path(words[0]).name} did not end within {within_s:g} s", where=" ".join(words[1:]), fix="run it by hand") from None
    return process.returncode or 0, output.decode(errors="replace")
