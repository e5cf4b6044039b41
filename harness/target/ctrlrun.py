"""ctrlrun: a policy file in front of one MCP server, approvals by its command line, receipts and events as its audit."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from harness.errors import ContractBroken, Untestable
from harness.model.scenario import PROTOCOLS
from harness.target.base import Ability, ConnectionRequest, LaunchOptions, RunningTarget
from harness.target.child import Command
from harness.target.ctrlrun_record import DENIALS, records_of
from harness.target.dialect import Refusal, RpcError
from harness.target.installed import Installation
from harness.target.light import LightGateway, LightTarget, Served, private_file, run_tool, secret_of
from harness.target.wire import AgentTransport, wire_session

WORDS: Mapping[str, str] = {"allowed": "allow", "ask_first": "approve", "off": "deny"}
OWN_WORDS = {theirs: ours for ours, theirs in WORDS.items()}
EVENTS = ".ctrlrun/events.jsonl"
RECEIPTS = ".ctrlrun/receipts.jsonl"
DECISIONS = frozenset({"APPROVAL_GRANTED", "APPROVAL_DENIED", "APPROVAL_EXPIRED"})
SCALARS = ("string", "integer")
TOOL_WITHIN_S = 30.0
LIST_WITHIN_S = 15.0


class CtrlRun(LightTarget):
    """It keeps no credential: what the agent sends as its own is passed on, so the agent holds the provider's.

    Declared: names, order and pages are the provider's own, tools it denies are listed all the same. What is not in its policy is denied,
    so the harness writes every listed tool into it. A tool that asks first declares an effect over its required arguments, which is what
    makes a repeated call `duplicate_effect`. An approved call is carried out when the agent repeats it.
    """

    id = "ctrlrun"
    summary = "ctrlrun's gateway: policy file, approvals by its command line, receipts as audit"
    package = "ctrlrun"
    abilities = frozenset[Ability]({"audit", "approvals", "permissions", "access", "reasons"})
    protocols = PROTOCOLS
    dialects = (
        RpcError(-41002, ("request_id",), invocation=True),
        Refusal(-41001, "policy_block", reasons=DENIALS, invocation=("action_id",)),
        Refusal(-41003, "action_declined"),
        Refusal(-41004, "duplicate_effect", outcome="replayed"),
        Refusal(-41005, "ambiguous_effect"),
        Refusal(-41006, "policy_block"),
        Refusal(-41008, "invalid_arguments"),
        Refusal(-41012, "not_granted"),
    )

    def command(self, installed: Installation, served: Served) -> Command:
        request = served.request
        words = [str(installed.home / "bin" / "ctrlrun"), "gateway", "--upstream", str(request.url), "--alias", request.name]
        return Command(
            words=[*words, "--listen", f"127.0.0.1:{served.port}", "--path", self.path, "--principal", "scripted-agent"],
            port=served.port,
            home=served.home,
            log=served.log,
            hidden=(secret_of(request),),
        )

    @asynccontextmanager
    async def launch(self, options: LaunchOptions) -> AsyncIterator[RunningTarget]:
        installed = self.installation()
        await installed.ensure(options.tell)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # nothing here speaks TLS: no authority needs to be read
        async with httpx2.AsyncHTTPTransport(verify=context, trust_env=False) as transport:
            gateway = CtrlRunGateway(self, installed, options, transport)
            try:
                yield gateway
            finally:
                await gateway.close()


class CtrlRunGateway(LightGateway):
    executes_on_approval = False

    def __init__(self, kind: CtrlRun, installed: Installation, options: LaunchOptions, transport: httpx2.AsyncHTTPTransport) -> None:
        super().__init__(kind, installed.label, options)
        self._program = str(installed.home / "bin" / "ctrlrun")
        self._transport = transport
        self._decided: dict[str, list[dict[str, Any]]] = {}
        self._policies: dict[tuple[str, str], dict[str, dict[str, str]]] = {}

    # ---- policy

    async def connect(self, tenant: str, request: ConnectionRequest) -> Mapping[str, Any]:
        """First under an empty policy, to have the provider's tools listed through it; then under one that allows each of them."""
        made = await self._connect_empty(tenant, request)
        served = self.need(tenant, request.name)
        tools = await self._listed(served)
        self._policies[tenant, request.name] = {str(t["name"]): {"decision": "allow", "effect": effect_of(request.name, t)} for t in tools}
        await self._restart(tenant, request.name)
        return made

    async def _connect_empty(self, tenant: str, request: ConnectionRequest) -> Mapping[str, Any]:
        self._policies[tenant, request.name] = {}
        return await super().connect(tenant, request)

    async def start(self, served: Served) -> None:
        tenant = next(tenant for (tenant, _), other in self.served.items() if other is served)
        policy = self._policies[tenant, served.request.name]
        private_file(served.home / "ctrlrun.yaml", policy_text(served.request.name, policy))
        await super().start(served)

    async def _restart(self, tenant: str, connection: str) -> None:
        """It reads its policy when it starts, and takes it from there; its store stays."""
        served = self.need(tenant, connection)
        await self._end(served)
        await self.start(served)

    async def _listed(self, served: Served) -> tuple[dict[str, Any], ...]:
        headers = {"Authorization": f"Bearer {secret_of(served.request)}"}
        url = f"http://127.0.0.1:{served.port}{self.kind.path}"
        version = served.request.protocol if served.request.protocol in PROTOCOLS else PROTOCOLS[-2]
        async with (
            httpx2.AsyncClient(transport=AgentTransport(self._transport), headers=headers, timeout=httpx2.Timeout(LIST_WITHIN_S)) as client,
            wire_session(url, client, version) as session,
        ):
            listing = await session.list_tools(timeout=LIST_WITHIN_S)
        return listing.tools

    async def permissions(self, tenant: str, connection: str) -> Mapping[str, str]:
        """As they stand in the policy file it was last started with."""
        served = self.need(tenant, connection)
        document = json.loads((served.home / "ctrlrun.yaml").read_text(encoding="utf-8"))
        prefix = action_name(connection, "")
        return {name.removeprefix(prefix): OWN_WORDS[entry["decision"]] for name, entry in document["actions"].items()}

    async def set_permissions(self, tenant: str, connection: str, changes: Mapping[str, str]) -> Mapping[str, str]:
        policy = self._policies[tenant, connection]
        for tool, word in changes.items():
            policy[tool]["decision"] = WORDS[word]
        await self._restart(tenant, connection)
        return await self.permissions(tenant, connection)

    async def access(self, tenant: str, connection: str) -> Mapping[str, int]:
        words = list((await self.permissions(tenant, connection)).values())
        return {word: words.count(word) for word in WORDS}

    # ---- approvals and audit

    async def decide(self, tenant: str, approval: str, *, approve: bool, by: str, reason: str) -> Mapping[str, Any]:
        """Its command line takes neither a name nor a reason; it answers no result, since the agent must repeat the call."""
        served = self._served_of(tenant)
        output = await self._tool(served, "approve" if approve else "deny", approval)
        await self._note_decision(served, approval)
        return {"approval": {"id": approval, "state": "approved" if approve else "declined", "by": by, "said": output.strip()[:300]}}

    async def _tool(self, served: Served, *words: str) -> str:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(served.home), "LANG": "C.UTF-8"}
        code, output = await run_tool([self._program, *words], cwd=served.home, env=env, answer="y\n", within_s=TOOL_WITHIN_S)
        if code != 0:
            raise ContractBroken(f"{self.label} refused: {output.strip()[-300:]}", where=f"ctrlrun {' '.join(words)}", fix="see its log")
        return output

    async def _note_decision(self, served: Served, approval: str) -> None:
        """A decision made on the command line stands in its store alone, not in the gateway's lines: have it shown."""
        asking = [e["action_id"] for e in lines(served.home / EVENTS) if e.get("approval_id") == approval and e.get("type") == "APPROVAL_REQUESTED"]
        for action in asking[:1]:
            shown = json.loads(await self._tool(served, "inspect", str(action), "--json"))
            known = self._decided.setdefault(str(served.home), [])
            known += [e for e in shown.get("events") or () if e.get("type") in DECISIONS and e not in known]

    async def audit(self, tenant: str, run: str | None) -> list[Mapping[str, Any]]:
        """Its events and receipts, put into the audit's words (see ctrlrun_record)."""
        served = self._served_of(tenant)
        events = {e["event_id"]: e for e in (*self._decided.get(str(served.home), ()), *lines(served.home / EVENTS))}
        return records_of([events[n] for n in sorted(events)], lines(served.home / RECEIPTS), served.request.name)

    def _served_of(self, tenant: str) -> Served:
        found = [served for (owner, _), served in self.served.items() if owner == tenant]
        if not found:
            raise Untestable(f"{self.label} was not started", where=tenant, fix="see the trouble that came before")
        return found[0]


