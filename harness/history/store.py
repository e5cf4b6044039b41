"""`reports/history.db`: runs, verdicts, times to visible, leftovers and cassettes' freshness, the newest KEEP runs of each kind.

A run is written in one transaction: it is there whole or not at all. Several processes may write; each waits for the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from harness.errors import LoadError, UsageError
from harness.history.rows import ItemRow, Leftover, RunRow, Stored, VisibleRow

KEEP = 500
"""Runs; older ones go, with what they said. Leftovers that nobody removed stay."""
LEFTOVERS = 20_000
BUSY_MS = 10_000
FORMAT = 1
NAME = "history.db"
_FIX = "free some space there, or name a writable folder with --reports-dir"

SCHEMA = """
CREATE TABLE run (run TEXT PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, exit_code INTEGER NOT NULL, level_line TEXT NOT NULL);
CREATE TABLE item (run TEXT NOT NULL REFERENCES run(run) ON DELETE CASCADE, item TEXT NOT NULL, scenario TEXT NOT NULL, level TEXT NOT NULL,
  rehearsed INTEGER NOT NULL, providers TEXT NOT NULL, outcome TEXT NOT NULL, seconds REAL NOT NULL, failed_steps TEXT NOT NULL,
  findings TEXT NOT NULL, cause TEXT NOT NULL, latency_ms REAL, PRIMARY KEY (run, item)) WITHOUT ROWID;
CREATE INDEX item_scenario ON item(scenario, run);
CREATE TABLE visible (run TEXT NOT NULL REFERENCES run(run) ON DELETE CASCADE, item TEXT NOT NULL, step TEXT NOT NULL, provider TEXT NOT NULL,
  tool TEXT NOT NULL, kind TEXT NOT NULL, level TEXT NOT NULL, seconds REAL NOT NULL, attempts INTEGER NOT NULL, visible INTEGER NOT NULL,
  PRIMARY KEY (run, item, step)) WITHOUT ROWID;
CREATE INDEX visible_provider ON visible(provider, kind, run);
CREATE TABLE leftover (id INTEGER PRIMARY KEY, run TEXT NOT NULL, at TEXT NOT NULL, provider TEXT NOT NULL, kind TEXT NOT NULL,
  identity TEXT NOT NULL,
  names TEXT NOT NULL, tool TEXT NOT NULL, host TEXT NOT NULL, removed_at TEXT,
  UNIQUE (run, provider, kind, identity, names));
