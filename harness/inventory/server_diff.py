"""Facts about the server itself, and about how the two lists were taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.inventory.canonical import json_equal, text_hash
from harness.inventory.facts import Fact
from harness.inventory.shape import seal_texts
from harness.inventory.side import ServerView
from harness.inventory.text_signs import signs
from harness.inventory.walk import escape


def server_facts(old: ServerView | None, new: ServerView | None) -> Iterator[Fact]:
    """What both sides know of the server, compared; None on either side is no difference."""
    if old is None or new is None:
        return
    for word in ("name", "version", "protocol"):
        before, after = getattr(old, word), getattr(new, word)
        if before and after and before != after:
            yield Fact(f"server-{word}-changed", "server", "", f"/server/{word}", before, after)
    before, after = _instructions(old), _instructions(new)
    if before is not None and after is not None and before != after:
        yield Fact("server-instructions-changed", "server", "", "/server/instructions", _length(old), _length(new))
        known = {sign.what for sign in signs(old.instructions or "")}
        for sign in signs(new.instructions or ""):
            if sign.what not in known:
                yield Fact(f"text-{sign.kind}", "server", "", "/server/instructions", new=sign.what, detail={"at": sign.where})
    if old.capabilities is not None and new.capabilities is not None:
        yield from _capabilities(old.capabilities, new.capabilities)
    if set(old.headers) != set(new.headers):
        yield Fact("headers-differ", "server", "", "/server/headers", sorted(old.headers), sorted(new.headers))


def _instructions(server: ServerView) -> str | None:
    """Their hash: an inventory knows no more."""
    return server.instructions_hash if server.instructions is None else text_hash(server.instructions.encode("utf-8", "replace").decode())


def _length(server: ServerView) -> int | None:
    return None if server.instructions is None else len(server.instructions)


def _capabilities(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Fact]:
    for name in sorted(old.keys() | new.keys()):
        place = f"/server/capabilities/{escape(name)}"
        if name not in new:
            yield Fact("capability-removed", "server", "", place, old[name], None)
        elif name not in old:
            yield Fact("capability-added", "server", "", place, None, new[name])
        elif not json_equal(seal_texts(old[name]), seal_texts(new[name])):
            yield Fact("capability-changed", "server", "", place, old[name], new[name])
