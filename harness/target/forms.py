"""MCP client configurations as agents' programs read them. What a program does not know is nothing to it, here as there."""

from __future__ import annotations

import json
import ssl
import tomllib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2

from harness.errors import ContractBroken
from harness.target.wire import WireSession, wire_session

Form = Literal["codex", "claude_code", "gemini_cli", "generic"]

# Per form: the table of servers, the key of the address, the key of the headers, and the type that must be named (None: none is read).
_READ: Mapping[Form, tuple[str, str, str, str | None]] = {
    "codex": ("mcp_servers", "url", "http_headers", None),
    "claude_code": ("mcpServers", "url", "headers", "http"),
    "gemini_cli": ("mcpServers", "httpUrl", "headers", None),
    "generic": ("mcpServers", "url", "headers", "streamable-http"),
}


def read_form(form: Form, text: str) -> tuple[str, dict[str, str]]:
    """Address and headers of the one server. Raises ContractBroken for what the program would not start with."""
    table, place, header, kind = _READ[form]
    try:
        document = tomllib.loads(text) if form == "codex" else json.loads(text)
        servers: dict[str, Any] = document[table]
        (server,) = servers.values()
        url = server[place]
        headers = server.get(header, {})
        fits = isinstance(url, str) and isinstance(headers, dict) and (kind is None or server.get("type") == kind)
    except (ValueError, KeyError, TypeError, AttributeError):
        fits = False
    if not fits:
        raise ContractBroken(f"the configuration is not one that {form} reads", where=form, fix="see the program's own documentation")
    return url, {str(key): str(value) for key, value in headers.items()}


@asynccontextmanager
async def scripted_client(form: Form, text: str, protocol: str) -> AsyncIterator[WireSession]:
    """A session as that program would open it, with nothing but what the configuration says. Raises Unreachable and ContractBroken."""
    url, headers = read_form(form, text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the gateway under test is plain HTTP on loopback
    async with (
        httpx2.AsyncClient(verify=context, trust_env=False, timeout=httpx2.Timeout(60.0), headers=headers) as http,
        wire_session(url, http, protocol) as session,
    ):
        yield session
