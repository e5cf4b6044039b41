"""What an operator, and a thief of the disk, can do to the gateway's outer side: grants' audience, the vault's key, its rows, scripted names.

Only a gateway that has it implements this; verbs that need it ask for the protocol. Of the reference gateway's store this file knows
one table, because a row that somebody moved is what its vault must notice.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import apsw

from harness.errors import HarnessError, Untestable
from harness.target.base import LaunchOptions

STORE_FILE = "gateway.sqlite"
KEY_FILE = "vault.key"

Ask = Callable[..., Awaitable[Any]]
"""Method, path below the operator API and body to the answer; raises HarnessError with `code` when it is refused."""


@dataclass(frozen=True, slots=True)
class Lead:
    """Connections to `address` and `port` end at port `to` of loopback."""

    address: str
    port: int
    to: int


@runtime_checkable
class HasOuter(Protocol):
    def outer(self) -> Outer: ...


class Outer(Protocol):
    """Every method raises HarnessError when it cannot tell."""

    async def set_audience(self, tenant: str, connection: str, audience: Sequence[str] | None) -> Mapping[str, Any]: ...
    async def rotate_key(self) -> Mapping[str, Any]: ...
    async def try_connection(self, tenant: str, url: str) -> Mapping[str, Any]:
        """A connection there and gone again: `{"answer": code}`, or `{"answer": "created"}`."""
        ...

    async def script(self, names: Mapping[str, Sequence[Sequence[str]]], leads: Sequence[Lead]) -> None: ...
    def swap_secrets(self, tenant: str, one: str, other: str) -> int: ...
    def traces(self) -> Mapping[str, bytes]:
        """Everything that the gateway wrote or is told by the system, by where it was found."""
        ...


def outer(target: object) -> Outer:
    """The target's outer side, if it can be operated so; otherwise Untestable."""
    if isinstance(target, HasOuter):
        return target.outer()
    raise Untestable("this gateway's vault and way out cannot be reached", where="target", fix="use the target reference")


def made_key(file: Path) -> None:
    """32 fresh bytes that only we can read, in the place of what was there."""
    fresh = file.with_suffix(".new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(secrets.token_bytes(32))
    fresh.replace(file)


@contextmanager
def held_folder(given: Path | None) -> Iterator[Path]:
    """A folder for a gateway's store and its vault's key: the one that is given, else a private one that is removed afterwards."""
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="reference-gateway-", ignore_cleanup_errors=True) as made:
        made_key(Path(made) / KEY_FILE)
        yield Path(made)


class ReferenceOuter:
    """`options`: what it was launched with, its store's folder among them; `pid`: its process."""

    def __init__(self, ask: Ask, options: LaunchOptions, pid: int) -> None:
        assert options.store is not None
        self._ask = ask
        self._folder = options.store
        self._log = options.work_dir / "gateway.log"
        self._pid = pid

    async def set_audience(self, tenant: str, connection: str, audience: Sequence[str] | None) -> Mapping[str, Any]:
        body = {"audience": list(audience) if audience is not None else None}
        return dict(await self._ask("PUT", f"/tenants/{tenant}/connections/{connection}/audience", body))

    async def rotate_key(self) -> Mapping[str, Any]:
        made_key(self._folder / KEY_FILE)
        return dict(await self._ask("POST", "/vault/rotate"))

    async def try_connection(self, tenant: str, url: str) -> Mapping[str, Any]:
        body = {"name": "tried", "provider": "generic", "transport": "mcp_http", "url": url, "auth": {"scheme": "none"}}
        try:
            await self._ask("POST", f"/tenants/{tenant}/connections", body, timeout=40.0)
        except HarnessError as error:
            if not getattr(error, "code", ""):
                raise
            return {"answer": getattr(error, "code", "")}
        await self._ask("DELETE", f"/tenants/{tenant}/connections/tried")
        return {"answer": "created"}

    async def script(self, names: Mapping[str, Sequence[Sequence[str]]], leads: Sequence[Lead]) -> None:
        listed = [{"address": each.address, "port": each.port, "to": each.to} for each in leads]
        scripted = {host: [list(answer) for answer in answers] for host, answers in names.items()}
        await self._ask("PUT", "/development/names", {"names": scripted, "leads": listed})

    def swap_secrets(self, tenant: str, one: str, other: str) -> int:
        """Each sealed credential of one connection lies where the other's was, and the other way round; how many rows were moved."""
        connection = apsw.Connection(str(self._folder / STORE_FILE))
        try:
            connection.set_busy_timeout(2000)
            with connection:
                rows = list(connection.execute("SELECT connection, path, version, blob FROM secrets WHERE tenant = ?", (tenant,)))
                mine = [row for row in rows if row[0] in (one, other)]
                for source, path, version, blob in mine:
                    place = (version, blob, tenant, other if source == one else one, path)
                    connection.execute("UPDATE secrets SET version = ?, blob = ? WHERE tenant = ? AND connection = ? AND path = ?", place)
        except apsw.Error as error:
            fix = "this is the reference gateway's own format"
            raise HarnessError(f"the store cannot be tampered with: {error}", where=STORE_FILE, fix=fix) from None
        finally:
            connection.close()
        return len(mine)

    def traces(self) -> Mapping[str, bytes]:
        found = {file.name: file.read_bytes() for file in sorted(self._folder.iterdir()) if file.name.startswith(STORE_FILE)}
        found["log"] = self._log.read_bytes() if self._log.is_file() else b""
        for pid in (self._pid, *_children(self._pid)):
            for what in ("environ", "cmdline"):
                found[f"process {'' if pid == self._pid else 'child '}{what}"] = _read(Path(f"/proc/{pid}/{what}"))
        return found


def _children(pid: int) -> list[int]:
    return [int(word) for word in _read(Path(f"/proc/{pid}/task/{pid}/children")).split()]


def _read(file: Path) -> bytes:
    """Nothing for a process that has ended meanwhile, or a system without /proc."""
    try:
        return file.read_bytes()
    except OSError:
        return b""
