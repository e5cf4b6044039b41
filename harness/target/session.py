"""The agent's side as verbs use it: a session of its own at the gateway, or one carried through a relay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from harness.target.wire import Answer, Listing


class AgentSession(Protocol):
    async def call(self, name: str, arguments: Mapping[str, Any], *, meta: Mapping[str, Any], timeout: float) -> Answer: ...
    async def list_tools(self, *, timeout: float) -> Listing: ...
