"""Runs: who may call what, for how long, under a token that only its holder knows (the store keeps its digest)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from reference_gateway.approval import Approvals
from reference_gateway.audit import AuditFields, AuditLog, Event, stamp
from reference_gateway.clock import Clock
from reference_gateway.defects import Defects
from reference_gateway.errors import GatewayError
from reference_gateway.ids import Ids
from reference_gateway.log import logger
from reference_gateway.operators import actor
from reference_gateway.store.base import Document, Store, StoreError

Mode = Literal["execute", "planning", "ask"]
Place = Literal["local", "remote"]
Waiting = Literal["result", "hold", "input_required"]


_TASK = "task:"

log = logger("runs")


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
    waiting: Waiting = "result"
    """How the agent waits for a person: told at once, held until the decision, or asked to come back (2026-07-28 only)."""
    owns_task: bool = True
    place: Place = "local"
    """Whether its agent stands beside the gateway, where a loopback address leads to it."""

    def public(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in Run.__dataclass_fields__}, "connections": list(self.connections)}


class Runs:
    def __init__(self, store: Store, audit: AuditLog, approvals: Approvals, clock: Clock, ids: Ids, defects: Defects | None = None) -> None:
        self._store = store
        self._audit = audit
        self._approvals = approvals
        self._defects = defects or Defects()
        self._clock = clock
        self._ids = ids
        self._unrecorded: set[str] = set()
        """Runs whose token was found expired while that could not be recorded."""

    def create(
        self,
        tenant: str,
        connections: Sequence[str],
        *,
        task: str,
        agent: str,
        subject: str | None,
        mode: Mode,
        ttl_s: float,
        waiting: Waiting = "result",
        takes_task: bool = False,
        place: Place = "local",
    ) -> tuple[Run, str]:
        """The run and its token, which is never seen again. `takes_task`: from now on it alone may call for its task."""
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
            waiting=waiting,
            place=place,
        )
        doc: Document = {name: getattr(run, name) for name in Run.__dataclass_fields__}
        with self._store.transaction():
            self._store.run_put({**doc, "connections": list(run.connections), "token_digest": _digest(token)})
            if takes_task:
                self._store.setting_put(tenant, _TASK + task, {"run": run.run})
            self._audit.append(**self._record(run, "run_created", {"connections": list(run.connections), "mode": mode}))
            if takes_task:
                self._audit.append(**self._record(run, "task_taken", {}))
        return self.get(tenant, run.run), token

    def by_token(self, token: str) -> Run | None:
        """The run behind a bearer token, ended ones included; None for an unknown or expired token.

        A token that was found expired once stays so, whatever the clock says later.
        """
        doc = self._store.run_by_token_digest(_digest(token))
        if doc is None or (self._expired(doc) and "token-lasts" not in self._defects):
            return None
        return self._from({**doc, "state": "active"} if "ended-run-calls" in self._defects else doc)

    def _expired(self, doc: Document) -> bool:
        if doc.get("token_expired"):
            return True
        if doc["expires_at"] > stamp(self._clock.now()) and doc["run"] not in self._unrecorded:
            return False
        self._unrecorded.add(doc["run"])
        try:
            self._store.run_update(doc["run"], token_expired=True)
            self._unrecorded.discard(doc["run"])
        except StoreError as error:  # it is expired all the same
            log.warning("expiry_not_recorded", code=error.code)
        return True

    def get(self, tenant: str, run: str) -> Run:
        """Raises RunUnknown, also for another tenant's."""
        doc = self._store.run_get(run)
        if doc is None or doc["tenant"] != tenant:
            raise RunUnknown(run)
        return self._from(doc)

    def end(self, tenant: str, run: str) -> Run:
        """From now on its calls are refused, and what waited for a person waits no more. Repeating is harmless. Raises RunUnknown."""
        current = self.get(tenant, run)
        if current.state == "ended":
            return current
        with self._store.transaction():
            self._store.run_update(run, state="ended")
            self._audit.append(**self._record(current, "run_ended", {}))
            withdrawn = [] if "ended-run-waits" in self._defects else self._approvals.withdraw(tenant, run, actor())
        self._approvals.tell(withdrawn)
        return self.get(tenant, run)

    def set_mode(self, tenant: str, run: str, mode: Mode) -> Run:
        """What it may do from the next call on. Raises RunUnknown, and GatewayError `run_ended`."""
        current = self.get(tenant, run)
        if current.state == "ended":
            raise GatewayError("run_ended", "the run has ended", where=run, fix="create another", http_status=409)
        if current.mode != mode:
            with self._store.transaction():
                self._store.run_update(run, mode=mode)
                self._audit.append(**self._record(current, "run_mode_changed", {"mode": mode, "before": current.mode}))
        return self.get(tenant, run)

    def _from(self, doc: Document) -> Run:
        """With the task's owner as it stands now: a run that another one took its task from keeps its token and may call nothing."""
        known = {name: doc[name] for name in Run.__dataclass_fields__ if name in doc}
        owner = self._store.setting_get(doc["tenant"], _TASK + doc["task"])
        return Run(**{**known, "connections": tuple(doc["connections"]), "owns_task": owner is None or owner["run"] == doc["run"]})

    @staticmethod
    def _record(run: Run, event: Event, details: dict[str, Any]) -> AuditFields:
        return {
            "tenant": run.tenant,
            "run": run.run,
            "task": run.task,
            "agent": run.agent,
            "actor": actor(),
            "event": event,
            "outcome": "success",
            "decision": "allow",
            "reason": event,
            "details": details,
        }


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
