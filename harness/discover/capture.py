"""A whole tool list or an honest `incomplete`: every page, bounded, from a URL, a command or a file."""

from __future__ import annotations

import shlex
import ssl
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from harness.discover.http_wire import http_wire, public_url
from harness.discover.stdio_wire import stdio_wire
from harness.discover.wire import CLIENT_INFO, HANDSHAKE, META, MODERN, Limits, RpcFailure, Wire, WireProblem, modern_params
from harness.errors import Unreachable, UsageError
from harness.model.tool import Capture, Tool
from harness.registry import suggest

AUTO = "auto"
VERSIONS = (*MODERN, *HANDSHAKE)
_NOT_MODERN = frozenset({"rpc-error", "http-status", "not-mcp", "malformed", "no-answer", "wrong-id"})


async def capture_url(
    url: str,
    *,
    protocol_version: str = AUTO,
    headers: Mapping[str, str] | None = None,
    client: httpx2.AsyncClient | None = None,
    limits: Limits = Limits(),  # noqa: B008  # frozen
) -> Capture:
    """Every tool that an MCP endpoint lists.

    `auto` asks in the newest protocol era first and falls back to the handshake; a named version is asked for and no other accepted.
    Raises Unreachable, CredentialsMissing or UsageError when there is no first page; later trouble gives an incomplete capture.
    """
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"not an HTTP URL: {public_url(url)!r}", where=public_url(url), fix="give an http:// or https:// URL")
    extra = dict(headers or {})
    owned = client is None
    # Redirects are not followed: a credential must not travel to a host that nobody named.
    used = client or httpx2.AsyncClient(verify=ssl.create_default_context(), trust_env=False, follow_redirects=False, timeout=limits.request_s)
    try:
        async with http_wire(url, used, extra, limits) as wire:
            return await capture_wire(
                wire, source=public_url(url), protocol_version=protocol_version, header_names=tuple(sorted(extra)), limits=limits
            )
    finally:
        if owned:
            await used.aclose()


async def capture_stdio(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    protocol_version: str = AUTO,
    limits: Limits = Limits(),  # noqa: B008  # frozen
) -> Capture:
    """Every tool of a server that speaks MCP on standard input and output. It is ended afterwards, with its children."""
    async with stdio_wire(command, env or {}, cwd, limits) as wire:
        return await capture_wire(wire, source=shlex.join(command), protocol_version=protocol_version, limits=limits)


async def capture_wire(
    wire: Wire,
    *,
    source: str,
    protocol_version: str = AUTO,
    header_names: tuple[str, ...] = (),
    limits: Limits = Limits(),  # noqa: B008
) -> Capture:
    """The same over any open conversation."""
    if protocol_version not in (AUTO, *VERSIONS):
        raise UsageError(f"unknown protocol version {protocol_version!r}", where=source, fix=suggest(protocol_version, list(VERSIONS)))
    try:
        greeting = await _greet(wire, source, protocol_version)
    except WireProblem as problem:
        raise Unreachable(f"no MCP handshake: {problem.detail}", where=source, fix="check that the address is an MCP endpoint") from problem
    pages = Pages(limits)
    cursor: str | None = None
    while True:
        params = {} if cursor is None else {"cursor": cursor}
        try:
            result = await wire.request("tools/list", modern_params(params, greeting.version) if greeting.modern else params or None)
        except WireProblem as problem:
            if pages.count == 0:
                raise Unreachable(f"no tool list: {problem.detail}", where=source, fix="check that the server offers tools") from problem
            pages.fail(problem.reason, problem.detail)
            break
        cursor = pages.take(result)
        if cursor is None:
            break
    if pages.count == 0:
        raise Unreachable(f"no tool list: {pages.reason}", where=source, fix="check that the server offers tools")
    return pages.capture(source, greeting, header_names)


@dataclass(frozen=True, slots=True)
class Greeting:
    """What the other side said of itself."""

    version: str
    modern: bool
    name: str = ""
    release: str = ""
    instructions: str | None = None
    capabilities: Mapping[str, Any] = field(default_factory=dict)


