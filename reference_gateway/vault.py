"""The vault: credentials at rest, AES-256-GCM in two layers, each bound to where it belongs.

Every secret is sealed under a data key of its own, and the data key under the wrapping key, which alone comes from outside. So the
wrapping key can change without any secret being opened. The additional data of a secret is tenant, connection, grant, path and
version: a ciphertext moved to another row, tenant or grant does not open. Nothing here prints, logs or puts a secret into an exception.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from secrets import token_bytes

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from reference_gateway.canonical import canonical_bytes
from reference_gateway.defects import Defects
from reference_gateway.log import logger
from reference_gateway.store.base import Store
from reference_gateway.vault_key import ENVIRONMENT, KEY_BYTES, KeySource, VaultError, check_status, key_id, load_key

log = logger("vault")

__all__ = ["ENVIRONMENT", "KEY_BYTES", "KeySource", "Rotation", "Vault", "VaultError", "check_status", "load_key", "opened_vault"]

MAX_OPENED = 4096

_MAGIC = b"gv2"
_ID_BYTES = 8
_NONCE_BYTES = 12
_WRAPPED_BYTES = KEY_BYTES + 16
_HEADER_BYTES = len(_MAGIC) + _ID_BYTES
_PRESENT = "vault:present"
"""The setting that names the key of the last rotation, so that no process goes on sealing under an older one."""
_NAME_IT = "write the present key into --vault-key-file of every gateway on this store"


@dataclass(frozen=True, slots=True)
class Rotation:
    """What changing the wrapping key did: how many secrets of which tenant, and the ids (16 hex digits) of both keys."""

    secrets: Mapping[str, int]
    before: str
    after: str


class _Wrapping:
    """One wrapping key, known by its id: enough to tell which key a row was sealed under, and nothing about the key."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise VaultError("vault_key_unusable", f"a vault key has {KEY_BYTES} bytes", fix=f"give {KEY_BYTES} bytes")
        self._cipher = AESGCM(key)
        self.id = key_id(key)
        self.header = _MAGIC + bytes.fromhex(self.id)

    def wrap(self, data_key: bytes, row: bytes) -> bytes:
        nonce = token_bytes(_NONCE_BYTES)
        return self.header + nonce + self._cipher.encrypt(nonce, data_key, self.header + row)

    def unwrap(self, wrapped: bytes, row: bytes) -> bytes:
        """Raises InvalidTag."""
        nonce, sealed = wrapped[_HEADER_BYTES:][:_NONCE_BYTES], wrapped[_HEADER_BYTES + _NONCE_BYTES :]
        return self._cipher.decrypt(nonce, sealed, self.header + row)


