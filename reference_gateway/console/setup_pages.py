"""The gallery and the steps of a setup. Secrets go from the form to the operator API and into no page again."""

from __future__ import annotations

import re
from typing import Any

from starlette.responses import Response

from reference_gateway.console.api import Refused
from reference_gateway.console.web import Form, Visit

_NAME = re.compile(r"[^a-z0-9-]+")


class SetupPages:
    async def gallery(self, visit: Visit) -> Response:
        return visit.show("gallery.html.j2", gallery=await visit.api.get("gallery"))

    async def start(self, visit: Visit) -> Response:
        form = visit.form
        connector = form.get("connector", "")
        name = _NAME.sub("-", form.get("name", "").strip().lower()).strip("-") or connector
        body: dict[str, Any] = {"connector": connector, "name": name, "grant": _grant(form)}
        if endpoint := form.get("endpoint", "").strip():
            body["endpoint"] = endpoint
        try:
            await visit.api.post("setups", body=body)
        except Refused as refused:
            return visit.show("gallery.html.j2", refused=refused, status=refused.status, gallery=await visit.api.get("gallery"))
        return visit.go("setups", name)

    async def steps(self, visit: Visit, refused: Refused | None = None) -> Response:
        setup = await visit.api.get("setups", visit.part("connection"))
        gallery = await visit.api.get("gallery")
        connector = next((each for each in gallery["connectors"] if each["id"] == setup["connector"]), None)
        template = "setup_state.html.j2" if visit.request.headers.get("hx-request") else "setup.html.j2"
        return visit.show(template, refused=refused, status=refused.status if refused else 200, setup=setup, connector=connector)

    async def identity(self, visit: Visit) -> Response:
        return await self._try(visit, "identity", {"subject": visit.form.get("subject", "").strip()})

    async def credentials(self, visit: Visit) -> Response:
        """Fields are named `value:<path>`; empty ones were not filled in (of several ways in, exactly one is)."""
        values = {name.removeprefix("value:"): value for name, value in visit.form.items() if name.startswith("value:") and value}
        return await self._try(visit, "credentials", {"values": values})

    async def authorize(self, visit: Visit) -> Response:
        return await self._try(visit, "authorize", {"session": visit.session.key[:32]})

    async def _try(self, visit: Visit, step: str, body: dict[str, Any]) -> Response:
        name = visit.part("connection")
        try:
            await visit.api.post("setups", name, step, body=body)
        except Refused as refused:
            return await self.steps(visit, refused)
        return visit.go("setups", name)

    async def discard(self, visit: Visit) -> Response:
        await visit.api.delete("connections", visit.part("connection"))
        return visit.go("")


def _grant(form: Form) -> dict[str, Any]:
    if form.get("grant") != "personal":
        return {"kind": "organization"}
    subject = form.get("subject", "").strip()
    return {"kind": "personal", "subject": subject} if subject else {"kind": "personal"}