def action_name(connection: str, tool: str) -> str:
    return f"mcp.{connection}.{tool}"


def effect_of(connection: str, tool: Mapping[str, Any]) -> str:
    """The consequence a call has, as a template over its required plain arguments; "" where there is none to name it by."""
    schema = tool.get("inputSchema") or {}
    properties = schema.get("properties") or {}
    names = [n for n in schema.get("required") or () if (properties.get(n) or {}).get("type") in SCALARS and str(n).isidentifier()]
    return ":".join([action_name(connection, str(tool["name"])), *("{" + n + "}" for n in names)]) if names else ""


def policy_text(connection: str, policy: Mapping[str, Mapping[str, str]]) -> str:
    """JSON, which is YAML. Only what asks first declares an effect: an allowed call may be repeated at will."""
    actions = {}
    for tool, entry in policy.items():
        asks = entry["decision"] == WORDS["ask_first"] and entry["effect"]
        actions[action_name(connection, tool)] = {"decision": entry["decision"], **({"effect": entry["effect"]} if asks else {})}
    return json.dumps({"schema": "ctrlrun.policy/v2", "actions": actions}, indent=1)


def lines(path: Any) -> list[dict[str, Any]]:
    """One JSON object a line; none before the first call. A torn last line is left out: it is still being written.

    Raises Untestable for a line that is anything else: what could be read as two records, or as none, is no record of anything.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [_record(line, f"{path.name}:{number}") for number, line in enumerate(text.split("\n")[:-1], start=1) if line.strip()]


def _record(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Untestable("a line of its log is not exactly one record", where=where, fix="look who writes to that file")
    return found


TARGET = CtrlRun()
