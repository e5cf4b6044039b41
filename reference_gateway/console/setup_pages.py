"""The gallery and the steps of a setup. Secrets go from the form to the operator API and into no page again."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.responses import Response

from reference_gateway.console.api import Refused
from reference_gateway.console.web import BASE, CAME_BACK, Form, Visit

ANSWER = ("state", "code", "iss", "error", "error_description", "error_uri")
MOST_ASKED = 100
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
        name, asked = visit.part("connection"), visit.session.asked
        try:
            body = {"session": visit.session.browser, "redirect_uri": _come_back_to(visit)}
            url = (await visit.api.post("setups", name, "authorize", body=body))["authorization_url"]
        except Refused as refused:
            return await self.steps(visit, refused)
        for state in parse_qs(urlsplit(url or "").query).get("state", []):
            asked[state] = name
            while len(asked) > MOST_ASKED:
                del asked[next(iter(asked))]
        return visit.go("setups", name)

    async def came_back(self, visit: Visit) -> Response:
        """Where the provider sends the browser. What it brings goes to the operator API, which judges it; the setup shows what became of it."""
        body = {name: value for name in ANSWER if (value := visit.request.query_params.get(name))}
        name = visit.session.asked.pop(body.get("state", ""), None)
        try:
            found = await visit.api.post("oauth", "callback", body={**body, "session": visit.session.browser, "redirect_uri": _come_back_to(visit)})
        except Refused:
            if name is None:
                raise  # nobody here asked for it
            return visit.go("setups", name)
        return visit.go("setups", str(found["connection"]))

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


def _come_back_to(visit: Visit) -> str:
    """The one address that providers send browsers back to: the console's own, as this browser reached it."""
    url = visit.request.url
    return f"{visit.web.public_url or f'{url.scheme}://{url.netloc}'}{BASE}{CAME_BACK}"


def _grant(form: Form) -> dict[str, Any]:
    if form.get("grant") != "personal":
        return {"kind": "organization"}
    subject = form.get("subject", "").strip()
    return {"kind": "personal", "subject": subject} if subject else {"kind": "personal"}
