"""Sealed rows with a bit flipped, cut short, or moved: none of them opens, before and after the wrapping key was changed."""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_bytes

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from reference_gateway.defects import Defects
from reference_gateway.grant import Grant
from reference_gateway.store.sqlite import SqliteStore
from reference_gateway.vault import KEY_BYTES, Vault, VaultError
from torture.figures import Figures, Scale

SEED = 20261130
Place = tuple[str, str, str, str]
Open = Callable[[Place], str | None]

ORGANIZATION = Grant("organization").key
PLACES: tuple[Place, ...] = tuple(
    (tenant, connection, grant, path)
    for tenant in ("t1", "t2")
    for connection, grant in (("mem0", ORGANIZATION), ("zep", Grant("personal", "user-1").key), ("honcho", Grant("personal", "user-2").key))
    for path in ("credentials.authorization", "env.COGNEE_API_KEY")
)


def opened(vault: Vault, place: Place) -> str | None:
    """None when it is refused, as it has to be."""
    try:
        return vault.get(*place)
    except VaultError:
        return None


def flips(store: SqliteStore, opens: Open, count: int, rng: random.Random) -> int:
    """How many of `count` flipped bits, in rows of every place, still gave a secret."""
    taken = 0
    for _ in range(count):
        place = rng.choice(PLACES)
        found = store.secret_get(place[0], place[1], place[3])
        assert found is not None
        version, blob = found
        bit = rng.randrange(len(blob) * 8)
        forged = bytearray(blob)
        forged[bit // 8] ^= 1 << bit % 8
        store.secret_put(place[0], place[1], place[3], version, bytes(forged))
        taken += opens(place) is not None
        store.secret_put(place[0], place[1], place[3], version, blob)
    return taken


def moves(store: SqliteStore, opens: Open) -> tuple[int, int]:
    """Every row in every other place, under another version, and cut at every length: how many were tried, how many gave a secret."""
    rows = {place: found for place in PLACES if (found := store.secret_get(place[0], place[1], place[3])) is not None}
    forged = [(to, rows[came][0], rows[came][1]) for came, to in itertools.permutations(PLACES, 2)]
    forged += [(place, version + more, blob) for place, (version, blob) in rows.items() for more in (-1, 1, 2, 2**31)]
    forged += [(place, version, blob[:cut]) for place, (version, blob) in rows.items() for cut in range(0, len(blob), 3)]
    taken = 0
    for to, version, blob in forged:
        store.secret_put(to[0], to[1], to[3], version, blob)
        taken += opens(to) is not None
        store.secret_put(to[0], to[1], to[3], *rows[to])
    return len(forged), taken


class Unauthenticated:
    """The control: the same secrets, enciphered and not sealed, as AES in counter mode does it."""

    def __init__(self, key: bytes, store: SqliteStore) -> None:
        self._key, self._store = key, store

    def _pass(self, nonce: bytes, text: bytes) -> bytes:
        worker = Cipher(algorithms.AES(self._key), modes.CTR(nonce)).encryptor()
        return worker.update(text) + worker.finalize()

    def put(self, place: Place, secret: str) -> None:
        nonce = token_bytes(16)
        self._store.secret_put(place[0], place[1], place[3], 1, nonce + self._pass(nonce, secret.encode()))

    def get(self, place: Place) -> str | None:
        found = self._store.secret_get(place[0], place[1], place[3])
        return self._pass(found[1][:16], found[1][16:]).decode("latin-1") if found is not None else None


def run(scale: Scale) -> list[Figures]:
    rng = random.Random(SEED)
    count = 10_000 if scale == "full" else 500
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_stores:
        # One each: a vault does not seal in a store whose key is another one's.
        return _tried([open_stores.enter_context(_store(Path(folder) / f"vault-{number}.sqlite")) for number in range(3)], count, rng)


@contextmanager
def _store(file: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(file)
    store.open()
    try:
        with store.transaction():  # one commit for all: what is tried is the vault
            yield store
    finally:
        store.close()


def _tried(stores: Sequence[SqliteStore], count: int, rng: random.Random) -> list[Figures]:
    store, unbound_store, left_store = stores
    secrets = {place: f"canary-{rng.getrandbits(128):032x}"[: rng.randrange(8, 39)] for place in PLACES}
    vault, unbound = Vault(token_bytes(KEY_BYTES), store), Vault(token_bytes(KEY_BYTES), unbound_store, defects=Defects(["vault-aad-ignored"]))
    wrong, flipped, moved, tried = 0, 0, 0, 0
    for turn in range(4):  # three changes of the wrapping key in between
        if turn == 0:
            for place, secret in secrets.items():
                vault.put(*place, secret)
        else:
            vault.rotate(token_bytes(KEY_BYTES))
        wrong += sum(opened(vault, place) != secret for place, secret in secrets.items())
        flipped += flips(store, lambda place: opened(vault, place), count // 4, rng)
        one, taken = moves(store, lambda place: opened(vault, place))
        tried, moved = tried + one, moved + taken
    for place, secret in secrets.items():
        unbound.put(*place, secret)
    _, moved_unbound = moves(unbound_store, lambda place: opened(unbound, place))
    control = Unauthenticated(token_bytes(KEY_BYTES), store)
    for place, secret in secrets.items():
        control.put(place, secret)
    flipped_control = flips(store, control.get, 200, rng)
    told = f"seed {SEED}; {len(PLACES)} secrets of 2 tenants, the wrapping key changed 3 times in between"
    lost = _lost(left_store, secrets)
    return [
        Figures("a bit flipped anywhere does not open", count // 4 * 4, flipped, flipped_control, (told, "control: AES-CTR, 200 tried")),
        Figures("a secret opens in its own place, version and length only", tried, moved, moved_unbound, ("control: no additional data",)),
        Figures("every secret opens after the wrapping key was changed", len(PLACES) * 4, wrong, lost, ("control: the key from before",)),
    ]


def _lost(store: SqliteStore, secrets: dict[Place, str]) -> int:
    """How many secrets a gateway that kept the old key could not open any more."""
    old = token_bytes(KEY_BYTES)
    vault = Vault(old, store)
    for place, secret in secrets.items():
        vault.put(*place, secret)
    vault.rotate(token_bytes(KEY_BYTES))
    return sum(opened(Vault(old, store), place) is None for place in secrets)
