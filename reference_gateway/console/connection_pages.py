"""Connections with their health, one connection's tools and permissions, and the review of quarantined tools."""

from __future__ import annotations

import difflib
import json
from typing import Any

from starlette.responses import Response

from reference_gateway.console.api import Refused
from reference_gateway.console.web import Visit

WORDS = (("allowed", "Allowed"), ("ask_first", "Ask first"), ("off", "Off"))
DEEDS = ("refresh", "reconnect", "check", "revoke")
STATES = ("active", "paused", "disabled", "archived")


class ConnectionPages:
    async def index(self, visit: Visit) -> Response:
        found = await visit.api.get("connections")
        template = "connection_rows.html.j2" if visit.request.headers.get("hx-request") else "connections.html.j2"
        return visit.show(template, connections=found["connections"])

    async def one(self, visit: Visit, refused: Refused | None = None, said: str = "") -> Response:
        name = visit.part("connection")
        connection = await visit.api.get("connections", name)
        catalog = await visit.api.get("connections", name, "tools") if connection["status"] != "draft" else {"tools": []}
        return visit.show(
            "connection.html.j2",
            refused=refused,
            status=refused.status if refused else 200,
            connection=connection,
            tools=catalog["tools"],
            words=WORDS,
            states=STATES,
            said=said or visit.query("said"),
        )

    async def permit(self, visit: Visit) -> Response:
        name = visit.part("connection")
        body = {"permissions": {visit.form.get("tool", ""): visit.form.get("word", "")}}
        return await self._do(visit, lambda: visit.api.put("connections", name, "permissions", body=body))

    async def state(self, visit: Visit) -> Response:
        name = visit.part("connection")
        return await self._do(visit, lambda: visit.api.post("connections", name, "state", body={"state": visit.form.get("state", "")}))

    async def deed(self, visit: Visit) -> Response:
        name, deed = visit.part("connection"), visit.form.get("deed", "")
        if deed not in DEEDS:
            return await self.one(visit, Refused(422, {"code": "invalid_field", "message": "there is no such deed", "fix": "use a button"}))
        return await self._do(visit, lambda: visit.api.post("connections", name, deed))

    async def rotate(self, visit: Visit) -> Response:
        name = visit.part("connection")
        values = {field.removeprefix("value:"): value for field, value in visit.form.items() if field.startswith("value:") and value}
        return await self._do(visit, lambda: visit.api.post("connections", name, "rotate", body={"values": values}))

    async def _do(self, visit: Visit, act: Any) -> Response:
        try:
            await act()
        except Refused as refused:
            return await self.one(visit, refused)
        return visit.go("connections", visit.part("connection"))

    async def reviews(self, visit: Visit) -> Response:
        waiting = []
        for connection in (await visit.api.get("connections"))["connections"]:
            found = await visit.api.get("connections", connection["name"], "reviews")
            waiting += [{**review, "connection": connection["name"], "diff": diff_of(review)} for review in found["reviews"]]
        waiting.sort(key=lambda review: (review["state"] != "pending_review", review["requested_at"]))
        return visit.show("reviews.html.j2", reviews=waiting[:200])

    async def decide(self, visit: Visit) -> Response:
        body = {"decision": visit.form.get("decision", ""), "by": visit.session.name, "reason": visit.form.get("reason", "").strip() or None}
        try:
            await visit.api.post("connections", visit.part("connection"), "reviews", visit.part("review"), body=body)
        except Refused as refused:
            return visit.show("error.html.j2", refused=refused, status=refused.status)
        return visit.go("reviews")


def diff_of(review: dict[str, Any]) -> list[tuple[str, str]]:
    """("+" | "-" | " ", line) of the tool's form in use and the one to be judged, each as sorted JSON; at most 400 lines."""
    before, after = (
        json.dumps(form, indent=2, sort_keys=True, ensure_ascii=False).splitlines() if form else [] for form in (review["before"], review["after"])
    )
    lines = [line for line in difflib.unified_diff(before, after, lineterm="", n=3) if not line.startswith(("---", "+++", "@@"))]
    return [(line[:1], line[1:]) for line in lines[:400]]
