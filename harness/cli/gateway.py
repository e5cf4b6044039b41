"""`harness gateway`: the reference gateway as a child process, for trying things by hand."""

from __future__ import annotations

import typer

HELP = """Start the reference gateway; all further arguments are its own.

It prints one JSON line when it is ready and ends when this command does. GATEWAY_OPERATOR_TOKEN must be set (at least 16 characters).

\b
Examples:
  GATEWAY_OPERATOR_TOKEN=a-token-of-my-own harness gateway --allow-loopback
  harness gateway --port 8080 --store gateway.db
  harness gateway -- --help            its own options
"""


def gateway(context: typer.Context) -> int:
    import signal
    import subprocess
    import sys
    from types import FrameType

    from harness.errors import Unreachable

    child = subprocess.Popen([sys.executable, "-m", "reference_gateway", *context.args])

    def pass_on(number: int, frame: FrameType | None) -> None:
        child.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if code not in (0, 2):
        what = f"the gateway ended unexpectedly, with code {code}"
        raise Unreachable(what, where="python -m reference_gateway", fix="read its log above")
    return code


def register(app: typer.Typer) -> None:
    settings = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command("gateway", help=HELP, context_settings=settings)(gateway)
