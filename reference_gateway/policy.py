"""Policies: an operator's word for many tools at once, by agent, connection, tool and risk. The strictest word that applies holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from reference_gateway.audit import AuditLog
from reference_gateway.bodies import PoliciesBody, PolicyBody
from reference_gateway.catalog import Tool
from reference_gateway.connection import Connection
from reference_gateway.connections import ConnectionUnknown
from reference_gateway.defects import Defects
from reference_gateway.errors import GatewayError
from reference_gateway.operators import actor
from reference_gateway.permission import WORDS, Word
from reference_gateway.store.base import Store

POLICIES = "policies"


class Policies:
    """Read anew at each call, so that a change holds from the next one on."""

    def __init__(self, store: Store, audit: AuditLog, defects: Defects) -> None:
        self._store = store
        self._audit = audit
        self._defects = defects
        self.reworded: Callable[[str], None] = lambda tenant: None
        """Told, in the same transaction, of which tenant the policies were replaced."""

    def of(self, tenant: str) -> list[Any]:
        """As they were put. Raises GatewayError `policies_unreadable` when something else is stored in their place."""
        if (found := self._stored(tenant)) is None:
            raise GatewayError(
                "policies_unreadable", "what is stored as policies is none, so every call is denied", where="policies",
                fix="put the policies anew", http_status=409,
            )  # fmt: skip
        return found

    def _stored(self, tenant: str) -> list[Any] | None:
        """What is stored; [] when nothing ever was, None when it has another shape than `put` gave it."""
        doc: Any = self._store.setting_get(tenant, POLICIES)
        if doc is None:
            return []
        found = doc.get("policies") if isinstance(doc, dict) and len(doc) == 1 else None
        return list(found) if isinstance(found, list) else None

    def put(self, tenant: str, body: PoliciesBody, connections: Sequence[Connection]) -> list[Any]:
        """Replaces all of the tenant's policies. Raises GatewayError `invalid_field`, `connection_unknown` or `tool_unknown`."""
        for index, policy in enumerate(body.policies):
            _check(policy, f"policies.{index}", connections)
        ids = [policy.id for policy in body.policies]
        if len(set(ids)) != len(ids):
            raise GatewayError("invalid_field", "two policies have the same id", where="policies", fix="give each its own", http_status=422)
        docs = [policy.model_dump(exclude_none=True) for policy in body.policies]
        with self._store.transaction():
            self._store.setting_put(tenant, POLICIES, {"policies": docs})
            if "changes-unrecorded" not in self._defects:
                self._audit.append(
                    tenant=tenant,
                    actor=actor(),
                    event="policies_changed",
                    outcome="success",
                    decision="allow",
                    reason="policies_changed",
                    details={"policies": ids},
                )
            self.reworded(tenant)
        return docs

    def rules(self, tenant: str) -> Rules:
        """As they stand now. A policy that cannot be read makes all of them deny."""
        read: list[PolicyBody] = []
        if (stored := self._stored(tenant)) is None:
            return Rules((), readable="unreadable-policy-ignored" in self._defects)
        for doc in stored:
            try:
                read.append(PolicyBody.model_validate(doc))
            except ValidationError:
                if "unreadable-policy-ignored" in self._defects:
                    continue
                return Rules((), readable=False)
        if "policy-ignores-risk" in self._defects:
            read = [policy for policy in read if policy.risks is None]
        return Rules(tuple(read), last="policy-last-word" in self._defects)


@dataclass(frozen=True, slots=True)
class Rules:
    """A tenant's policies at one moment."""

    policies: tuple[PolicyBody, ...]
    readable: bool = True
    last: bool = False
    """The last word holds and not the strictest (a defect)."""

    def word(self, agent: str, connection: str, tool: Tool) -> Word | None:
        """The strictest word of the policies that apply; None when none does."""
        if not self.readable:
            return "off"
        said = [policy.permission for policy in self.policies if _applies(policy, agent, connection, tool)]
        return strictest(*(said[-1:] if self.last else said))


def strictest(*words: Word | None) -> Word | None:
    """off before ask_first before allowed; None when nothing is said."""
    said = [word for word in words if word is not None]
    return max(said, key=WORDS.index, default=None)


def _applies(policy: PolicyBody, agent: str, connection: str, tool: Tool) -> bool:
    """A list that is left out selects everything; a list names exactly what it names, so an empty one nothing."""
    return (
        (policy.agents is None or agent in policy.agents)
        and (policy.connections is None or connection in policy.connections)
        and (policy.tools is None or tool.name in policy.tools)
        and (policy.risks is None or tool.risk in policy.risks)
    )


def _check(policy: PolicyBody, where: str, connections: Sequence[Connection]) -> None:
    """Agents may be named before they come; connections and tools may not, for a misspelt name would quietly protect nothing."""
    known = {connection.name: connection for connection in connections}
    for name in policy.connections or ():
        if name not in known:
            raise ConnectionUnknown(name)
    reach = [known[name] for name in policy.connections] if policy.connections is not None else list(connections)
    for tool in policy.tools or ():
        if not any(tool in connection.catalog.tools for connection in reach):
            what = "no connection of this policy has such a tool"
            raise GatewayError("tool_unknown", what, where=f"{where}.tools", fix="list the connections' tools", http_status=404)
