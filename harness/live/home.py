"""The folder that outlives a gateway: its store, and the key that seals the tokens in it. Nobody but the gateway opens either."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from harness.errors import UsageError
from harness.live.options import signed_in

TENANT = "live"
STORE = "gateway.sqlite"
KEY = "vault.key"
KEY_BYTES = 32
_FIX = "name a writable folder with --home"


def prepare(home: Path) -> Path:
    """Make the folder (mode 0700) and the vault's key (0600), if they are not there yet. Raises UsageError."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = home / KEY
        if not key.exists():
            _write_new(key, secrets.token_bytes(KEY_BYTES))
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror or error}", where=str(home), fix=_FIX) from error
    return home


def _write_new(path: Path, content: bytes) -> None:
    """Whole or not at all, and never over what is there: another process may have been first, whose key then counts."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return
    finally:
        temporary.unlink(missing_ok=True)


def note_signed_in(home: Path, provider: str, at: str | None) -> None:
    """Write down that a provider is signed in since `at`, or (None) no longer. Raises UsageError."""
    known = dict(signed_in(home))
    if at is None:
        known.pop(provider, None)
    else:
        known[provider] = at
    _replace(home / "signed-in.json", known)


def _replace(path: Path, content: Mapping[str, str]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UsageError(f"cannot be written: {error.strerror or error}", where=str(path), fix=_FIX) from error
