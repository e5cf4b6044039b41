"""What a cassette holds: vcr's list of interactions, and beside it a header block that says what the recording is evidence of."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints

from harness.errors import Incomplete
from harness.model.location import Frozen
from harness.model.scenario import LEVELS, Level

FORMAT: Final = "cassette/v1"
HEADER: Final = "cassette"
"""The key of the header block. It sorts before `interactions`, so that it can be read without reading the bodies."""
ORIGIN: Final = "http://provider.invalid"
"""Stands for the provider's own address in a cassette; on replay it is the address that the gateway was given."""
KEEPS_FOR: Final = timedelta(days=365)

RecordMode = Literal["none", "new", "all"]
Outcome = Literal["answered", "left_open", "broken_off"]
"""How the answer ended: whole; still open when the caller hung up (or never begun: a timeout); broken off by the provider."""
END = -1
"""Of the events of an answer: the end of the stream."""
Day = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class BadCassette(Incomplete):
    """A cassette that cannot be evidence (exit 5). `problems`: all that was found in it, the first one being the message."""

    def __init__(self, what: str, *, where: str = "", fix: str = "", problems: tuple[str, ...] = ()) -> None:
        super().__init__(what, where=where, fix=fix)
        self.problems = problems or (what,)


class Server(Frozen):
    """Who answered, in its own words at the handshake; empty for a REST provider."""

    name: str = ""
    version: str = ""


class Proof(Frozen):
    """What was done before the file was written. `hits` is what the last search of the finished bytes found: a file with any is not written."""

    rules: str
    secrets: int = Field(ge=0)
    encodings: tuple[str, ...]
    fields: int = Field(ge=0)
    headers: tuple[str, ...]
    """Names of headers that are not on the list of those kept; their values were dropped."""
    prose: Literal["kept", "hashed"]
    hits: Literal[0]


class Header(Frozen):
    """`legs`: at which level each kind of claim was recorded. `values`: the scenario's synthetic values, which a replay is bound to."""

    format: Literal["cassette/v1"]
    recorder: str
    provider: str
    scenario: str
    connection: str
    recorded_at: Level
    recorded_on: str
    expires: Day
    endpoint: str
    path: str
    server: Server
    protocol: str
    agent_protocol: str
    pin: str
    legs: Mapping[Literal["schema", "memory"], Level]
    simulated_backend: bool
    inventory: Sha256 | Literal[""]
    values: Mapping[str, Any]
    redaction: Proof
    content: Sha256

    @property
    def day(self) -> str:
        return self.recorded_on[:10]

    def expired(self, now: datetime) -> bool:
        return now.astimezone(UTC).date() > date.fromisoformat(self.expires)

    def leg(self, kind: Literal["schema", "memory"]) -> Level:
        """The level that a claim on a replay of this leg has: a recording of a stand-in is no more than the stand-in was."""
        return min("replayed", self.legs.get(kind, self.recorded_at), key=LEVELS.index)


@dataclass(frozen=True, slots=True)
class Interaction:
    """One exchange. Header names are lower case; bodies are decoded bytes. `status` 0: the caller hung up before there was one.

    `gates`: (event of the answer, interaction): the event, or the end of the stream, came after that interaction had been asked.
    """

    method: str
    target: str
    """Path and query below the provider's own address."""
    request_headers: tuple[tuple[str, str], ...]
    request_body: bytes | None
    status: int
    reason: str
    response_headers: tuple[tuple[str, str], ...]
    response_body: bytes
    outcome: Outcome = "answered"
    gates: tuple[tuple[int, int], ...] = ()

    def header(self, name: str) -> str:
        """Of the answer; "" when it has none."""
        return next((value for known, value in self.response_headers if known == name), "")

    @property
    def streams(self) -> bool:
        return self.header("content-type").partition(";")[0].strip().lower() == "text/event-stream"


@dataclass(frozen=True, slots=True)
class Cassette:
    """`header` is None for a file that some other recorder wrote."""

    where: str
    header: Header | None
    interactions: tuple[Interaction, ...]
    index: dict[str, list[int]] = field(default_factory=dict, compare=False, repr=False)
    """Filled by `match` when it is first played; shared by all who play it."""


def content_hash(interactions: tuple[Interaction, ...]) -> str:
    """SHA-256 over every part of every interaction, length before content, so that no edit goes unnoticed."""
    digest = hashlib.sha256()

    def put(*parts: str | bytes | int | None) -> None:
        for part in parts:
            raw = b"\xff" if part is None else part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "big"))
            digest.update(raw)

    for one in interactions:
        put(one.method, one.target, one.request_body, one.status, one.reason, one.response_body, one.outcome)
        for name, value in (*_by_name(one.request_headers), *_by_name(one.response_headers)):
            put(name, value)
        for gate in one.gates:
            put(*gate)
    return digest.hexdigest()


def _by_name(headers: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """As the file lists them; several of one name keep their order."""
    return sorted(headers, key=lambda header: header[0])
