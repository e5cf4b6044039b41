"""The MCP client configuration of a run, in the form that each agent's program really reads.

A form that names the right key in the wrong place is worse than none: the program ignores it and calls without a credential.
"""

from __future__ import annotations

import ipaddress
import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from reference_gateway.audit import AuditLog, stamp
from reference_gateway.clock import Clock
from reference_gateway.connections import Connections
from reference_gateway.defects import Defects
from reference_gateway.errors import GatewayError
from reference_gateway.operators import actor
from reference_gateway.runs import Run, Runs
from reference_gateway.store.base import AUDIT_PAGE, Store

Form = Literal["codex", "claude_code", "gemini_cli", "generic"]
FORMS: tuple[Form, ...] = get_args(Form)
SERVER = "gateway"
ANSWERED = ("call_completed", "call_failed", "call_replayed")

_SETTING = "delivery:"


@dataclass(frozen=True, slots=True)
class Written:
    """`file` is where the program looks for it, relative to its own configuration's place."""

    file: str
    text: str


def _codex(url: str, token: str, key: str = "http_headers") -> Written:
    # TOML's basic strings are written like JSON's; neither value holds anything that the two spell differently.
    header = json.dumps(f"Bearer {token}")
    return Written(".codex/config.toml", f"[mcp_servers.{SERVER}]\nurl = {json.dumps(url)}\n{key} = {{ Authorization = {header} }}\n")


def _json(file: str, entry: Mapping[str, Any]) -> Written:
    return Written(file, json.dumps({"mcpServers": {SERVER: entry}}, indent=2) + "\n")


def _claude_code(url: str, token: str) -> Written:
    return _json(".mcp.json", {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {token}"}})


def _gemini_cli(url: str, token: str) -> Written:
    return _json(".gemini/settings.json", {"httpUrl": url, "headers": {"Authorization": f"Bearer {token}"}})


def _generic(url: str, token: str) -> Written:
    return _json("mcp.json", {"type": "streamable-http", "url": url, "headers": {"Authorization": f"Bearer {token}"}})


WRITERS: Mapping[Form, Callable[[str, str], Written]] = {
    "codex": _codex,
    "claude_code": _claude_code,
    "gemini_cli": _gemini_cli,
    "generic": _generic,
}


def is_local(url: str) -> bool:
    """Whether the URL leads to whoever reads it, and not to us."""
    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(socket.inet_ntoa(socket.inet_aton(host)) if ":" not in host else host)
    except (ValueError, OSError):  # a name; 127.1, 0x7f000001 and 2130706433 are none
        return False
    mapped = getattr(address, "ipv4_mapped", None) or address
    return mapped.is_loopback or mapped.is_unspecified


class Deliveries:
    """`base` is where agents beside the gateway reach it, once it listens; `public_url` is how remote ones do."""

    def __init__(
        self, *, store: Store, audit: AuditLog, clock: Clock, runs: Runs, connections: Connections, public_url: str | None, defects: Defects
    ) -> None:
        self._store = store
        self._audit = audit
        self._clock = clock
        self._runs = runs
        self._connections = connections
        self._public_url = public_url
        self._defects = defects

    def write(self, run: Run, form: Form, token: str, base: str) -> dict[str, Any]:
        """The configuration, with the token where the program looks for it. Raises GatewayError."""
        if run.state == "ended":
            raise GatewayError("run_ended", "the run has ended", where=run.run, fix="create another", http_status=409)
        holder = self._runs.by_token(token)
        if holder is None or holder.run != run.run:
            raise GatewayError(
                "run_token_invalid", "that is not this run's token", where="token", fix="give the one that it was created with", http_status=422
            )
        url = self._url(run, base)
        written = _codex(url, token, "headers") if form == "codex" and "codex-headers" in self._defects else WRITERS[form](url, token)
        with self._store.transaction():
            self._store.setting_put(run.tenant, _SETTING + run.run, {"deliveries": [*self._of(run), {"form": form, "url": url, "at": self._now()}]})
            self._audit.append(
                tenant=run.tenant, run=run.run, task=run.task, agent=run.agent, actor=actor(), event="delivery_written", outcome="success",
                decision="allow", reason="delivery_written", details={"form": form, "after": self._audit.head()[0]},
            )  # fmt: skip
        return {"form": form, "file": written.file, "text": written.text, "url": url}

    def state(self, run: Run) -> dict[str, Any]:
        """A catalog that is ready proves nothing; a call that was answered after the delivery does."""
        found = [each for name in run.connections if (each := self._connections.find(run.tenant, name)) is not None]
        ready = any(each.status == "active" and each.catalog.active() for each in found)
        deliveries = self._of(run)
        calls = self._calls(run)
        return {"deliveries": deliveries, "catalog": "ready" if ready else "empty", "calls": calls, "proven": bool(deliveries) and calls > 0}

    def _calls(self, run: Run) -> int:
        """Answered since the first delivery, by the audit's own record."""
        after, calls, delivered = 0, 0, False
        while True:
            page = self._audit.read(run.tenant, run=run.run, after=after)
            for each in page:
                delivered = delivered or each["event"] == "delivery_written"
                calls += delivered and each["event"] in ANSWERED
            if len(page) < AUDIT_PAGE:
                return calls
            after = page[-1]["seq"]

    def _of(self, run: Run) -> list[dict[str, Any]]:
        return list((self._store.setting_get(run.tenant, _SETTING + run.run) or {}).get("deliveries", ()))

    def _url(self, run: Run, base: str) -> str:
        if run.place == "local" or "loopback-to-remote" in self._defects:
            return base + "/mcp"
        if self._public_url is None or is_local(self._public_url):
            raise GatewayError(
                "delivery_unreachable",
                "a remote agent cannot reach this gateway under any address that it knows of itself",
                where="--public-url",
                fix="start the gateway with the URL under which it is reached from there, or use the relay",
                http_status=409,
            )
        return self._public_url.rstrip("/") + "/mcp"

    def _now(self) -> str:
        return stamp(self._clock.now())
