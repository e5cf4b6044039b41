"""`harness login`: sign in at a provider through the gateway's broker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.live_options import ENV_FILE, HOME_FOLDER, REHEARSE

HELP = """Sign in at a provider that wants OAuth. The gateway's broker does it; the token stays in its vault, encrypted, below --home.

An address is printed: open it in a browser on this machine and agree. The browser comes back to a port of 127.0.0.1 that is open for
this alone. Refused consent is exit code 3.

\b
Examples:
  harness login supermemory
  harness login zep --wait 120
"""


def login(
    provider: Annotated[str, typer.Argument(metavar="PROVIDER", help="Where.")],
    wait: Annotated[float, typer.Option(min=1, help="Seconds until the browser must have come back.")] = 600.0,
    target: Annotated[str, typer.Option(help="The gateway whose broker signs in.")] = "reference",
    rehearse: REHEARSE = None,
    home: HOME_FOLDER = Path(".harness"),
    env_file: ENV_FILE = Path(".env"),
) -> int:
    import asyncio

    from harness.cli.console import say, warn
    from harness.cli.doctor import chosen_manifests
    from harness.cli.live_options import live_options
    from harness.clock import SystemClock
    from harness.engine.plan import target_for
    from harness.nightly.login import login as sign_in

    options = live_options(rehearse=rehearse, home=home, env_file=env_file)
    (manifest,) = chosen_manifests([provider])

    def show(address: str) -> None:
        warn(f"To let the gateway act for you at {manifest.title}, open this address in a browser on this machine:")
        say(address)

    work = sign_in(manifest, options, target_for(target), SystemClock(), show, wait_s=wait)
    asyncio.run(work)
    say(f"{provider} is signed in; its token is in the gateway's vault below {home}")
    return 0


def register(app: typer.Typer) -> None:
    app.command("login", help=HELP)(login)
