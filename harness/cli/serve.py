"""`harness serve`: runs and history in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HELP = """Browse runs and their history in a browser, read-only, on this machine only.

Prints the address and serves until it is interrupted. Nothing is written, and nothing but reports is shown.

\b
Examples:
  harness serve reports
  harness serve reports --port 8080
"""

EPILOG = "Exit codes: 0 you ended it; 2 no such folder, or the port is taken."


def serve(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where runs are, such as reports.")] = Path("reports"),
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="0 takes a free one.")] = 0,
) -> int:
    import contextlib
    import socket

    import uvicorn

    from harness.cli.console import say
    from harness.errors import UsageError
    from harness.serve.app import application
    from harness.serve.shelf import Shelf

    shelf = Shelf(folder)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        listener.close()
        raise UsageError(f"cannot listen: {error.strerror}", where=f"127.0.0.1:{port}", fix="name another --port, or 0 for a free one") from error
    bound = listener.getsockname()[1]
    app = application(shelf, frozenset({f"127.0.0.1:{bound}", f"localhost:{bound}"}))
    say(f"http://127.0.0.1:{bound}/")
    config = uvicorn.Config(app, log_level="warning", http="h11", ws="none", lifespan="off", access_log=False)
    with contextlib.suppress(KeyboardInterrupt):  # the way this command is meant to end
        uvicorn.Server(config).run(sockets=[listener])
    return 0


def register(app: typer.Typer) -> None:
    app.command("serve", help=HELP, epilog=EPILOG)(serve)
