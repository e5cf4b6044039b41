"""What one Honcho account holds in memory, and the background work that becomes due on the given clock.

Reading through Honcho's own server creates what it names (workspace, peer, session), so a mistyped id gives a clean,
empty success and leaves a junk record. The stand-in keeps that trap: see `Workspace.peer` and `Workspace.session`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from harness.fake.kit_store import Ids

Metadata = dict[str, Any]

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,512}")


class Refused(Exception):
    """What the provider answers with an error result; the text is what the caller reads."""


def checked_id(value: str, what: str) -> str:
    """The id itself; Refused unless it is 1 to 512 letters, digits, `_` or `-`."""
    if _ID.fullmatch(value) is None:
        raise Refused(f"Invalid {what} {value[:80]!r}: use 1 to 512 letters, digits, underscores or hyphens")
    return value


@dataclass(slots=True)
class Peer:
    id: str
    created_at: datetime
    metadata: Metadata = field(default_factory=dict)
    observe_me: bool | None = None
    cards: dict[str, list[str]] = field(default_factory=dict)  # target peer → short facts


@dataclass(slots=True)
class Seat:
    """How a peer sits in one session; None leaves it to the peer's own configuration."""

    observe_me: bool | None = None
    observe_others: bool | None = None


@dataclass(slots=True)
class Message:
    id: str
    session_id: str
    peer_id: str
    content: str
    created_at: datetime
    metadata: Metadata = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """A rough size: one token for four characters, at least one."""
        return max(1, len(self.content) // 4)


@dataclass(slots=True)
class Session:
    id: str
    created_at: datetime
    metadata: Metadata = field(default_factory=dict)
    seats: dict[str, Seat] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)


@dataclass(slots=True)
class Conclusion:
    """What `observer` holds about `observed`. `premises` are the conclusions that it was derived from."""

    id: str
    observer: str
    observed: str
    content: str
    created_at: datetime
    session_id: str | None = None
    level: str = "explicit"
    premises: tuple[str, ...] = ()


@dataclass(slots=True)
class Scope:
    id: str
    created_at: datetime
    metadata: Metadata = field(default_factory=dict)
    session_ids: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Work:
    """One unit of background work: to derive from a message, or a dream over what a pair has concluded."""

    queued_at: datetime
    delay_s: float  # infinite where no deriver runs: then the work waits for ever
    observer: str
    observed: str
    session_id: str | None
    message: Message | None = None
    done: bool = False

    def is_due(self, now: datetime) -> bool:
        return not self.done and (now - self.queued_at).total_seconds() >= self.delay_s


