"""`no_secret: true`: none of the run's credentials came back to the agent, into the audit or into an operator's answer.

The evidence log replaces every configured secret, in every encoding it looks for, by a marker before it writes; a marker
in a place where no secret may stand is the leak.
"""

from __future__ import annotations

import re

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene, answer
from harness.expect.view import View
from harness.model.evidence import ApprovalRecord, AuditRecord, ClientExchange, ControlRecord
from harness.model.finding import Finding
from harness.model.location import Frozen, Yes
from harness.model.secret import MARKER

LEAKABLE = (ClientExchange, AuditRecord, ApprovalRecord, ControlRecord)
MARK = re.compile(re.escape(MARKER[0]) + r"([^\]]*)" + re.escape(MARKER[1]))


class Params(Frozen):
    value: Yes


class NoSecret(Kind[Params]):
    id = "no_secret"
    summary = "no credential of the run appears in what the agent saw, in the audit, or in the operator API"
    params = Params
    needs = frozenset({"credentials"})
    scopes = frozenset({"run"})

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        found = []
        for record in view.records:
            if not isinstance(record, LEAKABLE):
                continue
            leaked = sorted(set(MARK.findall(record.model_dump_json())))
            if leaked:
                step = getattr(record, "step", "") or (record.record.get("event", "") if isinstance(record, AuditRecord) else "")
                found.append(
                    self.finding(
                        place,
                        f"a secret ({', '.join(leaked)}) appears in the {record.kind.replace('_', ' ')} of {step or 'the run'}",
                        expected="no secret",
                        actual=leaked,
                        fix="credentials stay in the gateway's vault; find where this answer takes it from",
                    )
                )
        return found

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        good.call(result=answer("stored"))
        bad.call(result=answer(f"stored with {MARKER[0]}mem0:credentials.authorization{MARKER[1]}"))
        return Specimen("no_secret: true", good.view(), step=""), Specimen("no_secret: true", bad.view(), step="")


KIND = NoSecret()