PRAGMA user_version = 1;
"""


class History:
    """Open with `with History(folder / "history.db") as history:`. Raises UsageError for a disk that refuses, LoadError for another file."""

    def __init__(self, path: Path, *, read_only: bool = False, keep: int = KEEP) -> None:
        self.path = path
        self._read_only = read_only
        self._keep = keep
        self._db: apsw.Connection

    def __enter__(self) -> History:
        flags = apsw.SQLITE_OPEN_READONLY if self._read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        if self._read_only and not self.path.exists():
            raise LoadError("there is no history yet", where=str(self.path), fix="run `harness nightly`, or a run at --level live, first")
        with self._told():
            if not self._read_only:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = apsw.Connection(str(self.path), flags=flags)
        try:
            with self._told():
                self._prepare()
        except BaseException:
            self._db.close(True)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close(True)

    def _prepare(self) -> None:
        self._db.setbusytimeout(BUSY_MS)
        self._db.execute("PRAGMA foreign_keys = ON")
        version = self._db.execute("PRAGMA user_version").get
        if version == 0 and not self._read_only and not self._db.execute("SELECT count(*) FROM sqlite_schema").get:
            with self._writing():
                if self._db.execute("PRAGMA user_version").get == 0:  # another process may have been first
                    self._db.execute(SCHEMA)
            version = FORMAT
        if version != FORMAT:
            raise LoadError(f"not a history of format {FORMAT} (it says {version})", where=str(self.path), fix="move it away; a new one is begun")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.BusyError, OSError) as error:
            raise UsageError(f"the history cannot be used: {_first_line(error)}", where=str(self.path), fix=_FIX) from error
        except (apsw.NotADBError, apsw.CorruptError) as error:
            raise LoadError(f"not a history: {_first_line(error)}", where=str(self.path), fix="move it away; a new one is begun") from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, taken at once, so that two writers wait instead of failing midway."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    # ---- writing

    def add(self, stored: Stored) -> None:
        """Write a run and all it says, in place of what was there under its id; then forget the oldest."""
        with self._told(), self._writing():
            run = stored.run
            self._db.execute("DELETE FROM run WHERE run = ?", (run.run,))
            self._db.execute("INSERT INTO run VALUES (?,?,?,?,?)", (run.run, run.at, run.kind, run.exit_code, run.level_line))
            self._db.executemany(f"INSERT INTO item VALUES ({_marks(12)})", [(run.run, *row.values()) for row in stored.items])
            self._db.executemany(f"INSERT INTO visible VALUES ({_marks(10)})", [(run.run, *row.values()) for row in stored.visible])
            self._db.executemany(
                "INSERT INTO leftover (run, at, provider, kind, identity, names, tool, host) VALUES (?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING",
                [(run.run, run.at, *row.values()) for row in stored.leftovers],
            )
            self._db.execute("DELETE FROM run WHERE run NOT IN (SELECT run FROM run ORDER BY at DESC, run DESC LIMIT ?)", (self._keep,))
            self._db.execute("DELETE FROM leftover WHERE removed_at IS NOT NULL AND run NOT IN (SELECT run FROM run)")
            self._db.execute("DELETE FROM leftover WHERE id NOT IN (SELECT id FROM leftover ORDER BY id DESC LIMIT ?)", (LEFTOVERS,))

    def removed(self, leftovers: Sequence[Leftover], at: str) -> None:
        with self._told(), self._writing():
            self._db.executemany("UPDATE leftover SET removed_at = ? WHERE id = ?", [(at, left.row) for left in leftovers])

    # ---- reading

    def runs(self, limit: int) -> list[RunRow]:
        """Newest first."""
        query = "SELECT run, at, kind, exit_code, level_line FROM run ORDER BY at DESC, run DESC LIMIT ?"
        return [RunRow(*row) for row in self._rows(query, (limit,))]

    def items(self, *, scenario: str = "", limit: int = 1000) -> list[tuple[str, str, ItemRow]]:
        """(run, at, row), newest run first."""
        query = "SELECT item.run, run.at, item.* FROM item JOIN run USING (run) WHERE ? IN ('', scenario) ORDER BY run.at DESC, run.run DESC LIMIT ?"
        return [(row[0], row[1], ItemRow.of(row[3:])) for row in self._rows(query, (scenario, limit))]

    def points(self, scenario: str, item: str, most: int) -> list[tuple[str, str, str, float, float | None, float | None]]:
        """(run, at, outcome, seconds, latency ms, seconds to visible) of a plan item's `most` newest runs, newest first. Run ids sort by time."""
        query = (
            "SELECT item.run, run.at, outcome, item.seconds, latency_ms,"
            " (SELECT max(v.seconds) FROM visible v WHERE v.run = item.run AND v.item = item.item AND v.visible)"
            " FROM item JOIN run USING (run) WHERE scenario = ? AND item.item = ? ORDER BY item.run DESC LIMIT ?"
        )
        return [(str(run), str(at), str(outcome), *rest) for run, at, outcome, *rest in self._rows(query, (scenario, item, most))]

    def visible(self, *, provider: str = "", limit: int = 10_000) -> list[tuple[str, str, VisibleRow]]:
        """(run, at, row), newest run first."""
        query = (
            "SELECT visible.run, run.at, visible.* FROM visible JOIN run USING (run)"
            " WHERE ? IN ('', provider) ORDER BY run.at DESC, run.run DESC LIMIT ?"
        )
        return [(row[0], row[1], VisibleRow.of(row[3:])) for row in self._rows(query, (provider, limit))]

    def leftovers(self, *, provider: str = "") -> list[Leftover]:
        """Those that nobody removed yet, oldest first."""
        query = (
            "SELECT provider, kind, identity, names, tool, host, id, run FROM leftover WHERE removed_at IS NULL AND ? IN ('', provider) ORDER BY id"
        )
        return [Leftover.of(row) for row in self._rows(query, (provider,))]

    def _rows(self, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._told():
            return list(self._db.execute(query, values))


def _marks(count: int) -> str:
    return ",".join("?" * count)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
