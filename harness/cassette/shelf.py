"""Cassettes that are in use: each is read when it is first needed, once in a process, and shared."""

from __future__ import annotations

from pathlib import Path

from harness.cassette.format import Cassette, Header
from harness.cassette.store import read_cassette, read_header


class Shelf:
    """A file that changes on disk while it is in use is not read again: a run speaks of one recording."""

    def __init__(self) -> None:
        self._headers: dict[Path, Header] = {}
        self._cassettes: dict[Path, Cassette] = {}

    @property
    def loaded(self) -> int:
        """How many bodies were read."""
        return len(self._cassettes)

    def header(self, path: Path) -> Header:
        """Without reading any body. Raises BadCassette."""
        if path in self._cassettes and (whole := self._cassettes[path].header) is not None:
            return whole
        if path not in self._headers:
            self._headers[path] = read_header(path)
        return self._headers[path]

    def cassette(self, path: Path) -> Cassette:
        """Raises BadCassette."""
        if path not in self._cassettes:
            self._cassettes[path] = read_cassette(path)
        return self._cassettes[path]
