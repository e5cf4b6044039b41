"""Facts about the server itself, and about how the two lists were taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.inventory.canonical import json_equal
from harness.inventory.facts import Fact
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
    if old.instructions is not None and new.instructions is not None and old.instructions != new.instructions:
        yield Fact("server-instructions-changed", "server", "", "/server/instructions", len(old.instructions), len(new.instructions))
        known = {sign.what for sign in signs(old.instructions)}
        for sign in signs(new.instructions):
            if sign.what not in known:
                yield Fact(f"text-{sign.kind}", "server", "", "/server/instructions", new=sign.what, detail={"at": sign.where})
    if old.capabilities is not None and new.capabilities is not None:
        yield from _capabilities(old.capabilities, new.capabilities)
    if set(old.headers) != set(new.headers):
        yield Fact("headers-differ", "server", "", "/server/headers", sorted(old.headers), sorted(new.headers))


def _capabilities(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Fact]:
    for name in sorted(old.keys() | new.keys()):
        place = f"/server/capabilities/{escape(name)}"
        if name not in new:
            yield Fact("capability-removed", "server", "", place, old[name], None)
        elif name not in old:
            yield Fact("capability-added", "server", "", place, None, new[name])
        elif not json_equal(old[name], new[name]):
            yield Fact("capability-changed", "server", "", place, old[name], new[name])
