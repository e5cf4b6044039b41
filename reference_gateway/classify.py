"""What a tool may do to the world, judged from its wire JSON: read, write or destructive.

Rules in order (the first that speaks wins): a destructive hint; a destructive verb; a reviewed override; a write verb; a hint that
denies read-only; a read verb; else **write**. A read-only hint never lowers a class: it is the provider's own word about itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Risk = Literal["read", "write", "destructive"]

MEMORY_PROVIDERS = frozenset({"mem0", "zep", "supermemory", "cognee", "honcho", "papr"})

# Reviewed by hand: this tool can overwrite what it was not asked to touch, whatever its name says.
_OVERRIDES: Mapping[tuple[str, str], Risk] = {("supermemory", "add-memory"): "destructive"}


@dataclass(frozen=True, slots=True)
class Classified:
    """`reason` names the rule that spoke: `hint:…`, `verb:…`, `override:…` or `unknown`."""

    risk: Risk
    reason: str


def _verbs(words: Iterable[str]) -> re.Pattern[str]:
    # A verb counts as a whole segment: between ends, punctuation, blanks, underscores; never inside a longer word or number.
    return re.compile(rf"(?<![a-z0-9])(?:{'|'.join(words)})(?![a-z0-9])")


@dataclass(frozen=True, slots=True)
class _Profile:
    destructive: re.Pattern[str]
    write: re.Pattern[str]
    read: re.Pattern[str]


_MEMORY_DESTRUCTIVE = ("delete", "remove", "destroy", "forget", "prune", "reset")
_MEMORY_WRITE = ("add", "remember", "save", "record", "ingest", "cognify", "update", "create", "set", "upload", "select", "rename", "share")
_MEMORY_READ = ("get", "list", "search", "recall", "query", "retrieve", "who")

_MEMORY = _Profile(_verbs(_MEMORY_DESTRUCTIVE), _verbs(_MEMORY_WRITE), _verbs(_MEMORY_READ))
# An unknown server may be any kind of server, a memory among them: both vocabularies, and unknown stays write.
_STRICT = _Profile(
    _verbs((*_MEMORY_DESTRUCTIVE, "unpublish", "drop", "truncate", "wipe", "purge")),
    _verbs((*_MEMORY_WRITE, "write", "send", "publish", "post", "mutate", "mark", "archive", "edit", "patch", "merge", "commit", "apply")),
    _verbs(_MEMORY_READ),
)


def classify(provider: str, tool: Mapping[str, Any]) -> Classified:
    """The risk of one tool as listed on the wire; never raises, whatever the provider put into `name` or `annotations`."""
    name = _segments(tool.get("name"))
    hints = tool.get("annotations")
    hints = hints if isinstance(hints, Mapping) else {}
    profile = _MEMORY if provider in MEMORY_PROVIDERS else _STRICT
    for key in ("destructiveHint", "destructive"):
        if hints.get(key) is True:
            return Classified("destructive", f"hint:{key}")
    if found := profile.destructive.search(name):
        return Classified("destructive", f"verb:{found[0]}")
    if override := _OVERRIDES.get((provider, re.sub(r"[\s:._/-]+", "-", name))):
        return Classified(override, f"override:{provider}")
    if found := profile.write.search(name):
        return Classified("write", f"verb:{found[0]}")
    if hints.get("readOnlyHint") is False:
        return Classified("write", "hint:readOnlyHint")
    if hints.get("writeHint") is True:
        return Classified("write", "hint:writeHint")
    if found := profile.read.search(name):
        return Classified("read", f"verb:{found[0]}")
    return Classified("write", "unknown")


def _segments(name: object) -> str:
    """Lower case, with camelCase cut between a lower-case letter or digit and a capital (`HTTPDelete` has no such place)."""
    text = name.strip() if isinstance(name, str) else ""
    return re.sub(r"([a-z0-9])([A-Z])", r"\1-\2", text).lower()
