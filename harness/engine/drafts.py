"""Connections that a scenario sets up itself, and credentials that a provider's stand-in gives out anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.engine.legs import LegSource
from harness.errors import HarnessError
from harness.model.scenario import ConnectionSpec
from harness.target.base import ConnectionRequest, RunningTarget
from harness.target.setting import setting
from harness.target.stand_in import KEY_PATH, TEMPLATE, URL_PATH


async def begin_draft(gateway: RunningTarget, tenant: str, request: ConnectionRequest, managed: Mapping[str, Any]) -> None:
    """Raises HarnessError when the gateway does not begin the setup."""
    spec = request.spec
    whose = {"subject": request.subject} if spec.grant == "personal" and spec.subject != "" else {}
    grant = {"kind": spec.grant, **whose}
    body = {"connector": request.provider, "name": request.name, "grant": grant, "managed": dict(managed), "quarantine": spec.quarantine}
    if request.url is not None:
        body["endpoint"] = request.url
    told = await setting(gateway).operate(tenant, "begin", body=body)
    if told.refused or told.status >= 400:
        raise HarnessError(f"the setup of {request.name} could not be begun: {told.refused}", where="POST /setups", fix="see gateway.log")


def as_local(name: str, provider: str, spec: ConnectionSpec, url: str, secret: str, subject: str) -> ConnectionRequest:
    """The provider behind the bench's own local server, which carries what it is told to `url`."""
    return ConnectionRequest(
        name=name,
        provider=provider,
        transport="stdio",
        url=None,
        protocol="auto",
        auth={},
        credentials={URL_PATH: url, KEY_PATH: secret},
        spec=spec,
        subject=subject,
        template=TEMPLATE,
    )


@dataclass(frozen=True, slots=True)
class Reissue:
    """The old credential is revoked at the stand-in, and the new one opens an account of its own.

    `admit` opens it; `held` is where the item keeps the credential of each connection; `learn` tells whoever blots out secrets.
    """

    source: LegSource
    name: str
    provider: str
    new_secret: Callable[[str], str]
    admit: Callable[[str], None]
    held: dict[str, tuple[str, str]]
    learn: Callable[[Mapping[str, str]], None]

    def again(self) -> str:
        secret = self.new_secret(self.provider)
        self.learn({f"{self.name}:new": secret})
        self.source.revoke(self.held[self.name][1])
        self.admit(secret)
        self.held[self.name] = (self.provider, secret)
        return secret
