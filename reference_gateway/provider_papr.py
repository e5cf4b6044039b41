"""Papr as the far side of a connection: the bundled bridge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reference_gateway.bridge.exchange import BridgeError
from reference_gateway.bridge.papr import TOOLS, TRANSPORT, PaprBridge, Rules
from reference_gateway.bridge.papr_rules import RELAXED
from reference_gateway.catalog import Discovery
from reference_gateway.defects import Defects
from reference_gateway.errors import GatewayError
from reference_gateway.provider import RESULT_LIMIT, Answer, ProviderCall
from reference_gateway.wire import FETCH_FAILED, Json, UpstreamFailure


def rules_of(defects: Defects) -> Rules:
    """The bridge's rules, less those that a defect leaves out."""
    return Rules(frozenset(name for name in RELAXED if name in defects))


class PaprProvider:
    """`bridge` makes the bridge from the stored credential, afresh for each use."""

    transport = TRANSPORT
    spawns_process = False
    default_timeout_s = 60.0
    discovery_timeout_s = 15.0

    def __init__(self, bridge: Callable[[], PaprBridge], rules: Rules) -> None:
        self._bridge = bridge
        self._rules = rules

    def endpoint(self, tool: str, arguments: Mapping[str, Any]) -> str:
        return self._bridge().endpoint(tool, arguments)

    def objection(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        try:
            self._rules.check(tool, arguments)
        except GatewayError as error:
            return error.message
        return None

    def unready(self) -> str | None:
        return None

    def details(self) -> Json:
        return {}

    async def check(self) -> bool:
        """Making the bridge judges its URL and opens its credential; the API is asked only when a person sets it up or reconnects it."""
        self._bridge()
        return False

    async def discover(self) -> Discovery:
        await self._bridge().probe()
        return Discovery(tuple(TOOLS), 1, {}, {"name": "papr-memory", "version": "v1"}, None, None)

    async def call(self, call: ProviderCall) -> Answer:
        try:
            found = await self._bridge().call(call.tool, call.arguments, limit=RESULT_LIMIT)
        except BridgeError as error:
            raise UpstreamFailure(error.code, error.message, status=error.status) from error
        except GatewayError as error:
            raise UpstreamFailure(FETCH_FAILED, error.message) from error
        return Answer(found.result, found.status)

    async def close(self) -> None:
        return