class Vault:
    """Sealed credentials in a store. `grant` is the grant's own stable text (see `grant.Grant.key`)."""

    def __init__(self, key: bytes, store: Store, *, defects: Defects | None = None, keys: KeySource | None = None) -> None:
        """`keys`: where to look when another process on the same store has changed the wrapping key."""
        self._wrapping = _Wrapping(key)
        self._keys = keys
        self._store = store
        self._defects = defects or Defects()
        self._opened: dict[tuple[str, str, str, str], tuple[int, bytes]] = {}
        """Sealed rows that could be opened, as they are stored; no secret is kept."""

    @property
    def key_id(self) -> str:
        """Of the wrapping key, 16 hexadecimal digits; safe to show."""
        return self._wrapping.id

    def put(self, tenant: str, connection: str, grant: str, path: str, secret: str) -> int:
        """Seals and stores; returns the version, which no earlier secret of this path ever had."""
        with self._store.transaction():
            if not self._up_to_date():
                where = f"{tenant}/{connection} {path}"
                raise VaultError("vault_key_wrong", "the wrapping key was changed elsewhere", where, _NAME_IT, http_status=409)
            version = self._store.secret_next_version(tenant, connection, path)
            data_key, nonce = AESGCM.generate_key(bit_length=8 * KEY_BYTES), token_bytes(_NONCE_BYTES)
            sealed = AESGCM(data_key).encrypt(nonce, secret.encode(), self._bound(tenant, connection, grant, path, version))
            wrapped = self._wrapping.wrap(data_key, self._bound(tenant, connection, path, version))
            self._store.secret_put(tenant, connection, path, version, wrapped + nonce + sealed)
            if "leak-to-store" in self._defects:
                self._store.setting_put(tenant, f"debug:{connection}:{path}", {"value": secret})
        return version

    def get(self, tenant: str, connection: str, grant: str, path: str) -> str:
        """Raises VaultError: `vault_secret_missing`, `vault_key_wrong` (sealed under another key) or `vault_sealed_altered`."""
        where = f"{tenant}/{connection} {path}"
        if "personal-path-prefixed-twice" in self._defects and grant.startswith('["personal"'):
            path = f"personal.{path}"
        found = self._store.secret_get(tenant, connection, path)
        if found is None:
            raise VaultError("vault_secret_missing", "there is no such credential", where, "create the connection again with its credentials")
        version, blob = found
        if blob.startswith(_MAGIC) and not blob.startswith(self._wrapping.header):
            self._follow(blob[len(_MAGIC) : _HEADER_BYTES].hex())
        try:
            wrapped, nonce, sealed = _parts(blob, self._wrapping, where)
            data_key = self._wrapping.unwrap(wrapped, self._bound(tenant, connection, path, version))
            secret = AESGCM(data_key).decrypt(nonce, sealed, self._bound(tenant, connection, grant, path, version)).decode()
        except (InvalidTag, ValueError) as error:
            raise _altered(where) from error
        if "leak-to-log" in self._defects:
            log.warning("credential_opened", where=where, value=secret)
        return secret

    def check(self, tenant: str, connection: str, grant: str, path: str) -> None:
        """As `get`, without the secret; a row that was opened before and is still the same, byte for byte, is not opened again."""
        place = (tenant, connection, grant, path)
        found = self._store.secret_get(tenant, connection, path)
        if found is not None and self._opened.get(place) == found:
            return
        self.get(*place)
        if found is not None:
            if len(self._opened) >= MAX_OPENED:
                self._opened.clear()
            self._opened[place] = found

    def version(self, tenant: str, connection: str, path: str) -> int:
        """Of the stored secret; 0 when there is none."""
        found = self._store.secret_get(tenant, connection, path)
        return found[0] if found is not None else 0

    def delete(self, tenant: str, connection: str) -> int:
        """Removes every secret of the connection; returns how many."""
        return self._store.secrets_delete(tenant, connection)

    def rotate(self, key: bytes) -> Rotation:
        """From now on `key` is the wrapping key. Raises as `rotating`."""
        with self.rotating(key) as done:
            return done

    @contextmanager
    def rotating(self, key: bytes) -> Iterator[Rotation]:
        """`key` becomes the wrapping key: every data key is wrapped anew, in one transaction with what is done in the block.

        No secret is opened. Rows that are already under `key` are checked and left. Raises VaultError when one row cannot be opened;
        then, as whenever the transaction fails, nothing has changed.
        """
        new, counts = _Wrapping(key), Counter[str]()
        with self._store.transaction():
            self._up_to_date()
            for tenant, connection, path, version, blob in self._store.secrets():
                where, row = f"{tenant}/{connection} {path}", self._bound(tenant, connection, path, version)
                under = new if blob.startswith(new.header) else self._wrapping
                try:
                    wrapped, nonce, sealed = _parts(blob, under, where)
                    data_key = under.unwrap(wrapped, row)
                except InvalidTag as error:
                    raise _altered(where) from error
                if under is not new:
                    self._store.secret_put(tenant, connection, path, version, new.wrap(data_key, row) + nonce + sealed)
                    counts[tenant] += 1
            self._store.setting_put("", _PRESENT, {"key": new.id})
            yield Rotation(dict(counts), self._wrapping.id, new.id)
        self._wrapping = new
        self._opened.clear()

    def _up_to_date(self) -> bool:
        """Whether our key is that of the last rotation, whoever made it; after looking where keys come from."""
        present = self._store.setting_get("", _PRESENT)
        return present is None or present["key"] == self.key_id or self._follow(str(present["key"]))

    def _follow(self, wanted: str) -> bool:
        """Another process on this store changed the key: take over the one of this id, if it is where keys come from."""
        for key in self._keys.candidates() if self._keys is not None else ():
            if key_id(key) == wanted:
                self._wrapping = _Wrapping(key)
                return True
        return False

    def _bound(self, *place: str | int) -> bytes:
        """The additional data: where a ciphertext belongs, unambiguously."""
        return _MAGIC if "vault-aad-ignored" in self._defects else _place(place)


@lru_cache(maxsize=1024)
def _place(place: tuple[str | int, ...]) -> bytes:
    """Names only, and asked for at every call."""
    return _MAGIC + canonical_bytes(list(place))


def opened_vault(keys: KeySource, store: Store, defects: Defects | None = None) -> Vault:
    """With rows that are still under the previous key brought under the present one. Raises VaultError; then nothing has changed."""
    key = keys.key()
    if keys.previous_file is None:
        return Vault(key, store, defects=defects, keys=keys)
    vault = Vault(load_key(keys.previous_file), store, defects=defects, keys=keys)
    vault.rotate(key)
    return vault


def _parts(blob: bytes, wrapping: _Wrapping, where: str) -> tuple[bytes, bytes, bytes]:
    """(wrapped data key, nonce, sealed secret). Raises VaultError for a row that another key sealed, or that no vault wrote."""
    if not blob.startswith(wrapping.header):
        raise VaultError(
            "vault_key_wrong" if blob.startswith(_MAGIC) else "vault_sealed_altered",
            "the credential was sealed under another key, or altered",
            where,
            "name the key it was stored under (with --vault-previous-key-file, if it was changed), or create the connection again",
        )
    end = _HEADER_BYTES + _NONCE_BYTES + _WRAPPED_BYTES
    if len(blob) < end + _NONCE_BYTES:
        raise _altered(where)
    return blob[:end], blob[end:][:_NONCE_BYTES], blob[end + _NONCE_BYTES :]


def _altered(where: str) -> VaultError:
    what = "the stored credential is not what was sealed for this place"
    return VaultError("vault_sealed_altered", what, where, "restore the store, or create the connection again")
