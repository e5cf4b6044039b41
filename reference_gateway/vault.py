"""The vault: credentials at rest, AES-256-GCM, each bound to where it belongs.

The additional data is tenant, connection, grant, path and version, so a ciphertext moved to another row, another tenant or another
grant does not open. Nothing here prints, logs or puts a secret into an exception.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from secrets import token_bytes

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from reference_gateway.canonical import canonical_bytes
from reference_gateway.errors import GatewayError
from reference_gateway.store.base import Store

KEY_BYTES = 32
ENVIRONMENT = "GATEWAY_VAULT_KEY"

_MAGIC = b"gv1"
_KEY_ID_BYTES = 8
_NONCE_BYTES = 12
_HEX_KEY = re.compile(r"[0-9A-Fa-f]{64}")


class VaultError(GatewayError):
    """Codes: `vault_key_unusable`, `vault_key_wrong`, `vault_sealed_altered`, `vault_secret_missing`."""

    def __init__(self, code: str, what: str, where: str = "", fix: str = "") -> None:
        super().__init__(code, what, where=where, fix=fix)


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


def _key_from_file(file: str) -> bytes:
    try:
        # Judged and read through one descriptor, so that the file cannot be exchanged in between.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or "not a file name"
        raise VaultError("vault_key_unusable", f"the vault key file cannot be opened: {what}", file, "name a regular file of 32 bytes") from error
    try:
        check_status(os.fstat(descriptor), file)
        key = os.read(descriptor, KEY_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(key) != KEY_BYTES:
        size = f"{len(key)} bytes" if len(key) < KEY_BYTES else f"more than {KEY_BYTES} bytes"
        raise VaultError("vault_key_unusable", f"the vault key file holds {size}, not {KEY_BYTES}", file, f"write {KEY_BYTES} random bytes")
    return key


def check_status(status: os.stat_result, file: str) -> None:
    """Whether an opened file is kept as a key must be; raises VaultError `vault_key_unusable`."""
    if not stat.S_ISREG(status.st_mode):
        raise VaultError("vault_key_unusable", "the vault key file is not a regular file", file, "name a regular file of 32 bytes")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise VaultError("vault_key_unusable", f"the vault key file has mode {mode:04o}: others may use it", file, "chmod 0600 the file")
    if status.st_uid != os.geteuid():
        raise VaultError("vault_key_unusable", "the vault key file is another user's", file, "chown it to the gateway's user")


class Vault:
    """Sealed credentials in a store. `grant` is the grant's own stable text (see `grant.Grant.key`)."""

    def __init__(self, key: bytes, store: Store) -> None:
        if len(key) != KEY_BYTES:
            raise VaultError("vault_key_unusable", f"a vault key has {KEY_BYTES} bytes", fix=f"give {KEY_BYTES} bytes")
        self._cipher = AESGCM(key)
        self._header = _MAGIC + hashlib.sha256(b"vault key id\0" + key).digest()[:_KEY_ID_BYTES]
        self._store = store

    def put(self, tenant: str, connection: str, grant: str, path: str, secret: str) -> int:
        """Seals and stores; returns the version, which no earlier secret of this path ever had."""
        with self._store.transaction():
            version = self._store.secret_next_version(tenant, connection, path)
            nonce = token_bytes(_NONCE_BYTES)
            sealed = self._cipher.encrypt(nonce, secret.encode(), self._bound(tenant, connection, grant, path, version))
            self._store.secret_put(tenant, connection, path, version, self._header + nonce + sealed)
        return version

    def get(self, tenant: str, connection: str, grant: str, path: str) -> str:
        """Raises VaultError: `vault_secret_missing`, `vault_key_wrong` (sealed under another key) or `vault_sealed_altered`."""
        where = f"{tenant}/{connection} {path}"
        found = self._store.secret_get(tenant, connection, path)
        if found is None:
            raise VaultError("vault_secret_missing", "there is no such credential", where, "create the connection again with its credentials")
        version, blob = found
        if not blob.startswith(self._header):
            known = blob.startswith(_MAGIC)
            raise VaultError(
                "vault_key_wrong" if known else "vault_sealed_altered",
                "the credential was sealed under another key, or altered",
                where,
                "start the gateway with the key it was stored under, or create the connection again",
            )
        nonce, sealed = blob[len(self._header) :][:_NONCE_BYTES], blob[len(self._header) + _NONCE_BYTES :]
        try:
            return self._cipher.decrypt(nonce, sealed, self._bound(tenant, connection, grant, path, version)).decode()
        except (InvalidTag, ValueError) as error:
            raise VaultError(
                "vault_sealed_altered",
                "the stored credential is not what was sealed for this place",
                where,
                "restore the store, or create the connection again",
            ) from error

    def version(self, tenant: str, connection: str, path: str) -> int:
        """Of the stored secret; 0 when there is none."""
        found = self._store.secret_get(tenant, connection, path)
        return found[0] if found is not None else 0

    def delete(self, tenant: str, connection: str) -> int:
        """Removes every secret of the connection; returns how many."""
        return self._store.secrets_delete(tenant, connection)

    def _bound(self, *place: str | int) -> bytes:
        return self._header + canonical_bytes(list(place))
