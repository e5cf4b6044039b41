"""The memory behind the Supermemory stand-in: documents that are queued and later done, and what a consent opens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from harness.fake.kit import Account, Consent, JsonObject
from harness.fake.kit_store import Ids, stamp

DEFAULT_TAG = "sm_project_default"
_UPLOAD_LIFE = timedelta(minutes=15)
_TITLE = 60


@dataclass(slots=True)
class Document:
    """One saved text. Once done it stands behind one memory, until that is forgotten; the document itself stays readable."""

    id: str
    memory_id: str
    content: str
    tag: str
    created_at: datetime
    ready_at: datetime
    forgotten: bool = False

    def done(self, now: datetime) -> bool:
        return self.ready_at <= now

    def summary(self, now: datetime) -> JsonObject:
        done = self.done(now)
        return {
            "id": self.id,
            "title": self.content.strip().partition("\n")[0][:_TITLE],
            "type": "text",
            "status": "done" if done else "queued",
            "containerTag": self.tag,
            "createdAt": stamp(self.created_at),
            "updatedAt": stamp(self.ready_at if done else self.created_at),
        }

    def memory(self) -> JsonObject:
        return {
            "id": self.memory_id,
            "memory": self.content,
            "documentId": self.id,
            "containerTag": self.tag,
            "createdAt": stamp(self.ready_at),
            "updatedAt": stamp(self.ready_at),
        }


@dataclass(frozen=True, slots=True)
class Upload:
    """A ticket to put one text file over plain HTTP, once and in time."""

    id: str
    tag: str
    expires_at: datetime


class SupermemoryStore:
    """One sign-in: its documents, the views its widgets opened, and the tag it works in."""

    def __init__(self, account: Account) -> None:
        self._ids = Ids("supermemory", account.credential)
        self.user_id = self._ids.short("user", 22)
        self.documents: dict[str, Document] = {}
        self.views: set[str] = set()
        self.uploads: dict[str, Upload] = {}
        self.active_tag: str | None = None

    def save(self, content: str, tag: str, now: datetime, ready_at: datetime) -> Document:
        document = Document(self._ids.short("document", 22), self._ids.short("memory", 22), content, tag, now, ready_at)
        self.documents[document.id] = document
        return document

    def forget(self, content: str, tags: Iterable[str], now: datetime) -> Document | None:
        """Forget the newest memory with exactly this text. One that is still queued is dropped together with its document."""
        within = set(tags)
        for document in reversed(self.documents.values()):
            if document.content == content and document.tag in within and not document.forgotten:
                document.forgotten = True
                if not document.done(now):
                    del self.documents[document.id]
                return document
        return None

    def within(self, tags: Iterable[str]) -> list[Document]:
        """Documents of these tags, newest first."""
        chosen = set(tags)
        return [document for document in reversed(self.documents.values()) if document.tag in chosen]

    def memories(self, tags: Iterable[str], now: datetime) -> list[Document]:
        """The documents of these tags that are done and not forgotten, newest first: each is one memory."""
        return [document for document in self.within(tags) if document.done(now) and not document.forgotten]

    def open_view(self) -> str:
        view = self._ids.uuid("view")
        self.views.add(view)
        return view

    def open_upload(self, tag: str, now: datetime) -> Upload:
        upload = Upload(self._ids.short("upload", 32), tag, now + _UPLOAD_LIFE)
        self.uploads[upload.id] = upload
        return upload

    def tags(self, consent: Consent) -> list[str]:
        """Every tag this consent opens: the consented ones, or with full consent all that hold something."""
        if consent.tags is not None:
            return list(consent.tags)
        used = (document.tag for document in self.documents.values())
        return list(dict.fromkeys([DEFAULT_TAG, *([self.active_tag] if self.active_tag else []), *used]))

    def working_tag(self, consent: Consent) -> str | None:
        """Where something goes that names no tag: the active one, else the first consented, else the default project."""
        if self.active_tag is not None and (consent.tags is None or self.active_tag in consent.tags):
            return self.active_tag
        if consent.tags is None:
            return DEFAULT_TAG
        return consent.tags[0] if consent.tags else None
