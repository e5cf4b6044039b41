"""The program as a function: arguments in, exit code out. Everything a user can get wrong ends in where, what and how to fix it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from typer.exceptions import TyperException

from harness.cli import (
    audit,
    bundle,
    claims,
    discover,
    doctor,
    drift,
    gate,
    gateway,
    history,
    judge,
    listing,
    login,
    merge,
    nightly,
    record,
    run,
    serve,
    spans,
    sweep,
    transparency,
)
from harness.errors import Exit, HarnessError

OVERVIEW = """Acceptance and conformance harness for MCP tool gateways and the memory providers behind them.

Scenarios drive a gateway over the wire; client, audit log and a witness at the provider must all agree.

\b
Examples:
  harness run                          every scenario, against our own stand-ins
  harness run MEM-1 tag:release        some of them
  harness run --level live --provider mem0
  harness judge reports/latest         the same verdicts again, offline
  harness drift inventories/mem0.yaml http://127.0.0.1:4001/mcp
"""

EXIT_CODES = """\b
Exit codes:
  0  accepted
  1  a scenario or contract failed
  2  usage or configuration; nothing is run if one scenario file is invalid
  3  credentials or consent missing
  4  target or provider unreachable
  5  incomplete evidence: we could not tell
  6  drift, and nothing else
Several at once: 2, then 3, 4, 1, 5, 6. The reasons are all in results.json.
"""

app = typer.Typer(
    name="harness",
    help=OVERVIEW,
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _version(asked: bool) -> None:
    if asked:
        import harness

        typer.echo(f"harness {harness.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version and exit."),
) -> None:
    """Options of the program itself; the commands have their own."""


OTHERS = (nightly, doctor, login, sweep, history, serve, spans, audit, transparency)
for module in (run, record, listing, discover, drift, judge, gate, claims, merge, bundle, gateway, *OTHERS):
    module.register(app)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit code, 0 to 6. Never raises for bad input."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    command = typer.main.get_command(app)
    try:
        code = command.main(args=arguments, prog_name="harness", standalone_mode=False)
    except HarnessError as error:
        from harness.cli.console import show_error

        show_error(error)
        return int(error.exit_code)
    except TyperException as error:
        return _misspelt(error)
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("error: interrupted", err=True)
        return int(Exit.INCOMPLETE)
    except BrokenPipeError:
        return _no_reader()
    except Exception as error:  # noqa: BLE001  # the program's edge: a fault of ours is "could not tell", not a traceback at a user
        from harness.cli.crash import report_crash

        return report_crash(error, arguments)
    return int(code or 0)


def _misspelt(error: TyperException) -> int:
    """Of the command line itself: its usage, what is wrong, where help is."""
    show = getattr(error, "show", None)
    if show is None:
        typer.echo(f"error: {error.format_message()}", err=True)
    else:
        show()
    return int(Exit.USAGE)


def _no_reader() -> int:
    """Whoever read our output went away (`| head`); say nothing more, also not while Python shuts down."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return int(Exit.INCOMPLETE)
