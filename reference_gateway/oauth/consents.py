"""The token store: consents in the vault, replaced only by whoever has read the one that is being replaced."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from reference_gateway.errors import GatewayError
from reference_gateway.oauth.challenge import MAX_SCOPES
from reference_gateway.oauth.tokens import Consent
from reference_gateway.store.base import Store
from reference_gateway.vault import Vault

LEASE = "oauth-lease:"
DEMAND = "oauth-demand:"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a consent is kept, and whose it is. `grant`: the grant's own key (see `grant.Grant.key`)."""

    tenant: str
    connection: str
    grant: str
    path: str

    @property
    def lease(self) -> str:
        return f"{LEASE}{self.connection}:{self.path}"

    @property
    def demand(self) -> str:
        return f"{DEMAND}{self.connection}:{self.path}"


@dataclass(frozen=True, slots=True)
class Held:
    """`generation` grows with each consent or token that is stored here, and is never given twice."""

    consent: Consent
    generation: int


class Consents:
    def __init__(self, vault: Vault, store: Store) -> None:
        self._vault = vault
        self._store = store

    def read(self, place: Place) -> Held | None:
        """None when nothing is stored. Raises VaultError and OAuthError for what cannot be opened or read."""
        generation = self._vault.version(place.tenant, place.connection, place.path)
        if not generation:
            return None
        # No transaction for what every request does: a consent newer than its generation only makes a later replacement give way.
        return Held(Consent.load(self._vault.get(place.tenant, place.connection, place.grant, place.path)), generation)

    def replace(self, place: Place, consent: Consent, generation: int | None) -> int | None:
        """Stores, if what is stored now is still `generation` (None: whatever it is); None when it is not, and then nothing has changed."""
        with self._store.transaction():
            if generation is not None and self._vault.version(place.tenant, place.connection, place.path) != generation:
                return None
            return self._vault.put(place.tenant, place.connection, place.grant, place.path, consent.text())

    # One refresher at a time among all processes on this store. A lease that ended says that its holder died with the outcome unknown.

    def take_lease(self, place: Place, holder: str, now: float, until: float) -> bool:
        with self._store.transaction():
            held = self._store.setting_get(place.tenant, place.lease)
            if held is not None and held["holder"] != holder and held["until"] > now:
                return False
            self._store.setting_put(place.tenant, place.lease, {"holder": holder, "until": until})
            return True

    def leave_lease(self, place: Place, holder: str) -> None:
        with suppress(GatewayError), self._store.transaction():  # it ends by itself
            held = self._store.setting_get(place.tenant, place.lease)
            if held is not None and held["holder"] == holder:
                self._store.setting_put(place.tenant, place.lease, None)

    # Scopes that a provider demanded beyond what a person agreed to. Not secret, and not part of the consent: nobody agreed to them yet.

    def demand(self, place: Place, scopes: Sequence[str]) -> bool:
        """Remembers them; whether any of them is new."""
        with self._store.transaction():
            before = self.demanded(place)
            after = tuple(dict.fromkeys((*before, *scopes)))[:MAX_SCOPES]
            if after == before:
                return False
            self._store.setting_put(place.tenant, place.demand, {"scopes": list(after)})
        return True

    def demanded(self, place: Place) -> tuple[str, ...]:
        return tuple((self._store.setting_get(place.tenant, place.demand) or {"scopes": ()})["scopes"])

    def forget(self, place: Place) -> None:
        """What is remembered beside the vault."""
        for name in (place.demand, place.lease):
            self._store.setting_put(place.tenant, name, None)
