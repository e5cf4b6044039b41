"""The client under test: the gateway's own upstream client and OAuth broker, with a scripted person who consents at once.

The suite starts `hand_over.py` with a URL, and MCP_CONFORMANCE_SCENARIO, _CONTEXT and _PROTOCOL_VERSION in the environment; that calls `run` here.
The suite judges what reaches its own servers. Nothing of MCP or OAuth is done here: only what to call, and what a browser would do.
"""

from __future__ import annotations

import json
import os
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2

from reference_gateway.addresses import LOOPBACK
from reference_gateway.background import Background
from reference_gateway.catalog import distinct
from reference_gateway.clock import SystemClock
from reference_gateway.defects import Defects
from reference_gateway.egress import Egress
from reference_gateway.errors import GatewayError
from reference_gateway.ids import RandomIds
from reference_gateway.oauth.authorized import Access, Authorized
from reference_gateway.oauth.broker import Answer, Broker, Wish
from reference_gateway.oauth.challenge import Challenge
from reference_gateway.oauth.consents import Consents, Held, Place
from reference_gateway.oauth.pending import Asker
from reference_gateway.oauth.registration import Configured
from reference_gateway.oauth.tokens import Consent
from reference_gateway.store.sqlite import SqliteStore
from reference_gateway.upstream import Era, McpUpstream, era_of
from reference_gateway.vault import KEY_BYTES, Vault
from reference_gateway.wire import UpstreamFailure

Json = dict[str, Any]

REDIRECT_URI = "http://127.0.0.1:8899/oauth/callback"
DOCUMENT_URL = "https://conformance-test.local/client-metadata.json"
"""The suite's own name for a client ID metadata document, which nobody fetches."""
LIMIT = 4_000_000
PLACE = Place("conformance", "subject", '["organization",null]', "credentials.oauth")
ASKER = Asker("operator", "scripted-browser")


class LocalEgress(Egress):
    """The gateway's guard, which for this one program also takes `localhost`, as which the suite names its servers."""

    def _check_place(self, scheme: str, host: str, *rest: Any) -> None:
        if host != "localhost":
            super()._check_place(scheme, host, *rest)

    def may_dial(self, host: str, address: str) -> bool:
        return address == LOOPBACK if host == "localhost" else super().may_dial(host, address)


async def _here(host: str, port: int) -> Sequence[str]:
    if host != "localhost":
        raise OSError("this program dials its own machine only")
    return [LOOPBACK]


