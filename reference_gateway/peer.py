"""The agent behind a request, as far as its connection lets a provider reach it: what it can be asked, and what it can be told meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, Protocol, get_args

from mcp.shared.exceptions import MCPError

Json = dict[str, Any]

Offer = Literal["resources", "prompts", "completion", "logging", "subscriptions", "sampling", "elicitation", "roots"]
OFFERS: tuple[str, ...] = get_args(Offer)
"""What may cross a connection besides tools, each switched on by an operator."""

ASKS: Mapping[str, str] = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
"""What a provider may ask of an agent, and the offer (and client capability) that it takes."""

MESSAGE = "notifications/message"


class Peer(Protocol):
    @property
    def capabilities(self) -> Json:
        """Of the agent, less what the connection keeps back."""
        ...

    @property
    def log_level(self) -> str | None:
        """What it wants to be told of this request (2026-07-28)."""
        ...

    async def ask(self, method: str, params: Json) -> Json:
        """Its answer. Raises MCPError for a refusal."""
        ...

    async def tell(self, method: str, params: Json) -> None: ...


def abilities(offers: Collection[str]) -> Json:
    """What the gateway says that it can do as a client, on a session that all agents share: each request is checked against its own agent."""
    able: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
    return {name: value for name, value in able.items() if name in offers}


def kept(capabilities: Mapping[str, Any], offers: Collection[str]) -> Json:
    """An agent's own capabilities, less what is not switched on."""
    return {name: value for name, value in capabilities.items() if name in ASKS.values() and name in offers}


class Agent(Protocol):
    """The agent itself, by whichever way it can be reached while its request is open."""

    @property
    def declared(self) -> Json:
        """Its client capabilities."""
        ...

    @property
    def log_level(self) -> str | None: ...
    async def ask(self, method: str, params: Json) -> Json: ...
    async def tell(self, method: str, params: Json) -> None: ...


class Limited:
    """An agent as a provider may reach it. `told` is called with each method and how asking ended, for the record."""

    def __init__(self, agent: Agent, offers: Collection[str], told: Callable[[str, str], None]) -> None:
        self._agent = agent
        self._offers = offers
        self._told = told
        self.capabilities = kept(agent.declared, offers)

    @property
    def log_level(self) -> str | None:
        return self._agent.log_level if "logging" in self._offers else None

    async def ask(self, method: str, params: Json) -> Json:
        try:
            answer = await self._agent.ask(method, params)
        except MCPError:
            self._told(method, "failure")
            raise
        self._told(method, "success")
        return answer

    async def tell(self, method: str, params: Json) -> None:
        if "logging" in self._offers:
            await self._agent.tell(method, params)
