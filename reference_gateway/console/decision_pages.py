"""The approvals inbox, the audit log with the state of its chain, and runs."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from reference_gateway.audit import hash_of
from reference_gateway.console.api import Refused
from reference_gateway.console.web import Visit

PAGE = 1000
SHOWN = 300


class DecisionPages:
    async def approvals(self, visit: Visit, refused: Refused | None = None) -> Response:
        found = (await visit.api.get("approvals"))["approvals"]
        waiting = [each for each in found if each["state"] == "pending"]
        decided = [each for each in reversed(found) if each["state"] != "pending"][:SHOWN]
        runs = {each["run"]: await visit.api.get("runs", each["run"]) for each in waiting}
        template = "approval_rows.html.j2" if visit.request.headers.get("hx-request") else "approvals.html.j2"
        return visit.show(template, refused=refused, status=refused.status if refused else 200, waiting=waiting, decided=decided, runs=runs)

    async def approve(self, visit: Visit) -> Response:
        return await self._decide(visit, "approve", {"by": visit.session.name})

    async def reject(self, visit: Visit) -> Response:
        return await self._decide(visit, "reject", {"by": visit.session.name, "reason": visit.form.get("reason", "").strip() or None})

    async def _decide(self, visit: Visit, decision: str, body: dict[str, Any]) -> Response:
        try:
            await visit.api.post("approvals", visit.part("approval"), decision, body=body)
        except Refused as refused:
            return await self.approvals(visit, refused)
        return visit.go("approvals")

    async def audit(self, visit: Visit) -> Response:
        """The newest records that pass the filters, and whether each shown one still carries its own hash."""
        wanted = {name: visit.query(name) for name in ("event", "tool", "outcome", "run")}
        head = (await visit.api.get("audit", limit="1"))["head"]
        after = max(0, int(head["seq"]) - PAGE)
        found = (await visit.api.get("audit", after=str(after), limit=str(PAGE), **({"run": wanted["run"]} if wanted["run"] else {})))["records"]
        broken = [record["seq"] for record in found if not intact(record)]
        matching = [each for each in found if all(str(each.get(name) or "") == value for name, value in wanted.items() if value)]
        return visit.show("audit.html.j2", records=list(reversed(matching))[:SHOWN], head=head, broken=broken, wanted=wanted, looked=len(found))

    async def runs(self, visit: Visit) -> Response:
        head = (await visit.api.get("audit", limit="1"))["head"]
        records = (await visit.api.get("audit", after=str(max(0, int(head["seq"]) - PAGE)), limit=str(PAGE)))["records"]
        names = [record["run"] for record in records if record["event"] == "run_created"][-50:]
        return visit.show("runs.html.j2", runs=[await visit.api.get("runs", name) for name in reversed(names)])

    async def end_run(self, visit: Visit) -> Response:
        await visit.api.post("runs", visit.part("run"), "end")
        return visit.go("runs")


def intact(record: dict[str, Any]) -> bool:
    """Whether the record's hash is that of its content. The chain's links run through other tenants' records, so they are not followed here."""
    return hash_of(record) == record.get("hash")
