"""Where the vault's wrapping key comes from: a file that only its owner can read, the environment, or this process alone."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from secrets import token_bytes

from reference_gateway.errors import GatewayError

KEY_BYTES = 32
ENVIRONMENT = "GATEWAY_VAULT_KEY"

_ID_BYTES = 8
_HEX_KEY = re.compile(r"[0-9A-Fa-f]{64}")


class VaultError(GatewayError):
    """Codes: `vault_key_unusable`, `vault_key_wrong`, `vault_sealed_altered`, `vault_secret_missing`, `vault_key_fixed`."""

    def __init__(self, code: str, what: str, where: str = "", fix: str = "", *, http_status: int = 422) -> None:
        super().__init__(code, what, where=where, fix=fix, http_status=http_status)


@dataclass(frozen=True, slots=True)
class KeySource:
    """`file`: a regular file of 32 bytes; `environment`: 64 hexadecimal digits; neither: a key that nobody keeps.

    `previous_file`: the key that rows may still be under, when the key was changed while the gateway was down.
    """

    file: str | None = None
    environment: str | None = None
    previous_file: str | None = None

    def key(self) -> bytes:
        """Raises VaultError `vault_key_unusable`."""
        return load_key(self.file, self.environment)

    def candidates(self) -> Iterator[bytes]:
        """What the files hold now, the present key first: one of them may be what another process changed to. A file that cannot be read is none."""
        for file in (self.file, self.previous_file):
            if file is not None:
                with contextlib.suppress(VaultError):
                    yield load_key(file)

    def next(self) -> bytes:
        """The key to change to: what the file holds now. Raises VaultError, also where the key cannot be changed while running."""
        if self.file is None and self.environment is not None:
            raise VaultError(
                "vault_key_fixed",
                "the wrapping key came from the environment, which does not change while the gateway runs",
                ENVIRONMENT,
                "start with --vault-key-file and, once, --vault-previous-key-file",
                http_status=409,
            )
        return load_key(self.file)


def load_key(file: str | None, environment: str | None = None) -> bytes:
    """The vault's key: from the file, else from the value of GATEWAY_VAULT_KEY, else made for this process only.

    The file must be a regular file of exactly 32 bytes, readable by its owner alone. Raises VaultError `vault_key_unusable`.
    """
    if file is not None:
        return _key_from_file(file)
    if environment is not None:
        if not _HEX_KEY.fullmatch(environment):
            raise VaultError("vault_key_unusable", "the vault key is not 64 hexadecimal digits", ENVIRONMENT, "set 64 hexadecimal digits")
        return bytes.fromhex(environment)
    return token_bytes(KEY_BYTES)


def key_id(key: bytes) -> str:
    """Tells keys apart and says nothing about them: 16 hexadecimal digits of a hash that nothing else is made with."""
    return hashlib.sha256(b"vault key id\0" + key).hexdigest()[: 2 * _ID_BYTES]


def _key_from_file(file: str) -> bytes:
    try:
        # Judged and read through one descriptor, so that the file cannot be exchanged in between.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or "not a file name"
        raise VaultError("vault_key_unusable", f"the key file cannot be opened: {what}", file, "name a regular file of 32 bytes") from error
    try:
        check_status(os.fstat(descriptor), file)
        key = os.read(descriptor, KEY_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(key) != KEY_BYTES:
        size = f"{len(key)} bytes" if len(key) < KEY_BYTES else f"more than {KEY_BYTES} bytes"
        raise VaultError("vault_key_unusable", f"the key file holds {size}, not {KEY_BYTES}", file, f"write {KEY_BYTES} random bytes")
    return key


def check_status(status: os.stat_result, file: str) -> None:
    """Whether an opened file is kept as a key must be; raises VaultError `vault_key_unusable`."""
    if not stat.S_ISREG(status.st_mode):
        raise VaultError("vault_key_unusable", "the key file is not a regular file", file, "name a regular file of 32 bytes")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise VaultError("vault_key_unusable", f"the key file has mode {mode:04o}: others may use it", file, "chmod 0600 the file")
    if status.st_uid != os.geteuid():
        raise VaultError("vault_key_unusable", "the key file is another user's", file, "chown it to the gateway's user")
