"""What the suite starts as the client under test: hands its URL and environment to the runner, where the client waits ready-made.

The suite starts all its scenarios at once. A whole gateway's modules loaded that often would cost minutes, and the suite's timings (how long
after a broken stream the client comes back) would measure the machine. Run as `python -I -S hand_over.py SOCKET URL`.
"""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as _channel:
    _channel.connect(sys.argv[1])
    _given = {name: value for name, value in os.environ.items() if name.startswith("MCP_CONFORMANCE_")}
    _channel.sendall(json.dumps({"url": sys.argv[-1], "environment": _given}).encode() + b"\n")
    with _channel.makefile("rb") as _answers:
        _answer = json.loads(_answers.readline() or b'{"code":1,"said":"the runner is gone"}')
sys.stderr.write(_answer["said"])
sys.exit(_answer["code"])
