"""`consent: CONNECTION`: an operator has the connection authorized, a scripted person consents, and the browser brings the answer back."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import httpx2

from harness.action.base import Done, Leg, Stage, Verb
from harness.errors import Unreachable, UsageError
from harness.fake.authorization import AuthorizationServer
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.setting import Told, setting

SESSION = "scripted-browser"
REDIRECT = "http://127.0.0.1:8977/oauth/callback"
LATE_S = 601.0

Comes = Literal["given", "again", "forged", "elsewhere", "by-stranger", "late"]


class Params(Frozen):
    """`comes`: how the answer comes back: as `given`; the previous one `again`; with a `forged` state; `elsewhere` (a redirect that is nearly the
    right one); `by-stranger` (another session); `late` (after ten minutes). `during`: what happens is that a `renewal` which comes later is
    overtaken by this consent, and refused.
    """

    target: str
    comes: Comes = "given"
    during: Literal["renewal"] | None = None


class Consent(Verb[Params]):
    id = "consent"
    summary = "a connection is authorized: a scripted person consents, and the browser brings the answer back"
    params = Params
    needs = frozenset({"setup"})
    example = "consent: zep"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        leg = stage.leg(params.target)
        server = server_of(leg)
        if params.during is not None:

            async def overtake() -> None:
                await self._consented(stage, leg, server, params.comes)

            server.overtaken = overtake
            return Done()
        mark = len(server.seen)
        told = await self._consented(stage, leg, server, params.comes)
        answer = {**(told.body if isinstance(told.body, dict) else {}), "seen": latest(server, mark)}
        data = {"operation": "consent", "http": told.status, "refused": told.refused, "answer": answer}
        stage.control("operate", data, phase=phase, step=step.id, connection=leg.name)
        if not told.refused:
            stage.control("catalog", dict(await stage.target.catalog(stage.tenant, leg.name)), phase=phase, step=step.id, connection=leg.name)
        return Done(answer=answer)

    async def _consented(self, stage: Stage, leg: Leg, server: AuthorizationServer, comes: Comes) -> Told:
        operator, kept = setting(stage.target), f"consent:{leg.name}"
        if comes == "again":
            if kept not in stage.kept:
                raise UsageError("nobody has consented yet", where="comes", fix="let somebody consent in an earlier step")
            body = json.loads(stage.kept[kept])
        else:
            begun = await operator.operate(stage.tenant, "authorize", leg.name, {"session": SESSION, "redirect_uri": REDIRECT})
            if begun.refused:
                return begun
            body = {**await _browsed(str(begun.body["authorization_url"])), "redirect_uri": REDIRECT, "session": SESSION}
            stage.kept[kept] = json.dumps(body)
        if comes == "late":
            await stage.time.advance(LATE_S)
        return await operator.operate(stage.tenant, "callback", body={**body, **_changed(comes, body)})


def server_of(leg: Leg) -> AuthorizationServer:
    if leg.consents is None:
        raise UsageError(f"{leg.name} has no authorization server", where=leg.name, fix="write oauth: {} at the connection")
    return leg.consents


def latest(server: AuthorizationServer, mark: int) -> dict[str, Any]:
    """What the authorization server was asked since then, by endpoint: the last request of each, and how many there were."""
    seen = server.seen[mark:]
    return {**{each["at"]: each for each in seen}, "requests": len(seen)}


def _changed(comes: Comes, body: Mapping[str, Any]) -> dict[str, str]:
    if comes == "forged":
        return {"state": f"{body['state'][:-4]}AAAA"}
    if comes == "elsewhere":
        return {"redirect_uri": f"{REDIRECT}/"}
    return {"session": "another-browser"} if comes == "by-stranger" else {}


async def _browsed(url: str) -> dict[str, str]:
    """What stands in the query that the consent page sends the browser away with."""
    plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the stand-in answers on loopback without TLS
    async with httpx2.AsyncClient(verify=plain, trust_env=False, follow_redirects=False) as browser:
        try:
            response = await browser.get(url)
        except httpx2.HTTPError as error:
            raise Unreachable(f"the consent page could not be opened: {error}", where="authorization_url", fix="see gateway.log") from None
    if response.status_code != 302:
        raise Unreachable(f"the consent page answered HTTP {response.status_code}", where="authorization_url", fix="see what it was asked with")
    return dict(parse_qsl(urlsplit(response.headers["location"]).query))


ACTION = Consent()
