"""The reference gateway's audit log as its owner gets it: by the operator API, and the checkpoints from the file that it was told to keep."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2

from harness.errors import HarnessError, Unreachable
from harness.target.kept_log import LARGEST

KEY_FILE = "audit.key"
CHECKPOINTS_FILE = "checkpoints.jsonl"

Ask = Callable[..., Awaitable[Any]]


class ReferenceLog:
    """`folder`: where the gateway's store, key and checkpoints lie."""

    def __init__(self, ask: Ask, base: str, headers: Mapping[str, str], http: httpx2.AsyncClient, folder: Path) -> None:
        self._ask = ask
        self._url = f"{base}/audit/export"
        self._headers = headers
        self._http = http
        self._file = folder / CHECKPOINTS_FILE

    async def key(self) -> str:
        return str((await self._ask("GET", "/audit/key"))["key"])

    def checkpoints(self) -> bytes:
        try:
            return self._file.read_bytes()
        except OSError as error:
            fix = "the gateway must keep checkpoints under --checkpoints, see docs/operator-api.md"
            raise HarnessError(f"the checkpoints cannot be read: {error.strerror}", where=CHECKPOINTS_FILE, fix=fix) from error

    async def export(self, after: int) -> bytes:
        found = bytearray()
        try:
            async with self._http.stream("GET", self._url, headers=self._headers, params={"after": str(after)}, timeout=60.0) as answer:
                if not answer.is_success:
                    raise HarnessError(f"the gateway does not export its audit log: HTTP {answer.status_code}", where=self._url)
                async for chunk in answer.aiter_bytes():
                    found += chunk
                    if len(found) > LARGEST:
                        raise HarnessError(f"the exported audit log has more than {LARGEST} bytes", where=self._url)
        except httpx2.HTTPError as error:
            what = f"the gateway did not export its audit log: {str(error) or type(error).__name__}"
            raise Unreachable(what, where=self._url, fix="see gateway.log in the run's folder") from None
        return bytes(found)
