"""Operators of one tenant: tokens that open its routes and no others. The store keeps their digests.

The token that the process was started with opens everything; only its holder makes tenants and operators and moves the clock.
"""

from __future__ import annotations

import hashlib
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, cast

from reference_gateway.audit import AuditLog, Event
from reference_gateway.errors import GatewayError
from reference_gateway.ids import Ids
from reference_gateway.store.base import Document, Store

Role = Literal["operator", "viewer"]
ROLES: tuple[Role, ...] = ("operator", "viewer")
_PREFIX = "operator:"


class OperatorUnknown(GatewayError):
    http_status = 404

    def __init__(self, operator: str) -> None:
        super().__init__("operator_unknown", "there is no such operator in this tenant", where=operator[:100], fix="list the tenant's operators")


@dataclass(frozen=True, slots=True)
class Operator:
    """Who asks. `tenant` None: whoever started the gateway, under no name of their own."""

    tenant: str | None
    name: str | None
    role: Role | Literal["owner"]

    def stands_for(self, by: str | None) -> str:
        """The name that goes into the record: a named operator's own, whatever was said. Raises GatewayError `operator_mismatch`."""
        if self.name is None:
            if by is None:
                raise GatewayError("invalid_field", "Field required", where="by", fix="say who decides", http_status=422)
            return by
        if by is not None and by != self.name:
            raise GatewayError(
                "operator_mismatch", "an operator decides under no name but their own", where="by", fix=f"write {self.name!r}", http_status=403
            )
        return self.name


OWNER = Operator(None, None, "owner")
ITSELF = Operator(None, "gateway", "owner")

_acting: ContextVar[Operator] = ContextVar("acting_operator", default=OWNER)


def enter(operator: Operator) -> None:
    """From here on, what is recorded in this request is recorded under this operator."""
    _acting.set(operator)


def by_itself() -> None:
    """From here on, what is recorded in this task is the gateway's own doing."""
    _acting.set(ITSELF)


def actor() -> str:
    """`operator:<name>` of whoever asks; the owner of the gateway is called just operator. `gateway` where nobody asked."""
    if _acting.get() is ITSELF:
        return "gateway"
    return f"operator:{_acting.get().name or 'operator'}"


def asking() -> Operator:
    return _acting.get()


class Operators:
    def __init__(self, store: Store, audit: AuditLog, ids: Ids) -> None:
        self._store = store
        self._audit = audit
        self._ids = ids

    def add(self, tenant: str, name: str, role: Role) -> tuple[Operator, str]:
        """The operator and their token, which is never seen again. Raises GatewayError `operator_exists`."""
        if self._store.setting_get(tenant, _PREFIX + name) is not None:
            raise GatewayError("operator_exists", "the tenant has an operator of this name", where=name, fix="choose another", http_status=409)
        token = self._ids.token()
        with self._store.transaction():
            self._store.setting_put(tenant, _PREFIX + name, {"operator": name, "role": role, "token_digest": _digest(token)})
            self._record(tenant, "operator_created", name, role)
        return Operator(tenant, name, role), token

    def remove(self, tenant: str, name: str) -> None:
        """Their token opens nothing from now on. Raises OperatorUnknown."""
        doc = self._store.setting_get(tenant, _PREFIX + name)
        if doc is None:
            raise OperatorUnknown(name)
        with self._store.transaction():
            self._store.setting_put(tenant, _PREFIX + name, None)
            self._record(tenant, "operator_deleted", name, str(doc["role"]))

    def of(self, tenant: str) -> list[dict[str, str]]:
        """By name, without anything of their tokens."""
        return [{"operator": doc["operator"], "role": doc["role"]} for _, doc in self._store.settings(_PREFIX, tenant)]

    def by_token(self, token: str) -> Operator | None:
        digest = _digest(token)
        for tenant, doc in self._store.settings(_PREFIX):
            if doc["token_digest"] == digest:
                return Operator(tenant, doc["operator"], cast(Role, doc["role"]))
        return None

    def _record(self, tenant: str, event: Event, name: str, role: str) -> None:
        details: Document = {"operator": name, "role": role}
        self._audit.append(
            tenant=tenant, actor=actor(), event=event, outcome="success", decision="allow", reason=event, details=details
        )


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
