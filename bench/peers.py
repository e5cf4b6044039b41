"""Other ways to put something between an agent and a provider, to stand beside the gateway in the same run: they relay, and govern nothing.

`python -m bench.peers URL TOKEN` is the SDK's own server in front of one kept session of the SDK's client for each protocol era.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import uvicorn
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from bench.processes import Broken, Child, end, server
from harness.target.installed import installation

READY_S = 60.0


@contextmanager
def sdk_proxy(url: str, token: str) -> Iterator[tuple[Child, str]]:
    with server("bench.peers", url, token) as child:
        yield child, str(child.ready["url"])


@contextmanager
def fastmcp_proxy(url: str, token: str) -> Iterator[tuple[Child, str]]:
    """FastMCP's, as its own command makes one from a configuration file; installed on first use. Raises Broken."""
    installed = installation("fastmcp", "fastmcp")
    if not installed.is_current():
        with ThreadPoolExecutor(1) as pool:  # the caller may have a loop of its own
            pool.submit(lambda: asyncio.run(installed.ensure(lambda text: None))).result()
    with tempfile.TemporaryDirectory() as home:
        config = Path(home) / "mcp.json"
        remote = {"url": url, "transport": "http", "headers": {"Authorization": f"Bearer {token}"}}
        config.write_text(json.dumps({"mcpServers": {"mem0": remote}}), encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        words = [str(installed.home / "bin" / "fastmcp"), "run", str(config), "--transport", "http", "--host", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(
            [*words, "--path", "/mcp", "--no-banner", "--log-level", "ERROR"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", ""), "HOME": home, "FASTMCP_CHECK_FOR_UPDATES": "off"},
        )  # fmt: skip
        try:
            _accepting(process, port)
            yield Child(process, {}, 0.0), f"http://127.0.0.1:{port}/mcp"
        finally:
            end(process)


def _accepting(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise Broken(f"fastmcp ended with code {process.returncode}")


async def _serve(url: str, token: str) -> None:
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, trust_env=False, timeout=30))
        sessions: dict[bool, ClientSession] = {}
        for modern in (True, False):
            read, write = await stack.enter_async_context(streamable_http_client(url, http_client=http))
            session = await stack.enter_async_context(ClientSession(read, write))
            if modern:
                session.adopt(
                    types.DiscoverResult(
                        supported_versions=list(MODERN_PROTOCOL_VERSIONS), capabilities=types.ServerCapabilities(), ttl_ms=0, cache_scope="private"
                    )
                )
            else:
                await session.initialize()
            await session.list_tools()
            sessions[modern] = session

        async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
            return await sessions[ctx.protocol_version in MODERN_PROTOCOL_VERSIONS].list_tools()

        async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> Any:
            return await sessions[ctx.protocol_version in MODERN_PROTOCOL_VERSIONS].call_tool(params.name, params.arguments or {})

        proxy: Server[Any] = Server("sdk-proxy", on_list_tools=list_tools, on_call_tool=call_tool, get_tool_input_schema=lambda name: None)
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        serving = uvicorn.Server(uvicorn.Config(proxy.streamable_http_app(), http="h11", ws="none", log_level="error"))
        running = asyncio.ensure_future(serving.serve(sockets=[listener]))
        while not serving.started:
            await asyncio.sleep(0.01)
        sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"}) + "\n")
        sys.stdout.flush()
        await running


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(sys.argv[1], sys.argv[2]))
