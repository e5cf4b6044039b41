"""Tool calls through the gateway against the same calls made to the stand-in directly, in turns, every answer checked."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from bench.peers import fastmcp_proxy, sdk_proxy
from bench.processes import Broken, Child, Gateway, gateway, server
from bench.wire import LEGACY, MODERN, Agent, Json, ask

CREDENTIAL = "bench-credential-1c0ffee"
TENANT = "bench"
FACT = "The benchmark navigator keeps a silver compass in a maple cabinet, beside the charts of the northern passage."
COUNTED_CALLS = 20
WAYS = ("direct", "mem0", "sdk proxy", "fastmcp")
_REQUEST_LINE = re.compile(rb"(?:POST|GET|DELETE) \S+ HTTP/1\.1\r\n")


@dataclass
class Round:
    """One stretch of calls. Seconds and milliseconds of wall time; CPU of the gateway and of the stand-in."""

    per_second: float
    p50_ms: float
    gateway_cpu_ms: float
    fake_cpu_ms: float


@dataclass
class Path:
    """Calls by one way at one protocol version and concurrency, over all rounds."""

    way: str
    protocol: str
    concurrency: int
    rounds: list[Round] = field(default_factory=list)

    def median(self, of: Callable[[Round], float]) -> float:
        return statistics.median(map(of, self.rounds))


@dataclass(frozen=True)
class Calls:
    """`upstream` is HTTP requests at the provider per tool call, by protocol version; bytes are of one result's JSON."""

    paths: Sequence[Path]
    upstream: dict[str, float]
    result_bytes: int

    def of(self, way: str, protocol: str, concurrency: int) -> Path:
        return next(p for p in self.paths if (p.way, p.protocol, p.concurrency) == (way, protocol, concurrency))


class Load:
    """The call that is made over and over: get_memory of one synthetic memory."""

    def __init__(self, fake: Child, door: Gateway, direct_url: str, peers: Mapping[str, tuple[Child, str]] | None = None) -> None:
        self.peers = peers or {}
        self.fake = fake
        self.door = door
        self.direct_url = direct_url
        self.memory = ""
        self.tokens: dict[str, str] = {}
        self.result_bytes = 0

    async def prepare(self, counted_url: str) -> None:
        async with Agent(self.direct_url, CREDENTIAL, MODERN) as agent:
            made = await agent.call("add_memory", {"text": FACT, "user_id": "bench", "infer": False})
            self.memory = json.loads(made["content"][0]["text"])["results"][0]["id"]
        await self._operate("POST", "/tenants", {"tenant": TENANT})
        for name, url in (("mem0", self.direct_url), ("counted", counted_url)):
            connection = {
                "name": name,
                "provider": "mem0",
                "transport": "mcp_http",
                "url": url,
                "grant": {"kind": "organization"},
                "auth": {"scheme": "bearer", "path": "credentials.authorization"},
                "credentials": {"credentials.authorization": CREDENTIAL},
            }
            await self._operate("POST", f"/tenants/{TENANT}/connections", connection)
            run = await self._operate("POST", f"/tenants/{TENANT}/runs", {"connections": [name], "task": "bench", "agent": "bench"})
            self.tokens[name] = run["token"]

    async def _operate(self, method: str, path: str, body: Json) -> Json:
        answer: Json = await ask(self.door.operator, self.door.token, method, path, body)
        return answer

    def agent(self, way: str, protocol: str) -> Agent:
        if way in self.peers:
            return Agent(self.peers[way][1], CREDENTIAL, protocol)
        return Agent(self.direct_url, CREDENTIAL, protocol) if way == "direct" else Agent(self.door.mcp, self.tokens[way], protocol)

    def between(self, way: str) -> Child:
        """The process that stands between; for the direct way the gateway, which then has nothing to do."""
        return self.peers[way][0] if way in self.peers else self.door.child

    async def call(self, agent: Agent, way: str) -> None:
        """One call, its answer checked: a benchmark of errors would look fast."""
        result = await agent.call(f"{way}__get_memory" if way in self.tokens else "get_memory", {"memory_id": self.memory})
        found = json.loads(result["content"][0]["text"])
        if result.get("isError") or found.get("memory") != FACT or found.get("id") != self.memory:
            raise Broken(f"{way}: wrong answer {json.dumps(result)[:300]}")
        self.result_bytes = len(json.dumps(result, separators=(",", ":")))

    async def stretch(self, path: Path, seconds: float) -> Round:
        """New agents, each with a session of its own, call as fast as they are answered, for that long. Opening them is not counted."""
        async with AsyncExitStack() as stack:
            agents = [await stack.enter_async_context(self.agent(path.way, path.protocol)) for _ in range(path.concurrency)]
            await asyncio.gather(*(self.call(agent, path.way) for agent in agents))
            return await self._timed(agents, path.way, seconds)

    async def _timed(self, agents: Sequence[Agent], way: str, seconds: float) -> Round:
        took: list[float] = []
        between = self.between(way)
        before = between.cpu_ms(), self.fake.cpu_ms()
        began = time.perf_counter()
        end = began + seconds

        async def work(agent: Agent) -> None:
            now = time.perf_counter()
            while now < end:
                await self.call(agent, way)
                took.append(time.perf_counter() - now)
                now = time.perf_counter()

        await asyncio.gather(*map(work, agents))
        wall = time.perf_counter() - began
        after = between.cpu_ms(), self.fake.cpu_ms()
        calls = len(took)
        return Round(calls / wall, statistics.median(took) * 1000, (after[0] - before[0]) / calls, (after[1] - before[1]) / calls)


