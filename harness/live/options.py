"""What a live run was allowed and told; secrets are in it, and in no text made of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from harness.errors import LoadError, UsageError
from harness.live.budget import Budget

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
HOME = Path(".harness")
"""Where the gateway of live runs keeps its store; `harness login` puts tokens there, encrypted, and nothing else ever reads them."""


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """`environment`: variables by name, `.env` under them. `rehearse`: provider → loopback address of a stand-in that plays its host.

    `home`: where the gateway keeps what `harness login` put there.
    """

    allow_write: bool = False
    budget: Budget = field(default_factory=Budget)
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    rehearse: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    home: Path = HOME

    @property
    def rehearsed(self) -> bool:
        return bool(self.rehearse)


def read_environment(path: Path, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The process's environment, and what `path` (a `.env`, if there is one) sets beside it. Nothing is put into the environment itself.

    Lines are NAME=VALUE, `export ` before and quotes around the value allowed, `#` begins a comment line. Raises LoadError.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return MappingProxyType(dict(environ))
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"cannot be read: {error}", where=str(path), fix="make it a readable UTF-8 file, or remove it") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        if not equals or not NAME.fullmatch(name.strip()):  # the line itself may hold a secret, so it is not shown
            raise LoadError("not NAME=VALUE", where=f"{path}:{number}:1", fix="write one variable a line, or begin the line with #")
        value = value.strip()
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
        found[name.strip()] = value[1:-1] if quoted else value
    return MappingProxyType({**found, **environ})


def read_rehearsal(given: list[str] | tuple[str, ...]) -> Mapping[str, str]:
    """`PROVIDER=http://127.0.0.1:PORT` each, with the stand-in's path where the provider itself has none.

    Raises UsageError; nothing but loopback can play a provider.
    """
    found: dict[str, str] = {}
    for pair in given:
        provider, equals, address = pair.partition("=")
        parts = urlsplit(address)
        try:
            port = parts.port
        except ValueError:
            port = None
        plain = parts.scheme == "http" and parts.hostname == "127.0.0.1" and port and not (parts.query or parts.fragment)
        if not (provider and equals and plain):
            fix = "for example: --rehearse mem0=http://127.0.0.1:4001"
            raise UsageError(f"{pair!r} is not PROVIDER=http://127.0.0.1:PORT[/PATH]", where="--rehearse", fix=fix)
        if provider in found:
            raise UsageError(f"{provider} is rehearsed twice", where="--rehearse", fix="name each provider once")
        found[provider] = f"http://127.0.0.1:{port}{parts.path.rstrip('/')}"
    return MappingProxyType(found)


def signed_in(home: Path) -> Mapping[str, str]:
    """Provider → when it was signed in, as `harness login` noted it. No secret is in this file. Raises LoadError when it is no such file."""
    path = home / "signed-in.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return MappingProxyType({})
    except (OSError, ValueError) as error:
        raise LoadError(f"cannot be read: {error}", where=str(path), fix="remove it and run harness login again") from error
    if not isinstance(found, dict) or not all(isinstance(at, str) for at in found.values()):
        raise LoadError("not a list of providers that are signed in", where=str(path), fix="remove it and run harness login again")
    return MappingProxyType(found)
