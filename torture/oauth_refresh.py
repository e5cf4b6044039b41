"""Many callers need a new token at the same instant, in four gateways on one store: one renewal, one winner, and no consent lost."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from harness.clock import SystemClock as AuthorizationClock
from harness.fake.authorization import AuthorizationServer, Behaviour
from harness.fake.kit import serve_app
from harness.fake.kit_store import Ids
from reference_gateway.clock import SystemClock
from reference_gateway.defects import Defects
from reference_gateway.egress import Egress
from reference_gateway.ids import RandomIds
from reference_gateway.oauth.broker import Broker
from reference_gateway.oauth.consents import Consents, Held, Place
from reference_gateway.oauth.documents import Client
from reference_gateway.oauth.tokens import Consent, tokens_of
from reference_gateway.store.sqlite import SqliteStore
from reference_gateway.vault import KEY_BYTES, Vault
from torture.figures import Figures, Scale

ROUNDS = {"full": 500, "short": 40}
CONTROL_ROUNDS = 12
CALLERS = 16
GATEWAYS = 4
LEAVING = 5
"""Every fifth caller gives up while it waits, as a caller with a deadline does."""
OVERTAKEN = 10
"""In every tenth round a person consents anew while the renewal is under way, which is then refused."""
PLACE = Place("torture", "subject", '["organization",null]', "credentials.oauth")
SCOPES = ("graph:read",)


@dataclass
class Bench:
    server: AuthorizationServer
    brokers: list[Broker]
    chance: random.Random
    wrong: list[str] = field(default_factory=list)

    def consent(self) -> None:
        """What a person's consent brings, stored as the broker stores it."""
        tokens = tokens_of(self.server.consented("subject", SCOPES), SystemClock().now().timestamp(), SCOPES)
        client = Client("subject", self.server.issuer, "http://127.0.0.1/callback")
        consent = Consent(self.server.issuer, "http://127.0.0.1/mcp", f"{self.server.issuer}/token", None, client, tokens, SCOPES)
        self.brokers[0].store(PLACE, consent)

    def renewals(self) -> int:
        return sum(each.get("grant") == "refresh_token" for each in self.server.seen)

    async def race(self, number: int) -> None:
        """One round; whatever broke a promise is added to `wrong`."""
        before, asked = self.brokers[0].consents.read(PLACE), self.renewals()
        if before is None or before.consent.tokens is None:
            self.consent()
            before = self.brokers[0].consents.read(PLACE)
        assert before is not None
        overtaken = number % OVERTAKEN == OVERTAKEN - 1
        if overtaken:
            self.server.overtaken = self._overtake
        callers = [asyncio.ensure_future(self._caller(index, before)) for index in range(CALLERS)]
        answers = await asyncio.gather(*callers, return_exceptions=True)
        self._judge(number, before, [each for each in answers if not isinstance(each, asyncio.CancelledError)], self.renewals() - asked)

    async def _overtake(self) -> None:
        self.consent()

    async def _caller(self, index: int, before: Held) -> Held:
        for _ in range(self.chance.randrange(4)):
            await asyncio.sleep(0)
        wanted = asyncio.ensure_future(self.brokers[index % GATEWAYS].refresher.renewed(PLACE, before.generation))
        if index % LEAVING == LEAVING - 1:
            await asyncio.sleep(self.chance.random() / 200)
            wanted.cancel()
        return await wanted

    def _judge(self, number: int, before: Held, answers: list[object], asked: int) -> None:
        stored = self.brokers[0].consents.read(PLACE)
        tokens = stored.consent.tokens if stored is not None else None
        faults = [
            f"{asked} renewals" if asked != 1 else "",
            "no token is stored" if tokens is None else "",
            "the stored token does not hold" if tokens is not None and self.server.grant_of(tokens.access) is None else "",
            *(f"a caller got {type(each).__name__}" for each in answers if not isinstance(each, Held)),
        ]
        held = [each for each in answers if isinstance(each, Held)]
        if stored is not None and any(each.generation != stored.generation or each.consent != stored.consent for each in held):
            faults.append("a caller got another token than is stored")
        if any(each.generation <= before.generation for each in held):
            faults.append("a caller got the old token")
        self.wrong += [f"round {number}: {fault}" for fault in faults if fault]


async def _raced(rounds: int, defects: Defects) -> list[str]:
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = AuthorizationServer(AuthorizationClock(), Behaviour(), Ids("torture", "subject"), lambda token: None)
        server.issuer = await stack.enter_async_context(serve_app(server.app()))
        server.resource_url = "http://127.0.0.1/mcp"
        key, brokers = os.urandom(KEY_BYTES), []
        for _ in range(GATEWAYS):
            store = SqliteStore(Path(folder) / "store.sqlite3")
            store.open()
            stack.callback(store.close)
            egress = Egress(allow_loopback=True)
            stack.push_async_callback(egress.aclose)
            consents = Consents(Vault(key, store), store)
            brokers.append(Broker(egress=egress, consents=consents, clock=SystemClock(), ids=RandomIds(), defects=defects))
        bench = Bench(server, brokers, random.Random(20261130))
        bench.consent()
        for number in range(rounds):
            await bench.race(number)
        for broker in brokers:
            await broker.refresher.close()
        return bench.wrong


def run(scale: Scale) -> list[Figures]:
    rounds = ROUNDS[scale]
    wrong = asyncio.run(_raced(rounds, Defects()))
    control = asyncio.run(_raced(CONTROL_ROUNDS, Defects(["oauth-loser-wipes"])))
    promise = f"{CALLERS} callers in {GATEWAYS} gateways: one renewal for all of them, and its loser undoes nothing"
    return [Figures(promise, rounds * CALLERS, len(wrong), len(control), tuple(itertools.islice(wrong, 5)))]
