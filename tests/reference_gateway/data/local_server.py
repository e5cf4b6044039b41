"""A local MCP server of a few lines, for tests: it answers, fails, greets, floods, dies, and tells what it knows of its surroundings."""

import json
import os
import sys

TOOLS = ["get_echo", "get_environment", "get_error", "get_failure", "get_flood", "get_death", "get_nothing"]


def answer(message: dict) -> dict | None:
    method, params = message.get("method"), message.get("params") or {}
    if method == "initialize":
        if os.environ.get("SERVER_MODE") == "stillborn":
            os._exit(3)
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "local", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    return called(params["name"], params.get("arguments") or {})


def called(name: str, arguments: dict) -> dict | None:
    if name == "get_death":
        os._exit(9)
    if name == "get_nothing":
        return None
    if name == "get_error":
        raise ValueError("no")
    if name == "get_flood":
        sys.stdout.write("x" * int(arguments["n"]) + "\n")
        return None
    seen = {"keys": sorted(os.environ), "key": os.environ.get("SERVER_KEY"), "cwd": os.listdir("."), "group": os.getpgrp() == os.getpid()}
    text = json.dumps(seen if name == "get_environment" else arguments)
    return {"content": [{"type": "text", "text": text}], "isError": name == "get_failure"}


def main() -> None:
    sys.stdout.write("welcome to a server that greets\n[1]\n\n")
    sys.stderr.write(f"starting with {os.environ.get('SERVER_KEY')}\n")
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        try:
            result = answer(message)
            if result is None:
                sys.stdout.flush()
                continue
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        except ValueError:
            reply = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32050, "message": "refused", "data": {"why": "no"}}}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


main()
