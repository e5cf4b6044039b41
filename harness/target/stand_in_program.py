"""A local MCP server without tools of its own: each message goes to the URL in its environment, and what comes back goes out.

So a provider's stand-in becomes a local server, and the tap in front of it still sees every call. Only the standard library: the
process is started with nothing but the keys that its template names.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

BOUND = 16 * 1024 * 1024


class Carrier:
    """One session at the far side, opened by the initialize that passes through."""

    def __init__(self, url: str, key: str) -> None:
        self._parts = urlsplit(url)
        self._key = key
        self._session = ""
        self._version = ""

    def carry(self, message: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """What the far side answers. One that cannot be had, or refuses, is an error of the provider, and no reason to end."""
        try:
            status, kind, body = self._post(message)
        except (OSError, http.client.HTTPException) as error:
            yield failure(message, f"the provider cannot be reached ({type(error).__name__})")
            return
        if status >= 400:
            yield failure(message, f"the provider answered HTTP {status}")
            return
        for answer in answers(kind, body):
            result = answer.get("result")
            if message.get("method") == "initialize" and isinstance(result, dict):
                self._version = str(result.get("protocolVersion", ""))
            yield answer

    def _post(self, message: dict[str, Any]) -> tuple[int, str, bytes]:
        connection = http.client.HTTPConnection(self._parts.hostname or "", self._parts.port, timeout=60)
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": f"Bearer {self._key}"}
        if self._session:
            headers["Mcp-Session-Id"] = self._session
        if self._version:
            headers["MCP-Protocol-Version"] = self._version
        try:
            connection.request("POST", self._parts.path or "/", json.dumps(message).encode(), headers)
            response = connection.getresponse()
            self._session = response.headers.get("mcp-session-id", self._session)
            return response.status, response.headers.get("content-type", ""), response.read(BOUND)
        finally:
            connection.close()


def answers(kind: str, body: bytes) -> Iterator[dict[str, Any]]:
    """The JSON-RPC messages of an answer, plain or as events."""
    texts = [body] if "event-stream" not in kind else [line[5:] for line in body.splitlines() if line.startswith(b"data:")]
    for text in texts:
        try:
            message = json.loads(text)
        except ValueError:
            continue
        if isinstance(message, dict):
            yield message


def failure(message: dict[str, Any], what: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message.get("id"), "error": {"code": -32001, "message": what}}


def main() -> None:
    carrier = Carrier(os.environ["STAND_IN_URL"], os.environ["STAND_IN_KEY"])
    for line in sys.stdin:
        message = json.loads(line)
        for answer in carrier.carry(message):
            if "id" in message:
                sys.stdout.write(json.dumps(answer) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
