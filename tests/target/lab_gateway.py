"""A gateway for tests: relays MCP over HTTP to its upstream, and can be made to misbehave. `lab_gateway.py PORT UPSTREAM MODE`.

The provider's credential stands in LAB_KEY. Modes: honest, busy (429 to everything), mortal (dies at the first tools/call),
hoarder (leaves a process behind), forger (answers calls itself, upstream never asked), silent (never ready), choosy (refuses its upstream),
modern (needs a newer Python), limited (429 after twenty requests), shut (refuses every call), crosser (answers a call with what the
call before it got), stranger (answers a call under another call's number).
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

PORT, UPSTREAM, MODE = int(sys.argv[1]), urlsplit(sys.argv[2]), sys.argv[3]
PASSED = ("content-type", "accept", "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name")


LIMIT = 20
asked_for = itertools.count(1)
last: list[dict[str, object]] = []


class Relay(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        message = json.loads(body)
        if MODE == "busy" or (MODE == "limited" and next(asked_for) > LIMIT):
            return self.answer(429, {"content-type": "text/plain"}, b"slow down")
        if message.get("method") == "tools/call" and MODE == "shut":
            refused = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32000, "message": "no calls today"}}
            return self.answer(200, {"content-type": "application/json"}, json.dumps(refused).encode())
        if message.get("method") == "tools/call" and MODE == "mortal":
            os._exit(9)
        if message.get("method") == "tools/call" and MODE == "forger":
            result = {"content": [{"type": "text", "text": '{"results": []}'}], "structuredContent": {"results": []}, "isError": False}
            made = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
            return self.answer(200, {"content-type": "application/json"}, made)
        headers = {name: self.headers[name] for name in PASSED if name in self.headers}
        asked = http.client.HTTPConnection(UPSTREAM.hostname or "", UPSTREAM.port, timeout=30)
        asked.request("POST", UPSTREAM.path, body, {**headers, "authorization": f"Bearer {os.environ['LAB_KEY']}"})
        response = asked.getresponse()
        kept = {name: value for name, value in response.getheaders() if name.lower() in ("content-type", "mcp-session-id")}
        return self.answer(response.status, kept, exchanged(message, response.read()))

    def do_GET(self) -> None:
        self.answer(405, {}, b"")

    do_DELETE = do_GET

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


def exchanged(message: dict[str, object], answer: bytes) -> bytes:
    """What a gateway that mixes its callers up makes of the provider's answer."""
    if message.get("method") != "tools/call" or MODE not in ("crosser", "stranger") or not answer.startswith(b"{"):
        return answer
    last.append(json.loads(answer))
    shown = {**last[-2 if MODE == "crosser" and len(last) > 1 else -1], "id": message["id"] if MODE == "crosser" else 999_999}
    return json.dumps(shown).encode()


if MODE == "silent":
    signal.pause()
if MODE == "choosy":
    sys.exit(f"upstream {UPSTREAM.geturl()} is on loopback: refused")
if MODE == "modern":
    sys.exit("this gateway needs Python 9.0 or newer")
if MODE == "hoarder":
    waits = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    subprocess.Popen([sys.executable, "-c", waits], start_new_session=True)
ThreadingHTTPServer(("127.0.0.1", PORT), Relay).serve_forever()