class _Context:
    """What the suite hands over beside the URL."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.scenario = environment.get("MCP_CONFORMANCE_SCENARIO", "")
        self.version = environment.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
        self.given: Json = json.loads(environment.get("MCP_CONFORMANCE_CONTEXT") or "{}")

    @property
    def era(self) -> Era:
        return era_of(self.version)

    @property
    def configured(self) -> Configured | None:
        if "client_id" not in self.given or "client_secret" not in self.given:
            return None
        return Configured(self.given["client_id"], self.given["client_secret"])


class Person:
    """Opens the page at once, and takes what comes back to where the gateway expects it."""

    def __init__(self, broker: Broker, url: str, configured: Configured | None) -> None:
        self._broker = broker
        self._url = url
        self._configured = configured

    async def __call__(self, challenge: Challenge, held: Held | None) -> Held | None:
        kept: list[Held] = []

        async def settle(consent: Consent) -> None:
            kept.append(self._broker.store(PLACE, consent))

        wish = Wish(
            place=PLACE,
            url=self._url,
            asker=ASKER,
            redirect_uri=REDIRECT_URI,
            settle=settle,
            failed=lambda error: None,
            configured=self._configured,
            challenge=challenge,
            known=held.consent if held is not None else None,
            more=self._broker.consents.demanded(PLACE),
        )
        started = await self._broker.begin(wish)
        query = dict(parse_qsl(urlsplit(await _browsed(started.url)).query, keep_blank_values=True))
        answer = Answer(
            state=query.get("state", ""), redirect_uri=REDIRECT_URI, code=query.get("code"), iss=query.get("iss"), error=query.get("error")
        )
        await self._broker.complete(PLACE.tenant, ASKER, answer)
        return kept[0]


async def _browsed(url: str) -> str:
    """Where the consent page sends the browser. This is the person's own client, so the gateway's guard has no part in it."""
    plain = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the suite's servers answer without TLS
    async with httpx2.AsyncClient(verify=plain, trust_env=False, follow_redirects=False, timeout=60.0) as browser:
        response = await browser.get(url)
    return response.headers.get("location", "")


async def _asked(method: str, params: Json) -> Json | None:
    """What a server may ask of us: a form that is accepted with its defaults."""
    if method != "elicitation/create":
        return None
    properties = params.get("requestedSchema", {}).get("properties", {})
    return {"action": "accept", "content": {name: part["default"] for name, part in properties.items() if "default" in part}}


async def _listed(upstream: McpUpstream, era: Era) -> list[Json]:
    tools: list[object] = []
    params: Json = {}
    while True:
        reply, _ = await upstream.request("tools/list", params, era=era, limit=LIMIT)
        tools += reply.result.get("tools", [])
        if reply.result.get("nextCursor") is None:
            return distinct(tools, Defects())[0]
        params = {"cursor": reply.result["nextCursor"]}


async def _call(upstream: McpUpstream, era: Era, tool: Json, arguments: Json, **more: Any) -> Json:
    params = {"name": tool["name"], "arguments": arguments, **more}
    reply, _ = await upstream.request("tools/call", params, era=era, limit=LIMIT, schema=tool.get("inputSchema"))
    return reply.result


def _arguments(tool: Json, tools: Sequence[Json]) -> Json:
    """Something of the right type for each required argument; `schema`, as it was listed, for the tool that wants to see one again."""
    schema = tool.get("inputSchema") or {}
    wanted = schema.get("required", []) if isinstance(schema, dict) else []
    samples = {"number": 5, "integer": 5, "boolean": True, "array": [], "object": {}}
    made = {name: samples.get(schema["properties"].get(name, {}).get("type"), "text") for name in wanted}
    if tool["name"] == "json_schema_echo":
        made["schema"] = next(each["inputSchema"] for each in tools if each["name"] != tool["name"])
    return made


async def _rounds(upstream: McpUpstream, era: Era, tools: Sequence[Json]) -> None:
    """A form in the middle of a call: another call comes between, and then the form is answered, with its state exactly as it came."""
    by_name = {tool["name"]: tool for tool in tools}
    for tool in tools:
        result = await _call(upstream, era, tool, {})
        if result.get("resultType") != "input_required":
            continue
        if (other := by_name.get("test_mrtr_unrelated")) is not None:
            await _call(upstream, era, other, {})
        answers = {key: {"action": "accept", "content": {"confirmed": True}} for key in result["inputRequests"]}
        state = {"requestState": result["requestState"]} if "requestState" in result else {}
        await _call(upstream, era, tool, {}, inputResponses=answers, **state)


async def _drive(upstream: McpUpstream, context: _Context) -> None:
    era = context.era
    await upstream.session(era)
    if context.scenario == "initialize":
        return
    tools = await _listed(upstream, era)
    if context.scenario in ("request-metadata", "json-schema-ref-no-deref"):
        return
    if context.scenario == "sep-2322-client-request-state":
        await _rounds(upstream, era, tools)
        return
    wanted = context.given.get("toolCalls")
    if wanted is not None:
        by_name = {tool["name"]: tool for tool in tools}
        for each in wanted:
            await _call(upstream, era, by_name[each["name"]], each["arguments"])
        return
    for tool in tools:
        await _call(upstream, era, tool, _arguments(tool, tools))


async def run(url: str, environment: Mapping[str, str]) -> tuple[int, str]:
    """0 when everything was answered; 1, and one line that says why, when something was refused."""
    context, clock, defects, ids = _Context(environment), SystemClock(), Defects(), RandomIds()
    background = Background()
    egress = LocalEgress(allow_loopback=True, resolver=_here)
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder) / "client.sqlite3")
        store.open()
        consents = Consents(Vault(os.urandom(KEY_BYTES), store), store)
        broker = Broker(egress=egress, consents=consents, clock=clock, ids=ids, defects=defects, document_url=DOCUMENT_URL)
        access = Access(PLACE, consents, broker.refresher, clock, person=Person(broker, url, context.configured))
        upstream = McpUpstream(Authorized(egress.lines, access), url, dict, background, abilities={"elicitation": {}}, asked=_asked)
        try:
            await _drive(upstream, context)
        except (UpstreamFailure, GatewayError) as error:
            return 1, f"{getattr(error, 'code', None) or getattr(error, 'reason', '')}: {error}\n"
        finally:
            await upstream.close()
            await background.close(drain=1.0)
            await broker.refresher.close()
            await egress.aclose()
            store.close()
    return 0, ""
