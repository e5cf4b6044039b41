"""Any gateway that is already up, by its URL: discover and call, and nothing else. Somebody else starts it, configures it and ends it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from harness.errors import UsageError
from harness.model.scenario import PROTOCOLS
from harness.target.base import Ability, ConnectionRequest, LaunchOptions, RunGrant, RunningTarget
from harness.target.child import Command
from harness.target.installed import Installation
from harness.target.light import LightGateway, LightTarget, Served

WRITE = "--target streamable_http=URL or streamable_http=URL,tap=PORT"


class StreamableHttp(LightTarget):
    """`tap_port`: where the tap waits for the gateway, which its owner has pointed at http://127.0.0.1:PORT/m/CONNECTION/PATH before.

    Without one nobody witnesses what reaches the provider, and every scenario is red as witness-blind.
    """

    id = "streamable_http"
    summary = "any gateway that is up already, by its URL; discover and call only"
    package = ""
    abilities = frozenset[Ability]({"credentials"})
    protocols = PROTOCOLS

    def __init__(self, url: str = "", tap_port: int = 0) -> None:
        self.url = url
        self.tap_port = tap_port

    def given(self, value: str) -> StreamableHttp:
        """From what stands behind the `=` of --target. Raises UsageError."""
        url, _, rest = value.partition(",")
        parts = urlsplit(url)
        word, _, port = rest.partition("=")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url!r} is not the URL of a gateway", where="--target", fix=f"write {WRITE}")
        if rest and (word != "tap" or not port.isdigit() or not 0 < int(port) < 65536):
            raise UsageError(f"{rest!r} does not say where the tap is to wait", where="--target", fix=f"write {WRITE}")
        return StreamableHttp(url, int(port or 0))

    def command(self, installed: Installation, served: Served) -> Command:
        raise UsageError("a gateway that is up already is not started", where=self.id)

    @asynccontextmanager
    async def launch(self, options: LaunchOptions) -> AsyncIterator[RunningTarget]:
        if not self.url:
            raise UsageError("which gateway?", where="--target", fix=f"write {WRITE}")
        yield StandingGateway(self, options)


class StandingGateway(LightGateway):
    """Knows the URL, and is told nothing: which upstream it has is its owner's business."""

    def __init__(self, kind: StreamableHttp, options: LaunchOptions) -> None:
        super().__init__(kind, f"the gateway at {kind.url}", options)
        self._url = kind.url

    async def connect(self, tenant: str, request: ConnectionRequest) -> Mapping[str, Any]:
        return {"name": request.name, "gateway": self.label}

    async def disconnect(self, tenant: str, connection: str) -> None:
        """Nothing was connected."""

    async def start_run(self, tenant: str, connections: Sequence[str], *, task: str, agent: str, subject: str) -> RunGrant:
        return RunGrant(run="", token="", url=self._url)


TARGET = StreamableHttp()
