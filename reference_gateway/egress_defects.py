"""What the way out does wrong on request (`defects.py`). Nothing here is used without a defect."""

from __future__ import annotations

import ipaddress
import zlib
from collections.abc import Mapping
from urllib.parse import urljoin

from reference_gateway.addresses import LOOPBACK
from reference_gateway.defects import Defects
from reference_gateway.lines import Dial, Lines, Response


def lines_for(defects: Defects, dial: Dial, *, agent: str, total_s: float) -> Lines:
    """The ordinary ones, unless a defect is on."""
    if "redirect-followed" in defects:
        return _FollowingLines(dial, agent=agent, total_s=total_s)
    kind = _UnpackingLines if "unbounded-decompression" in defects else Lines
    return kind(dial, agent=agent, total_s=total_s)


def is_global(address: str) -> bool:
    """The idea of a public address that many a guard has."""
    try:
        return ipaddress.ip_address(address).is_global or address == LOOPBACK
    except ValueError:
        return False


class _FollowingLines(Lines):
    """Goes where an answer says, with everything that was meant for another place."""

    async def request(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> Response:
        response = await super().request(method, url, headers, body)
        if not 300 <= response.status < 400 or "location" not in response.headers:
            return response
        response.close()
        return await super().request(method, urljoin(url, response.headers["location"]), headers, body)


class _UnpackingLines(Lines):
    """Unpacks a compressed answer as a whole; its size is looked at afterwards."""

    async def request(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> Response:
        response = await super().request(method, url, headers, body)
        if response.headers.get("content-encoding") != "gzip":
            return response
        packed = b""
        while (piece := await response.piece()) is not None:
            packed += piece
        return _Unpacked(response, zlib.decompress(packed, zlib.MAX_WBITS | 16))


class _Unpacked(Response):
    def __init__(self, packed: Response, body: bytes) -> None:
        self._packed, self._body = packed, [body]
        self.status = packed.status
        self.headers = {name: value for name, value in packed.headers.items() if name not in ("content-encoding", "content-length")}

    async def piece(self) -> bytes | None:
        return self._body.pop() if self._body else None

    def close(self) -> None:
        self._packed.close()

    def cut(self) -> None:
        self._packed.cut()
