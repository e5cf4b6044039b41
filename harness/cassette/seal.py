"""A recording made fit to be kept: redacted, searched once more, sealed with a hash; or refused, and then nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from harness.cassette.events import event_data, split_events
from harness.cassette.format import FORMAT, KEEPS_FOR, Header, Interaction, Proof, RecordMode, Server, content_hash
from harness.cassette.hunt import ENCODINGS, Hit, hunt
from harness.cassette.redact import Redactor
from harness.cassette.scrub import RULES, Scrubber
from harness.cassette.store import dump_cassette
from harness.errors import Incomplete, UsageError
from harness.model.digest import loads_exact
from harness.model.scenario import Level

__all__ = ["Draft", "RecordMode", "SecretLeft", "seal"]


class SecretLeft(UsageError):
    """A secret was still there after redaction: the file is not written."""

    def __init__(self, hits: list[Hit]) -> None:
        shown = "; ".join(dict.fromkeys(str(hit) for hit in hits[:5]))
        super().__init__(f"not written: {shown}", where="cassette", fix="have the provider not answer with it, or report this spelling")
        self.hits = hits


@dataclass(frozen=True, slots=True)
class Draft:
    """What the recorder knows of a recording besides its exchanges. `addresses`: what the provider was called on the wire."""

    provider: str
    scenario: str
    connection: str
    recorder: str
    recorded_at: Level
    now: datetime
    endpoint: str
    path: str
    agent_protocol: str
    pin: str
    schema_level: Level
    memory_level: Level
    inventory: str
    values: dict[str, Any]
    addresses: tuple[str, ...]
    hash_prose: bool
    keeps_for: timedelta = KEEPS_FOR


def seal(draft: Draft, raw: tuple[Interaction, ...], redactor: Redactor) -> bytes:
    """The file's bytes. Raises SecretLeft; Incomplete for a provider that spoke one version first and another one later."""
    scrubber = Scrubber(redactor, hash_prose=draft.hash_prose, addresses=draft.addresses)
    interactions = scrubber.scrub(raw)
    server, protocols = _handshake(raw)
    if len(protocols) > 1:
        raise Incomplete(
            f"the provider changed its protocol version while it was recorded: {', then '.join(protocols)}",
            where=f"{draft.connection}: initialize",
            fix="record it again once the provider keeps to one version",
        )
    proof = Proof(
        rules=RULES,
        secrets=len(scrubber.secrets),
        encodings=tuple(ENCODINGS),
        fields=scrubber.fields,
        headers=tuple(sorted(scrubber.dropped)),
        prose="hashed" if draft.hash_prose else "kept",
        hits=0,
    )
    expires: date = (draft.now + draft.keeps_for).date()
    header = Header(
        format=FORMAT,
        recorder=draft.recorder,
        provider=draft.provider,
        scenario=draft.scenario,
        connection=draft.connection,
        recorded_at=draft.recorded_at,
        recorded_on=draft.now.isoformat(timespec="seconds").replace("+00:00", "Z"),
        expires=expires.isoformat(),
        endpoint=draft.endpoint,
        path=draft.path,
        server=Server(name=scrubber.text(server.name), version=scrubber.text(server.version)),
        protocol=protocols[-1] if protocols else draft.pin,
        agent_protocol=draft.agent_protocol,
        pin=draft.pin,
        legs={"schema": draft.schema_level, "memory": draft.memory_level},
        simulated_backend=draft.memory_level == "fake" and draft.recorded_at != "fake",
        inventory=draft.inventory,
        values=draft.values,
        redaction=proof,
        content=content_hash(interactions),
    )
    content = dump_cassette(header, interactions)
    if hits := hunt(_streams(content, interactions), scrubber.secrets):
        raise SecretLeft(hits)
    return content


def _streams(content: bytes, interactions: tuple[Interaction, ...]) -> dict[str, bytes]:
    """The file, and each body by itself: YAML writes binary bodies as base64."""
    streams = {"the file": content}
    for number, one in enumerate(interactions):
        streams[f"interaction {number}, request"] = one.request_body or b""
        streams[f"interaction {number}, response"] = one.response_body
    return streams


def _handshake(raw: tuple[Interaction, ...]) -> tuple[Server, list[str]]:
    """Who answered, the last one counts, and in which versions, from `initialize` or `server/discover`, whichever worked."""
    server, protocols = Server(), dict[str, None]()
    for one in raw:
        message = _json(one.request_body or b"")
        if not isinstance(message, dict) or message.get("method") not in ("initialize", "server/discover"):
            continue
        for answer in _messages(one):
            result = answer.get("result") if isinstance(answer, dict) else None
            if not isinstance(result, dict):
                continue
            meta = result.get("_meta") if isinstance(result.get("_meta"), dict) else {}
            who = result.get("serverInfo") or (meta or {}).get("io.modelcontextprotocol/serverInfo")
            if isinstance(who, dict):
                server = Server(name=str(who.get("name", "")), version=str(who.get("version", "")))
            if version := result.get("protocolVersion"):
                protocols[str(version)] = None
    return server, list(protocols)


def _messages(one: Interaction) -> list[Any]:
    bodies = [event_data(event) for event in split_events(one.response_body)] if one.streams else [one.response_body]
    return [_json(body) for body in bodies]


def _json(body: bytes) -> Any:
    try:
        return loads_exact(body) if body else None
    except ValueError:
        return None