class Pages:
    """Collects pages. `take` returns the next cursor, or None when the list ended or must not go on."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._seen: set[str] = set()
        self._tools: list[Tool] = []
        self._nameless = 0
        self.count = 0
        self.reason = ""

    def fail(self, reason: str, detail: str) -> None:
        self.reason = f"{reason}: {detail}"

    def take(self, result: Mapping[str, Any]) -> str | None:
        listed = result.get("tools")
        if not isinstance(listed, list):
            self.fail("malformed", "a page without a list of tools")
            return None
        self.count += 1
        for wire in listed:
            try:
                self._tools.append(Tool.from_wire(wire))
            except ValueError:
                self._nameless += 1
        if len(self._tools) > self._limits.tools:
            del self._tools[self._limits.tools :]
            self.fail("too-many-tools", f"more than {self._limits.tools} tools")
            return None
        return self._next(result.get("nextCursor"))

    def _next(self, cursor: Any) -> str | None:
        """Only null or absent ends a list: an empty string is a cursor like any other."""
        if cursor is None:
            return None
        if not isinstance(cursor, str):
            self.fail("bad-cursor", f"a cursor that is {type(cursor).__name__}, not text")
        elif cursor in self._seen:
            self.fail("cursor-loop", f"page {self.count} leads back to a cursor that was used before")
        elif self.count >= self._limits.pages:
            self.fail("too-many-pages", f"more than {self._limits.pages} pages")
        else:
            self._seen.add(cursor)
            return cursor
        return None

    def capture(self, source: str, greeting: Greeting, header_names: tuple[str, ...] = ()) -> Capture:
        counts = Counter(tool.name for tool in self._tools)
        return Capture(
            source=source,
            tools=tuple(self._tools),
            pages=self.count,
            complete=not self.reason,
            reason=self.reason,
            protocol_version=greeting.version,
            server_name=greeting.name,
            server_version=greeting.release,
            instructions=greeting.instructions,
            capabilities=greeting.capabilities,
            header_names=header_names,
            nameless=self._nameless,
            duplicates=tuple(name for name, times in counts.items() if times > 1),
            cursor_rule=_cursor_rule(greeting.version) if "" in self._seen else "",
        )


def _cursor_rule(version: str) -> str:
    if version in MODERN:
        return f"an empty cursor was followed, as {version} has it: only null or absent ends a list"
    silent = f"{version or 'this version'} does not say, so the rule of {MODERN[0]} was used"
    return f"an empty cursor was followed: {silent} (only null or absent ends a list)"


async def _greet(wire: Wire, source: str, wanted: str) -> Greeting:
    if wanted in MODERN:
        return await _discover(wire, source, wanted)
    if wanted != AUTO:
        return await _handshake(wire, source, wanted, strict=True)
    try:
        return await _discover(wire, source, MODERN[0])
    except WireProblem as problem:
        # An older server refuses the newer era in many ways; a time-out or a broken line is not one of them.
        if problem.reason not in _NOT_MODERN:
            raise
    return await _handshake(wire, source, HANDSHAKE[0], strict=False)


async def _discover(wire: Wire, source: str, version: str) -> Greeting:
    wire.agree(version)
    result = await wire.request("server/discover", modern_params(None, version))
    supported = result.get("supportedVersions")
    if not isinstance(supported, list):
        raise RpcFailure(0, "server/discover names no supported versions")
    if version not in supported:
        raise Unreachable(f"does not speak {version}, only {supported}", where=source, fix="choose one of those with --protocol")
    meta = result.get("_meta")
    info = meta.get(f"{META}serverInfo") if isinstance(meta, Mapping) else None
    return _greeting(result, info, version, modern=True)


async def _handshake(wire: Wire, source: str, version: str, *, strict: bool) -> Greeting:
    wire.agree(version)
    result = await wire.request("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT_INFO})
    offered = result.get("protocolVersion")
    if not isinstance(offered, str) or offered not in HANDSHAKE or (strict and offered != version):
        raise Unreachable(f"answered {version} with {offered!r}", where=source, fix="choose a version that it speaks with --protocol")
    wire.agree(offered)
    await wire.notify("notifications/initialized")
    return _greeting(result, result.get("serverInfo"), offered, modern=False)


def greeting_of(method: str, result: Mapping[str, Any] | None, params: Any) -> Greeting | None:
    """What a recorded answer to `initialize` or `server/discover` says; None when it is none."""
    if result is None:
        return None
    meta = result.get("_meta")
    if method == "initialize":
        version, info = result.get("protocolVersion"), result.get("serverInfo")
    else:
        asked = params.get("_meta") if isinstance(params, Mapping) else None
        version = asked.get(f"{META}protocolVersion") if isinstance(asked, Mapping) else None
        info = meta.get(f"{META}serverInfo") if isinstance(meta, Mapping) else None
    return _greeting(result, info, version if isinstance(version, str) else "", modern=method != "initialize")


def _greeting(result: Mapping[str, Any], info: Any, version: str, *, modern: bool) -> Greeting:
    info = info if isinstance(info, Mapping) else {}
    instructions, capabilities = result.get("instructions"), result.get("capabilities")
    return Greeting(
        version=version,
        modern=modern,
        name=str(info.get("name", "")),
        release=str(info.get("version", "")),
        instructions=instructions if isinstance(instructions, str) else None,
        capabilities=capabilities if isinstance(capabilities, Mapping) else {},
    )
