"""Setting connections up, and what becomes of them, as an operator of the reference gateway does it: each operation one request.

A refusal is an answer like any other here: whether it is the right one is for an expectation to judge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import httpx2

from harness.errors import Unreachable, Untestable

OPERATE_WITHIN_S = 45.0

OPERATIONS: Mapping[str, tuple[str, str]] = {
    "gallery": ("GET", "/gallery"),
    "open_link": ("GET", "/gallery/{name}"),
    "switch": ("PUT", "/experimental"),
    "begin": ("POST", "/setups"),
    "read_setup": ("GET", "/setups/{name}"),
    "identify": ("POST", "/setups/{name}/identity"),
    "enter_credentials": ("POST", "/setups/{name}/credentials"),
    "authorize": ("POST", "/setups/{name}/authorize"),
    "callback": ("POST", "/oauth/callback"),
    "consent_status": ("GET", "/connections/{name}/oauth"),
    "name_client": ("PUT", "/connections/{name}/oauth/client"),
    "create": ("POST", "/connections"),
    "read": ("GET", "/connections/{name}"),
    "remove": ("DELETE", "/connections/{name}"),
    "set_state": ("POST", "/connections/{name}/state"),
    "reconnect": ("POST", "/connections/{name}/reconnect"),
    "rotate": ("POST", "/connections/{name}/rotate"),
    "check": ("POST", "/connections/{name}/check"),
    "look_again": ("POST", "/connections/{name}/refresh"),
    "offer": ("PUT", "/connections/{name}/offers"),
    "instruct": ("PUT", "/connections/{name}/instructions"),
    "manage": ("PUT", "/connections/{name}/managed"),
    "start_run": ("POST", "/runs"),
    "set_policies": ("PUT", "/policies"),
    "read_policies": ("GET", "/policies"),
    "add_operator": ("POST", "/operators"),
    "remove_operator": ("DELETE", "/operators/{name}"),
    "read_run": ("GET", "/runs/{name}"),
    "read_approval": ("GET", "/approvals/{name}"),
    "approve": ("POST", "/approvals/{name}/approve"),
    "reject": ("POST", "/approvals/{name}/reject"),
    "read_audit": ("GET", "/audit"),
    "approvals_of": ("GET", "/approvals?run={name}"),
    "write_delivery": ("POST", "/runs/{name}/delivery"),
    "read_delivery": ("GET", "/runs/{name}/delivery"),
}
"""Word → method and path below the tenant. `{name}` is the connection, the connector, the run, the approval or the operator."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the gateway answered: the HTTP status, its code if it refused, and the body."""

    status: int
    refused: str
    body: Any
    tag: str = ""

    def record(self) -> dict[str, Any]:
        """For the evidence, which holds no token that was just given out."""
        answer = {**self.body, "token": "(given out)"} if isinstance(self.body, dict) and "token" in self.body else self.body
        return {"http": self.status, "refused": self.refused, "answer": answer}


class Setting(Protocol):
    async def operate(
        self, tenant: str, operation: str, name: str = "", body: Mapping[str, Any] | None = None, *, kept: str = "", token: str = ""
    ) -> Told:
        """One of OPERATIONS. `kept`: the tag of a copy that the caller still has. `token`: an operator's own. Raises Unreachable."""
        ...


@runtime_checkable
class HasSetting(Protocol):
    def setting(self) -> Setting: ...


def setting(target: object) -> Setting:
    """The target's operator's side for setups, if it has one; otherwise Untestable."""
    if isinstance(target, HasSetting):
        return target.setting()
    raise Untestable("this gateway's connections cannot be set up step by step", where="target", fix="use a target with the ability setup")


class ReferenceSetting:
    def __init__(self, base: str, headers: Mapping[str, str], http: httpx2.AsyncClient) -> None:
        self._base = base
        self._headers = dict(headers)
        self._http = http

    async def operate(
        self, tenant: str, operation: str, name: str = "", body: Mapping[str, Any] | None = None, *, kept: str = "", token: str = ""
    ) -> Told:
        method, path = OPERATIONS[operation]
        url = f"{self._base}/tenants/{tenant}{path.format(name=name)}"
        headers = {**self._headers, **({"If-None-Match": kept} if kept else {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        given = None if method in ("GET", "DELETE") else dict(body or {})
        try:
            response = await self._http.request(method, url, json=given, headers=headers, timeout=OPERATE_WITHIN_S)
        except httpx2.HTTPError as error:
            what = f"the gateway did not answer {method} {path}: {str(error) or type(error).__name__}"
            raise Unreachable(what, where=url, fix="see gateway.log in the run's folder") from None
        answer = _body(response, url)
        error_part = answer.get("error") if isinstance(answer, dict) and not response.is_success else None
        refused = str(error_part.get("code", "")) if isinstance(error_part, dict) else ""
        return Told(response.status_code, refused, answer, response.headers.get("etag", ""))


def _body(response: httpx2.Response, url: str) -> Any:
    if not response.content:
        return None
    try:
        return response.json()
    except ValueError:
        raise Unreachable(f"the gateway answered HTTP {response.status_code} without JSON", where=url, fix="see docs/operator-api.md") from None
