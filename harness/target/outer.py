"""What an operator, and a thief of the disk, can do to the gateway's outer side: grants' audience, the vault's key, its rows, scripted names.

Only a gateway that has it implements this; verbs that need it ask for the protocol. Its stored rows are in `rows.py`.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from harness.errors import HarnessError, Untestable, UsageError
from harness.target.base import LaunchOptions
from harness.target.reference_log import KEY_FILE as AUDIT_KEY_FILE
from harness.target.rows import SHARED_KEY, rows_of

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
    def spoil_policies(self, tenant: str) -> None: ...
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


def key_file(folder: Path) -> Path:
    """Of the wrapping key of the gateway whose folder this is: its own, or the one that all who share a database share."""
    return Path(os.environ[SHARED_KEY]) if SHARED_KEY in os.environ else folder / KEY_FILE


def previous_key(file: Path) -> Path:
    """What a shared key was before it was changed last."""
    return file.with_suffix(".before")


@contextmanager
def held_folder(given: Path | None) -> Iterator[Path]:
    """A folder for a gateway's store and its keys: the one that is given, else a private one that is removed afterwards."""
    if given is not None:
        _audit_key(given / AUDIT_KEY_FILE)
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="reference-gateway-", ignore_cleanup_errors=True) as made:
        made_key(Path(made) / KEY_FILE)
        made_key(Path(made) / AUDIT_KEY_FILE)
        yield Path(made)


def _audit_key(file: Path) -> None:
    """One as long as the store lives, because its checkpoints outlive the gateway too. Raises UsageError."""
    try:
        if not file.exists():
            made_key(file)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=str(file), fix="name a writable folder with --home") from error


class ReferenceOuter:
    """`options`: what it was launched with, its store's folder among them; `pid`: its process."""

    def __init__(self, ask: Ask, options: LaunchOptions, pid: int) -> None:
        assert options.store is not None
        self._ask = ask
        self._key = key_file(options.store)
        self._rows = rows_of(options.store)
        self._log = options.work_dir / "gateway.log"
        self._pid = pid

    async def set_audience(self, tenant: str, connection: str, audience: Sequence[str] | None) -> Mapping[str, Any]:
        body = {"audience": list(audience) if audience is not None else None}
        return dict(await self._ask("PUT", f"/tenants/{tenant}/connections/{connection}/audience", body))

    async def rotate_key(self) -> Mapping[str, Any]:
        # One rotation at a time, whoever else shares the key: the file must still hold what the gateway is told to change to.
        with self._key.with_suffix(".turn").open("w") as turn:
            await asyncio.to_thread(fcntl.flock, turn, fcntl.LOCK_EX)
            if SHARED_KEY in os.environ:
                shutil.copy2(self._key, previous_key(self._key))
            made_key(self._key)
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
        return self._rows.swap_secrets(tenant, one, other)

    def spoil_policies(self, tenant: str) -> None:
        self._rows.spoil_policies(tenant)

    def traces(self) -> Mapping[str, bytes]:
        found = dict(self._rows.traces())
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
