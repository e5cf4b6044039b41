"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.headers import HELP, OPTION

PROTOCOL = Annotated[str, typer.Option(help="MCP version to speak; auto: the newest, else the handshake.")]
HEADER_ENV = Annotated[list[str] | None, typer.Option(OPTION, metavar="NAME=VARIABLE", help=HELP)]
