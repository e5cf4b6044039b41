"""What is off by default. The gateway's own word comes from its command line; a tenant may only turn off what is on."""

from __future__ import annotations

from collections.abc import Collection

from reference_gateway.audit import AuditLog
from reference_gateway.defects import Defects
from reference_gateway.errors import GatewayError
from reference_gateway.operators import actor
from reference_gateway.store.base import Store

MEMORY_CONNECTORS = "memory_connectors"
KNOWN = (MEMORY_CONNECTORS,)

_SETTING = "experimental"


class Experiments:
    def __init__(self, store: Store, audit: AuditLog, on: Collection[str], defects: Defects) -> None:
        self._store = store
        self._audit = audit
        self._on = frozenset(on)
        self._defects = defects

    def memory_connectors(self, tenant: str) -> bool:
        """Whether the tenant may begin new memory connections."""
        own = self._store.setting_get(tenant, _SETTING) or {}
        return MEMORY_CONNECTORS in self._on and own.get(MEMORY_CONNECTORS) is not False

    def set(self, tenant: str, *, memory_connectors: bool) -> None:
        """Raises GatewayError 409 `experimental_unavailable`."""
        if memory_connectors and MEMORY_CONNECTORS not in self._on:
            raise GatewayError(
                "experimental_unavailable",
                "the gateway has memory connectors off",
                where=MEMORY_CONNECTORS,
                fix=f"start it with --experimental {MEMORY_CONNECTORS}",
                http_status=409,
            )
        with self._store.transaction():
            self._store.setting_put(tenant, _SETTING, {MEMORY_CONNECTORS: memory_connectors})
            self._audit.append(
                tenant=tenant,
                actor=actor(),
                event="experimental_changed",
                outcome="success",
                decision="allow",
                reason="experimental_changed",
                details={MEMORY_CONNECTORS: memory_connectors},
            )

    def require(self, tenant: str, what: str) -> None:
        """Before anything is stored or dialled. Raises GatewayError 403 `memory_connectors_off`."""
        if not self.memory_connectors(tenant) and "flag-unchecked" not in self._defects:
            raise GatewayError(
                "memory_connectors_off",
                "memory connectors are off here, so no new one can be set up",
                where=what[:100],
                fix="turn on experimental.memory_connectors",
                http_status=403,
            )
