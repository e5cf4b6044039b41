"""What the stages of a call work with."""

from __future__ import annotations

from dataclasses import dataclass

from reference_gateway.approval import Approvals
from reference_gateway.audit import AuditLog
from reference_gateway.clock import Clock
from reference_gateway.connections import Connections
from reference_gateway.defects import Defects
from reference_gateway.ids import Ids
from reference_gateway.policy import Policies
from reference_gateway.runs import Runs
from reference_gateway.sealing import Sealer
from reference_gateway.store.base import Store

MAX_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Parts:
    store: Store
    audit: AuditLog
    approvals: Approvals
    connections: Connections
    policies: Policies
    runs: Runs
    clock: Clock
    ids: Ids
    defects: Defects
    sealer: Sealer
