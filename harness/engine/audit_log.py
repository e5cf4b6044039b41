"""The gateway's signed audit log, kept as evidence: looked at when a bench begins, and again when it ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import HarnessError
from harness.model.evidence import AuditLogRecord
from harness.target.base import RunningTarget
from harness.target.kept_log import HasKeptLog, KeptLog

NOT_OFFERED = "this gateway exports no audit log with signed checkpoints"


@dataclass(frozen=True, slots=True)
class AuditWatch:
    """`checkpoint`: the last one before the bench began; what is signed later must follow from it. `log` None: `why_not` says why."""

    target: str
    log: KeptLog | None = None
    key: str = ""
    checkpoint: bytes = b""
    why_not: str = ""

    async def ended(self, items: Sequence[str]) -> AuditLogRecord:
        """To be asked while the gateway is still up. Never raises for what the gateway does: that it cannot tell is evidence too."""
        record = AuditLogRecord(target=self.target, items=tuple(items), offered=self.log is not None, why_not=self.why_not)
        if self.log is None or self.why_not:
            return record
        try:
            export = await self.log.export(_seq(self.checkpoint))
            kept = self.log.checkpoints()
        except HarnessError as error:
            return record.model_copy(update={"why_not": str(error), "key": self.key, "checkpoints": _text(self.checkpoint)})
        since = kept[at:] if (at := kept.rfind(self.checkpoint)) >= 0 else self.checkpoint + kept
        return record.model_copy(update={"key": self.key, "checkpoints": _text(since), "export": _text(export)})


async def watch_audit(gateway: RunningTarget, target: str) -> AuditWatch:
    """Never raises for what the gateway does."""
    if not isinstance(gateway, HasKeptLog):
        return AuditWatch(target, why_not=NOT_OFFERED)
    log = gateway.kept_log()
    try:
        key = await log.key()
        last = log.checkpoints().splitlines(keepends=True)[-1:]
        if not last:
            return AuditWatch(target, log, key, why_not="the gateway kept no checkpoint when it started")
        _seq(last[0])
    except HarnessError as error:
        return AuditWatch(target, log, why_not=str(error))
    return AuditWatch(target, log, key, last[0])


def _seq(checkpoint: bytes) -> int:
    try:
        return int(json.loads(checkpoint)["seq"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise HarnessError("the gateway's last checkpoint cannot be read", where="checkpoints", fix="see docs/operator-api.md") from error


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
