"""A relay that puts a bearer token on every request, for a suite that has none to send. Nothing else is touched, not even Host."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

LIMIT = 1 << 20
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)


@asynccontextmanager
async def fronted(url: str, token: str) -> AsyncIterator[str]:
    """The address to use instead of `url`, for as long as the block lasts."""
    target = urlsplit(url)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        back, forth = await asyncio.open_connection(target.hostname, target.port)
        answering = asyncio.ensure_future(_copy(back, writer))
        try:
            await _requests(reader, forth, token)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # either side may leave whenever it likes
        finally:
            forth.close()
            await asyncio.wait({answering})
            writer.close()
            tasks.discard(task)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, limit=LIMIT)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}{target.path}"
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _requests(reader: asyncio.StreamReader, forth: asyncio.StreamWriter, token: str) -> None:
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        line, _, rest = head.partition(b"\r\n")
        length = _LENGTH.search(head)
        forth.write(line + b"\r\nauthorization: Bearer " + token.encode() + b"\r\n" + rest)
        if length is not None:
            forth.write(await reader.readexactly(int(length[1])))
        await forth.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