@dataclass(slots=True)
class Workspace:
    id: str
    created_at: datetime
    ids: Ids
    metadata: Metadata = field(default_factory=dict)
    peers: dict[str, Peer] = field(default_factory=dict)
    sessions: dict[str, Session] = field(default_factory=dict)
    deleted_sessions: set[str] = field(default_factory=set)
    conclusions: dict[str, Conclusion] = field(default_factory=dict)
    scopes: dict[str, Scope] = field(default_factory=dict)
    queue: list[Work] = field(default_factory=list)

    def peer(self, peer_id: str, now: datetime) -> Peer:
        """The peer, made if it is new."""
        if peer_id not in self.peers:
            self.peers[checked_id(peer_id, "peer id")] = Peer(peer_id, now)
        return self.peers[peer_id]

    def session(self, session_id: str, now: datetime) -> Session:
        """The session, made if it is new; Refused if it was deleted (a deleted id is never used again)."""
        checked_id(session_id, "session id")
        if session_id in self.deleted_sessions:
            raise Refused(f"Session {session_id} not found")
        if session_id not in self.sessions:
            self.sessions[session_id] = Session(session_id, now)
        return self.sessions[session_id]

    def scope(self, scope_id: str) -> Scope:
        """The scope; Refused if there is none: scopes are not made by reading."""
        found = self.scopes.get(checked_id(scope_id, "scope id"))
        if found is None:
            raise Refused(f"Scope {scope_id} not found")
        return found

    def conclusion(self, conclusion_id: str) -> Conclusion:
        found = self.conclusions.get(conclusion_id)
        if found is None:
            raise Refused(f"Conclusion {conclusion_id} not found")
        return found

    def messages(self) -> Iterator[Message]:
        """Every message of the workspace, session by session, oldest first."""
        for session in self.sessions.values():
            yield from session.messages

    def seated(self, session: Session, peer_id: str, now: datetime) -> Seat:
        """The peer's seat in the session, made if it is new."""
        self.peer(peer_id, now)
        return session.seats.setdefault(peer_id, Seat())

    def say(self, session: Session, peer_id: str, content: str, metadata: Metadata, now: datetime, delay_s: float) -> Message:
        """Append a message; its derivation is queued unless the peer is not observed."""
        seat = self.seated(session, peer_id, now)
        message = Message(self.ids.short("message"), session.id, peer_id, content, now, metadata)
        session.messages.append(message)
        observed = seat.observe_me if seat.observe_me is not None else self.peers[peer_id].observe_me
        if observed is not False:
            self.queue.append(Work(now, delay_s, peer_id, peer_id, session.id, message))
        return message

    def conclude(
        self,
        observer: str,
        observed: str,
        content: str,
        now: datetime,
        *,
        session_id: str | None = None,
        level: str = "explicit",
        premises: tuple[str, ...] = (),
    ) -> Conclusion:
        """Record a conclusion of `observer` about `observed`."""
        made = Conclusion(self.ids.short("conclusion"), observer, observed, content, now, session_id, level, premises)
        self.conclusions[made.id] = made
        return made

    def about(self, observer: str, observed: str, session_id: str | None = None) -> list[Conclusion]:
        """What `observer` holds about `observed`, oldest first."""
        return [
            one
            for one in self.conclusions.values()
            if (one.observer, one.observed) == (observer, observed) and session_id in (None, one.session_id)
        ]

    def delete_session(self, session_id: str) -> None:
        """Remove the session with its messages and waiting work; Refused if there is none."""
        if session_id not in self.sessions:
            raise Refused(f"Session {session_id} not found")
        del self.sessions[session_id]
        self.deleted_sessions.add(session_id)
        self.queue = [work for work in self.queue if work.done or work.session_id != session_id]
        for scope in self.scopes.values():
            if session_id in scope.session_ids:
                scope.session_ids.remove(session_id)

    def work_through(self, now: datetime) -> None:
        """Do the work that is due, in the order in which it fell due."""
        due = [(work.queued_at + timedelta(seconds=work.delay_s), work) for work in self.queue if work.is_due(now)]
        for at, work in sorted(due, key=lambda pair: pair[0]):
            work.done = True
            self._derive(work, at)

    def _derive(self, work: Work, at: datetime) -> None:
        if work.message is not None:
            content = f"{work.message.peer_id} said: {work.message.content}"
            self.conclude(work.observer, work.observed, content, at, session_id=work.session_id)
            return
        premises = [one for one in self.about(work.observer, work.observed, work.session_id) if one.level == "explicit"]
        if premises:  # a dream over nothing finds nothing
            content = " / ".join(one.content for one in premises)
            named = tuple(one.id for one in premises)
            self.conclude(work.observer, work.observed, content, at, session_id=work.session_id, level="deductive", premises=named)


@dataclass(slots=True)
class Memory:
    """The store of one account."""

    ids: Ids
    workspaces: dict[str, Workspace] = field(default_factory=dict)

    def workspace(self, workspace_id: str, now: datetime) -> Workspace:
        """The workspace, made if it is new, with its due work done."""
        if workspace_id not in self.workspaces:
            self.workspaces[checked_id(workspace_id, "workspace id")] = Workspace(workspace_id, now, self.ids)
        found = self.workspaces[workspace_id]
        found.work_through(now)
        return found
