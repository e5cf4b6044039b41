"""Progress on standard error: a bar on a terminal, silence elsewhere (a CI log wants results, not motion)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.engine.run import Progress

Listener = Callable[["Progress"], None]


@contextmanager
def progress(total: int, *, quiet: bool = False) -> Iterator[Listener | None]:
    """A listener for `total` plan items, or None when nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    running: dict[str, None] = {}
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=total)

        def listen(event: Progress) -> None:
            if event.state == "started":
                running[event.item_id] = None
            else:
                running.pop(event.item_id, None)
                bar.advance(task)
            bar.update(task, description=escape(", ".join(running)[:80]))

        yield listen
