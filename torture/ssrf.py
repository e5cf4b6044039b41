"""Thousands of ways to make the gateway dial what it must not, and two hundred URLs that it must.

Everything goes through the guard that requests go through, on both of its clients; resolver and connector are stubs, so nothing is
dialled. A connection to anything but a public address that was judged is a violation, and so is a good URL that is refused.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address
from typing import Any
from urllib.parse import urlsplit

import httpcore2
import httpx2

from reference_gateway.defects import Defects
from reference_gateway.egress import Egress
from reference_gateway.errors import GatewayError
from reference_gateway.lines import LineBroken
from torture._forbidden import address_v4, address_v6, hosts, public, urls
from torture.figures import Figures, Scale

SEED = 20261130


@dataclass(frozen=True, slots=True)
class Attempt:
    """`answers`: what the name resolves to, time after time. `may`: the addresses that may be dialled."""

    kind: str
    url: str
    answers: Sequence[Sequence[str]] = ()
    may: frozenset[str] = frozenset()
    must: bool = False


@dataclass
class Sink(httpcore2.AsyncNetworkBackend):
    """Where connections would have gone."""

    dialled: list[str] = field(default_factory=list)

    async def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, local_address: str | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        self.dialled.append(host)
        raise httpcore2.ConnectError("nothing is dialled here")

    async def connector(self, factory: object, host: str, port: int, **_: object) -> object:
        self.dialled.append(host)
        raise ConnectionRefusedError("nothing is dialled here")


def attempts(count: int, rng: random.Random) -> list[Attempt]:
    found: list[Attempt] = []
    while len(found) < count:
        v4, v6 = address_v4(rng), address_v6(rng)
        spelled = rng.choice(list(hosts(v4, rng)))
        found.append(Attempt("a spelling in a URL", rng.choice(list(urls(spelled, rng)))))
        found.append(Attempt("an IPv6 literal", rng.choice(list(urls(f"[{_written(v6, rng)}]", rng)))))
        bad, good = str(rng.choice((v4, v6))), public(rng)
        name = f"https://{rng.choice('abcxyz')}{rng.randrange(1000)}.example.com/mcp"
        found.append(Attempt("a name that leads inside", name, [[bad]]))
        mixed = [good, bad]
        rng.shuffle(mixed)
        found.append(Attempt("a mixed answer", name, [mixed]))
        found.append(Attempt("a name that turns inside", name, [[good], [bad]], frozenset({good})))
    return found[:count]


def _written(address: IPv6Address, rng: random.Random) -> str:
    return rng.choice((str(address), address.exploded, str(address).upper()))


def good_urls(rng: random.Random) -> list[Attempt]:
    found = []
    paths = ("", "/", "/mcp", "/v1/mcp?tenant=a%20b", "/?next=https://127.0.0.1/", "/a/@user/b")
    for number in range(200):
        address = public(rng)
        if number % 10 == 0:
            host = f"[{address}]" if ":" in address else address
        else:
            shapes = ("mcp.provider{}.com", "a.b.c{}.example.co.uk", "{}password.example.org", "localhost.x{}.io", "x-{}.api.dev", "0x{}f.net")
            host = rng.choice(shapes).format(number)
        port = rng.choice(("", ":443"))
        found.append(Attempt("a good URL", f"https://{host}{port}{rng.choice(paths)}", [[address]], frozenset({address}), must=True))
    return found


class Bench:
    """One guard for many attempts: it is stateless but for what it already judged, which is part of what is tried."""

    def __init__(self, defects: Defects) -> None:
        self._sink, self._attempt, self._turn = Sink(), Attempt("", ""), 0
        self._egress = Egress(resolver=self._resolve, dialler=self._sink, connector=self._sink.connector, defects=defects)

    async def _resolve(self, host: str, port: int) -> Sequence[str]:
        answers, self._turn = self._attempt.answers, self._turn + 1
        if not answers:
            # What a C library makes of it; a name that is none of its spellings leads inside.
            return [_as_number(host) or "10.0.0.1"]
        return answers[min(self._turn, len(answers)) - 1]

    async def dialled(self, attempt: Attempt, client: str) -> list[str]:
        self._attempt, self._turn = attempt, 0
        self._sink.dialled.clear()
        try:
            if client == "lines":
                self._egress.check_url(attempt.url)
                await self._egress.lines.request("POST", attempt.url, {}, b"{}")
            else:
                await self._egress.client.post(attempt.url, content=b"{}")
        except (GatewayError, LineBroken, httpx2.HTTPError, httpx2.InvalidURL, UnicodeError, ValueError):
            pass
        return list(self._sink.dialled)

    async def close(self) -> None:
        await self._egress.aclose()


def _as_number(host: str) -> str | None:
    """What a C library reads a numeric host as; no look-up is made."""
    try:
        return str(socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)[0][4][0])
    except (OSError, UnicodeError):
        return None


def wrong(attempt: Attempt, dialled: Sequence[str]) -> bool:
    return bool(set(dialled) - attempt.may) or (attempt.must and not dialled)


def naive(attempt: Attempt) -> list[str]:
    """A guard as many have it: parse, refuse what the standard library calls not global, connect by name."""
    try:
        host = urlsplit(attempt.url).hostname or ""
    except ValueError:
        return []
    try:
        if not ip_address(host).is_global:
            return []
    except ValueError:
        pass
    answers = [list(answer) for answer in attempt.answers] or [[found] if (found := _as_number(host)) else []]
    if any(not ip_address(address).is_global for address in answers[0]):
        return []
    return answers[-1]


def run(scale: Scale) -> list[Figures]:
    rng = random.Random(SEED)
    bad, good = attempts(10_000 if scale == "full" else 500, rng), good_urls(rng)

    async def counted(defects: Defects, tried: Sequence[Attempt]) -> Counter[str]:
        found, bench = Counter[str](), Bench(defects)
        for number, attempt in enumerate(tried):
            if wrong(attempt, await bench.dialled(attempt, "lines" if number % 2 else "client")):
                found[attempt.kind] += 1
        await bench.close()
        return found

    violations = asyncio.run(counted(Defects(), bad))
    refused = asyncio.run(counted(Defects(), good))
    sample = rng.sample(bad, 500)
    broken = asyncio.run(counted(Defects(["is-global-guard", "check-then-resolve"]), sample))
    simple = Counter(attempt.kind for attempt in bad if wrong(attempt, naive(attempt)))
    refusing_all = sum(wrong(attempt, []) for attempt in good)
    notes = (
        f"seed {SEED}; {_told(Counter(attempt.kind for attempt in bad))}",
        f"control, a naive guard: {_told(simple)}; the gateway with two defects, {len(sample)} tried: {_told(broken)}",
    )
    control = min(sum(simple.values()), sum(broken.values()))
    return [
        Figures("no input leads to a connection that may not be made", len(bad), sum(violations.values()), control, notes),
        Figures("no good URL is refused", len(good), sum(refused.values()), refusing_all, ("control: a guard that refuses everything",)),
    ]


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items())) or "none"
