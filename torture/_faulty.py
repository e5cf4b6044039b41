"""A file layer under SQLite that remembers what was synced, and fails when told to: power cuts and broken disks without either."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw


class FaultyFile(apsw.VFSFile):
    def __init__(self, vfs: FaultyVfs, name: Any, flags: list[int]) -> None:
        super().__init__(vfs.base_name, name, flags)
        self._vfs = vfs
        self._real = str(name.filename() if isinstance(name, apsw.URIFilename) else name)

    def xSync(self, flags: int) -> None:
        self._vfs.tell("sync")
        super().xSync(flags)
        self._vfs.images[self._real] = Path(self._real).read_bytes()

    def xWrite(self, data: Any, offset: int) -> None:
        self._vfs.tell("write")
        super().xWrite(data, offset)


class FaultyVfs(apsw.VFS):
    """`images`: file → its content as of the last sync, which is all that a power cut leaves. `fails`: asked before each write and sync."""

    def __init__(self, name: str) -> None:
        self.base_name = ""
        super().__init__(name, self.base_name)
        self.name = name
        self.images: dict[str, bytes] = {}
        self.fails: Any = lambda what: None

    def tell(self, what: str) -> None:
        error = self.fails(what)
        if error is not None:
            raise error

    def xOpen(self, name: Any, flags: list[int]) -> FaultyFile:
        return FaultyFile(self, name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:
        super().xDelete(name, syncdir)
        self.images.pop(name, None)

    def after_power_cut(self, folder: Path) -> None:
        """Puts into `folder` what a disk holds when only synced bytes ever reached it, in place of what was there."""
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for real, image in self.images.items():
            (folder / Path(real).name).write_bytes(image)


@contextlib.contextmanager
def faulty(name: str) -> Iterator[FaultyVfs]:
    vfs = FaultyVfs(name)
    try:
        yield vfs
    finally:
        vfs.unregister()
