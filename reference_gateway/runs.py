"""Runs: who may call what, for how long, under a token that only its holder knows (the store keeps its digest)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from reference_gateway.audit import AuditFields, AuditLog, stamp
from reference_gateway.clock import Clock
from reference_gateway.errors import GatewayError
from reference_gateway.ids import Ids
from reference_gateway.store.base import Document, Store

Mode = Literal["execute", "planning", "ask"]


class RunUnknown(GatewayError):
    http_status = 404

    def __init__(self, run: str) -> None:
        super().__init__("run_unknown", "there is no such run in this tenant", where=run, fix="create one with POST /tenants/{t}/runs")


@dataclass(frozen=True, slots=True)
class Run:
    """`connections` in the order they were named; `expires_at` as RFC 3339."""

    run: str
    tenant: str
    connections: tuple[str, ...]
    task: str
    agent: str
    subject: str | None
    mode: Mode
    state: Literal["active", "ended"]
    expires_at: str


class Runs:
    def __init__(self, store: Store, audit: AuditLog, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._audit = audit
        self._clock = clock
        self._ids = ids

    def create(
        self, tenant: str, connections: Sequence[str], *, task: str, agent: str, subject: str | None, mode: Mode, ttl_s: float
    ) -> tuple[Run, str]:
        """The run and its token, which is never seen again."""
        token = self._ids.token()
        run = Run(
            run=self._ids.new("run"),
            tenant=tenant,
            connections=tuple(dict.fromkeys(connections)),
            task=task,
            agent=agent,
            subject=subject,
            mode=mode,
            state="active",
            expires_at=stamp(self._clock.now() + timedelta(seconds=ttl_s)),
        )
        doc: Document = {name: getattr(run, name) for name in Run.__dataclass_fields__}
        with self._store.transaction():
            self._store.run_put({**doc, "connections": list(run.connections), "token_digest": _digest(token)})
            self._audit.append(**self._record(run, "run_created", {"connections": list(run.connections), "mode": mode}))
        return run, token

    def by_token(self, token: str) -> Run | None:
        """The run behind a bearer token, ended ones included; None for an unknown or expired token."""
        doc = self._store.run_by_token_digest(_digest(token))
        if doc is None or doc["expires_at"] <= stamp(self._clock.now()):
            return None
        return _from(doc)

    def get(self, tenant: str, run: str) -> Run:
        """Raises RunUnknown, also for another tenant's."""
        doc = self._store.run_get(run)
        if doc is None or doc["tenant"] != tenant:
            raise RunUnknown(run)
        return _from(doc)

    def end(self, tenant: str, run: str) -> Run:
        """From now on its calls are refused. Repeating is harmless. Raises RunUnknown."""
        current = self.get(tenant, run)
        if current.state == "ended":
            return current
        with self._store.transaction():
            self._store.run_update(run, state="ended")
            self._audit.append(**self._record(current, "run_ended", {}))
        return self.get(tenant, run)

    @staticmethod
    def _record(run: Run, event: Literal["run_created", "run_ended"], details: dict[str, Any]) -> AuditFields:
        return {
            "tenant": run.tenant,
            "run": run.run,
            "task": run.task,
            "agent": run.agent,
            "actor": "operator:operator",
            "event": event,
            "outcome": "success",
            "decision": "allow",
            "reason": event,
            "details": details,
        }


def _from(doc: Document) -> Run:
    known = {name: doc[name] for name in Run.__dataclass_fields__}
    return Run(**{**known, "connections": tuple(doc["connections"])})


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
