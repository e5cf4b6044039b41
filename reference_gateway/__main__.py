"""`python -m reference_gateway`: the command line, the ready line, and the ways to end (docs/operator-api.md)."""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

MIN_TOKEN = 16
EXPERIMENTAL = ("memory_connectors",)
_ADDRESS = re.compile(r"(?P<host>[^:\[\]]+|\[[0-9a-fA-F:]+\]):(?P<port>[0-9]{1,5})")


class Usage(Exception):
    """Ends the process with 2 and one line: `error: WHAT (WHERE). FIX`."""

    def __init__(self, what: str, where: str, fix: str) -> None:
        super().__init__(f"error: {what} ({where}). {fix.rstrip('.')}")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Usage(message, "command line", "See --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m reference_gateway", description="The reference MCP tool gateway.", allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0: the system chooses, and the ready line names it")
    store = "SQLite file, or postgresql://…; also GATEWAY_STORE; without it a private temporary folder that is removed at exit"
    parser.add_argument("--store", metavar="PATH", help=store)
    parser.add_argument("--vault-key-file", metavar="FILE", help="32 bytes, mode 0600; or GATEWAY_VAULT_KEY, 64 hex digits")
    parser.add_argument("--vault-previous-key-file", metavar="FILE", help="the key before: what is still under it is brought under the present one")
    parser.add_argument(
        "--map", metavar="HOST=ADDRESS:PORT", action="append", default=[], help="development: connect to HOST (port 443) there instead"
    )
    parser.add_argument("--map-ca", metavar="FILE", help="PEM authorities trusted for mapped hosts")
    parser.add_argument("--allow-loopback", action="store_true", help="development: upstream URLs may be http:// on 127.0.0.1")
    parser.add_argument("--allow-port", metavar="PORT", type=int, action="append", default=[], help="a port besides 443 that upstream URLs may name")
    parser.add_argument("--lab", action="store_true", help="development: an operator may script what names resolve to")
    parser.add_argument("--test-clock", action="store_true", help="time moves only by POST /clock/advance")
    parser.add_argument("--experimental", metavar="NAME", action="append", default=[], help="turn on what is off by default: memory_connectors")
    parser.add_argument("--templates", metavar="FILE", help="approved commands of local servers, as JSON; nobody else may be able to write it")
    parser.add_argument("--checkpoints", metavar="FILE", help="keep signed marks of the audit log here, outside the store; needs --audit-key-file")
    parser.add_argument("--audit-key-file", metavar="FILE", help="32 bytes (an Ed25519 seed), mode 0600; without it a key is made for this process")
    parser.add_argument(
        "--audit-previous-key", metavar="KEY", action="append", default=[], help="a public key that earlier checkpoints may be signed with, base64"
    )
    parser.add_argument("--console", action="store_true", help="serve the operator console at /console/")
    parser.add_argument("--public-url", metavar="URL", help="how remote runs reach this gateway")
    parser.add_argument("--defect", metavar="NAME[=VALUE]", action="append", default=[], help="turn on one deliberate defect")
    return parser


def _mapped(words: Sequence[str]) -> dict[str, tuple[str, int]]:
    mapped: dict[str, tuple[str, int]] = {}
    for word in words:
        host, separator, address = word.partition("=")
        found = _ADDRESS.fullmatch(address)
        if not separator or found is None or not re.fullmatch(r"(\*\.)?[A-Za-z0-9.-]+", host) or not 0 < int(found["port"]) < 65536:
            raise Usage(f"cannot read {word!r}", "--map", "Write HOST=ADDRESS:PORT, for example *.example.com=127.0.0.1:8443")
        if host.lower() in mapped:
            raise Usage(f"{host} is mapped twice", "--map", "Map it once")
        mapped[host.lower()] = (found["host"].strip("[]"), int(found["port"]))
    return mapped


def _checked(argv: Sequence[str]) -> argparse.Namespace:
    from reference_gateway.defects import Defects, UnknownDefect

    found = _parser().parse_args(argv)
    found.store = found.store or os.environ.get("GATEWAY_STORE") or None
    if not 0 <= found.port < 65536:
        raise Usage(f"{found.port} is no port", "--port", "Use 0 to 65535")
    if wrong := [port for port in found.allow_port if not 0 < port < 65536]:
        raise Usage(f"{wrong[0]} is no port", "--allow-port", "Use 1 to 65535")
    if found.vault_previous_key_file is not None and found.store is None:
        raise Usage("a new store holds nothing that is under an earlier key", "--vault-previous-key-file", "Name the store with --store")
    try:
        Defects(found.defect)
    except UnknownDefect as error:
        raise Usage(str(error), "--defect", error.fix) from error
    if found.checkpoints is not None and found.audit_key_file is None:
        raise Usage("checkpoints need a key that outlives this process", "--checkpoints", "Give --audit-key-file too")
    if found.audit_previous_key and found.checkpoints is None:
        raise Usage("no checkpoints are kept that an earlier key could have signed", "--audit-previous-key", "Give --checkpoints too")
    found.map = _mapped(found.map)
    if unknown := [word for word in found.experimental if word not in EXPERIMENTAL]:
        raise Usage(f"there is no experiment {unknown[0]!r}", "--experimental", f"Use one of: {', '.join(EXPERIMENTAL)}")
    if found.public_url is not None and not re.fullmatch(r"https?://[A-Za-z0-9.\[\]:-]{1,255}(/[A-Za-z0-9._~/-]*)?", found.public_url):
        raise Usage("that is no URL of a server", "--public-url", "Write https://HOST, with a path if there is one")
    if found.map_ca is not None and not found.map:
        raise Usage("no host is mapped", "--map-ca", "Give --map too")
    if len(os.environ.get("GATEWAY_OPERATOR_TOKEN", "")) < MIN_TOKEN:
        raise Usage(f"the operator token is missing or shorter than {MIN_TOKEN} characters", "GATEWAY_OPERATOR_TOKEN", "Set it in the environment")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    try:
        found = _checked(sys.argv[1:] if argv is None else argv)
        # Only now the libraries, so that a wrong word is answered at once. They build thousands of objects that stay: no use collecting.
        gc.disable()
        from reference_gateway.serve import serve

        gc.freeze()
        gc.enable()
        return serve(found, os.environ["GATEWAY_OPERATOR_TOKEN"], os.environ.get("GATEWAY_VAULT_KEY"))
    except Usage as error:
        sys.stderr.write(f"{error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
