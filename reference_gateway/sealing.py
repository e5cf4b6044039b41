"""A provider's `requestState`, tied to the call that it belongs to.

All agents of a connection reach the provider under one credential, so that the provider cannot tell whether a state comes back from the
agent that it was given to. The gateway can: what an agent gets names its run, its request and the arguments under a seal, for an hour.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json

from reference_gateway.clock import Clock
from reference_gateway.defects import Defects
from reference_gateway.ids import Ids
from reference_gateway.store.base import Store

LIFETIME_S = 3600
_SETTING = "sealing:key"


class Sealer:
    """The key is the store's, so that every process on it knows what another sealed."""

    def __init__(self, store: Store, clock: Clock, ids: Ids, defects: Defects | None = None) -> None:
        self._store = store
        self._defects = defects or Defects()
        self._clock = clock
        self._ids = ids

    def seal(self, state: str | None, belongs: tuple[str, ...]) -> str:
        """`state` None: the provider gave none. `belongs` says in order what it is bound to."""
        expires = int(self._clock.now().timestamp()) + LIFETIME_S
        body = base64.urlsafe_b64encode(json.dumps([expires, state]).encode()).decode()
        return f"{body}.{self._mark(body, belongs)}"

    def opened(self, sealed: str, belongs: tuple[str, ...]) -> tuple[bool, str | None]:
        """Whether it is one of ours for exactly this, not expired; and the provider's own state."""
        body, _, mark = sealed.rpartition(".")
        if "state-unchecked" in self._defects:
            return True, sealed
        if not hmac.compare_digest(mark.encode(), self._mark(body, belongs).encode()):
            return False, None
        try:
            expires, state = json.loads(base64.urlsafe_b64decode(body))
        except (ValueError, binascii.Error):
            return False, None
        return expires > self._clock.now().timestamp(), state

    def _mark(self, body: str, belongs: tuple[str, ...]) -> str:
        if "state-of-another-run" in self._defects:
            belongs = (belongs[0], *belongs[2:])
        return hmac.new(self._key(), json.dumps([body, *belongs]).encode(), hashlib.sha256).hexdigest()

    def _key(self) -> bytes:
        with self._store.transaction():
            found = self._store.setting_get("", _SETTING)
            if found is None:
                found = {"key": self._ids.token()}
                self._store.setting_put("", _SETTING, found)
        return str(found["key"]).encode()
