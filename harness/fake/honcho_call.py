"""One tool call as the Honcho handlers see it, and the result forms they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from harness.fake.honcho_filter import FilterError, check, matches
from harness.fake.honcho_store import Conclusion, Memory, Message, Peer, Refused, Session, Workspace
from harness.fake.kit_store import numbered_page

T = TypeVar("T")

MESSAGE_FIELDS: Final = ("id", "session_id", "peer_id", "content", "metadata", "token_count", "created_at")
CONCLUSION_FIELDS: Final = ("id", "peer_id", "target_peer_id", "content", "session_id", "level", "premises", "created_at")

Json = dict[str, Any]
Handler = Callable[["Call"], Json | str]
"""A tool: returns the JSON object (or the plain text) of its result, or raises Refused."""


@dataclass(frozen=True, slots=True)
class Call:
    """Arguments already fit the tool's schema. `workspace` is opened by the dispatcher, but for `list_workspaces`."""

    memory: Memory
    arguments: Json
    now: datetime
    delay_s: float  # from now until queued background work is done
    opened: Workspace | None = None

    @property
    def workspace(self) -> Workspace:
        if self.opened is None:
            raise Refused("workspace_id is needed: pass it, or set the X-Honcho-Workspace-ID header")
        return self.opened

    def text(self, name: str) -> str:
        return str(self.arguments[name])

    def maybe(self, name: str) -> str | None:
        value = self.arguments.get(name)
        return None if value is None else str(value)

    def count(self, name: str, default: int, most: int = 100) -> int:
        """A whole number from 1 to `most`; the schemas say only "number"."""
        value = self.arguments.get(name, default)
        if (isinstance(value, float) and not value.is_integer()) or not 1 <= value <= most:
            raise Refused(f"{name} must be a whole number from 1 to {most}")
        return int(value)

    def peer(self, name: str = "peer_id") -> Peer:
        return self.workspace.peer(self.text(name), self.now)

    def target(self) -> str:
        """The peer that is looked at: the target, or else the peer itself."""
        return self.workspace.peer(self.maybe("target_peer_id") or self.text("peer_id"), self.now).id

    def session(self) -> Session:
        return self.workspace.session(self.text("session_id"), self.now)

    def maybe_session(self) -> Session | None:
        return None if self.maybe("session_id") is None else self.session()

    def kept_messages(self, messages: Sequence[Message], name: str = "filters") -> list[Message]:
        """Those that pass the filter argument `name`; Refused if the filter is not understood."""
        return self._kept(messages, show_message, MESSAGE_FIELDS, name)

    def kept_conclusions(self, conclusions: Sequence[Conclusion], name: str = "filters") -> list[Conclusion]:
        """Those that pass the filter argument `name`; Refused if the filter is not understood."""
        return self._kept(conclusions, show_conclusion, CONCLUSION_FIELDS, name)

    def _kept(self, items: Sequence[T], fields_of: Callable[[T], Json], fields: Sequence[str], name: str) -> list[T]:
        condition = self.arguments.get(name) or {}
        try:
            check(condition, fields)
            return [item for item in items if matches(fields_of(item), condition)]
        except FilterError as problem:
            raise Refused(f"Invalid filter: {problem}") from None

    def page(self, items: Sequence[T], show: Callable[[T], Any]) -> Json:
        """One page (50 items unless asked otherwise), with what is needed to ask for the next."""
        ordered = items[::-1] if self.arguments.get("reverse") else items
        page = numbered_page(ordered, int(self.arguments.get("page", 1)), int(self.arguments.get("size", 50)))
        shown = [show(item) for item in page.items]
        return {"items": shown, "page": page.number, "size": page.size, "total": page.total, "pages": page.pages}


def show_peer(peer: Peer) -> Json:
    return {
        "id": peer.id,
        "metadata": peer.metadata,
        "configuration": {"observeMe": peer.observe_me},
        "created_at": peer.created_at.isoformat(),
    }


def show_session(session: Session) -> Json:
    return {"id": session.id, "metadata": session.metadata, "created_at": session.created_at.isoformat()}


def show_message(message: Message) -> Json:
    return {
        "id": message.id,
        "session_id": message.session_id,
        "peer_id": message.peer_id,
        "content": message.content,
        "metadata": message.metadata,
        "token_count": message.tokens,
        "created_at": message.created_at.isoformat(),
    }


def show_conclusion(conclusion: Conclusion) -> Json:
    return {
        "id": conclusion.id,
        "peer_id": conclusion.observer,
        "target_peer_id": conclusion.observed,
        "content": conclusion.content,
        "session_id": conclusion.session_id,
        "level": conclusion.level,
        "premises": list(conclusion.premises),
        "created_at": conclusion.created_at.isoformat(),
    }
