"""The operator API as the console uses it: the same routes as everybody's, inside the process, under the signed-in operator's token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx2
from starlette.types import ASGIApp

from reference_gateway.console.sessions import Session
from reference_gateway.control import PREFIX


class Refused(Exception):
    """What the operator API refused. `code`, `message`, `fix` are its own words."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(error.get("code", ""))
        self.message = str(error.get("message", ""))
        self.fix = str(error.get("fix", ""))
        super().__init__(f"{self.code}: {self.message}")


class OperatorApi:
    def __init__(self, app: ASGIApp) -> None:
        self._client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://console.invalid", timeout=None)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def call(self, token: str, method: str, path: str, body: Any = None, query: Mapping[str, str] | None = None) -> Any:
        """The answer's JSON, or None for one without a body. Raises Refused."""
        answer = await self._client.request(
            method,
            PREFIX + path,
            headers={"authorization": f"Bearer {token}"},
            json=body if method != "GET" else None,
            params=query or None,
        )
        found = answer.json() if answer.content else None
        if answer.status_code >= 400:
            raise Refused(answer.status_code, found.get("error", {}) if isinstance(found, dict) else {})
        return found


class TenantApi:
    """The routes of one tenant under one session."""

    def __init__(self, api: OperatorApi, session: Session) -> None:
        self._api = api
        self._session = session

    async def get(self, *parts: str, **query: str) -> Any:
        return await self._api.call(self._session.token, "GET", self._path(parts), query=query)

    async def post(self, *parts: str, body: Any = None) -> Any:
        return await self._api.call(self._session.token, "POST", self._path(parts), body=body)

    async def put(self, *parts: str, body: Any) -> Any:
        return await self._api.call(self._session.token, "PUT", self._path(parts), body=body)

    async def delete(self, *parts: str) -> Any:
        return await self._api.call(self._session.token, "DELETE", self._path(parts))

    def _path(self, parts: tuple[str, ...]) -> str:
        return "/".join(["/tenants", quote(self._session.tenant, safe=""), *(quote(part, safe="") for part in parts)])