async def measure(rounds: int, seconds: float) -> Calls:
    """Rounds are interleaved: in each, every way, protocol version and concurrency has its turn, so that noise hits all alike."""
    with started() as (fake, door), peers_of(str(fake.ready["url"])) as peers:
        async with counter(fake.ready["url"]) as (counted_url, seen):
            load = Load(fake, door, str(fake.ready["url"]), peers)
            await load.prepare(counted_url)
            upstream = {protocol: await _amplification(load, protocol, seen) for protocol in (LEGACY, MODERN)}
            paths = [Path(way, protocol, c) for protocol in (LEGACY, MODERN) for c in (1, 16) for way in WAYS]
            for number in range(rounds + 1):
                for path in paths if number % 2 else reversed(paths):
                    found = await load.stretch(path, seconds if number else 0.3)
                    if number:  # the first one only warms up
                        path.rounds.append(found)
            return Calls(paths, upstream, load.result_bytes)


@contextmanager
def started() -> Iterator[tuple[Child, Gateway]]:
    with server("harness.fake", "mem0", "--credential", CREDENTIAL) as fake, gateway() as door:
        yield fake, door


@contextmanager
def peers_of(url: str) -> Iterator[dict[str, tuple[Child, str]]]:
    with sdk_proxy(url, CREDENTIAL) as sdk, fastmcp_proxy(url, CREDENTIAL) as fast:
        yield {"sdk proxy": sdk, "fastmcp": fast}


async def _amplification(load: Load, protocol: str, seen: list[int]) -> float:
    async with load.agent("counted", protocol) as agent:
        await load.call(agent, "counted")  # opens the gateway's session with the provider
        before = seen[0]
        for _ in range(COUNTED_CALLS):
            await load.call(agent, "counted")
        return (seen[0] - before) / COUNTED_CALLS


@asynccontextmanager
async def counter(url: str) -> AsyncIterator[tuple[str, list[int]]]:
    """A relay in front of the provider that counts HTTP requests; used for counting only, never while time is taken."""
    target = urlsplit(url)
    seen = [0]
    tasks: set[asyncio.Task[None]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counts: bool) -> None:
        tail = b""
        try:
            while data := await reader.read(65536):
                if counts:
                    window = tail + data
                    seen[0] += len(_REQUEST_LINE.findall(window)) - len(_REQUEST_LINE.findall(tail))
                    tail = window[-128:]
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(target.hostname, target.port)
        tasks.update((asyncio.create_task(pump(reader, forth, True)), asyncio.create_task(pump(back, writer, False))))

    listening = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}{target.path}", seen
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
