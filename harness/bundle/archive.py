"""The archive: a zip file with one possible spelling. What is not byte for byte what we would have written is refused.

Members are stored, not compressed: then no decompressor's choice is part of the file, and nothing can inflate.
"""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Mapping, Sequence

from harness.errors import ContractBroken

LIMIT = 1 << 30
"""Bytes of a whole bundle, at most."""

EPOCH = (1980, 1, 1, 0, 0, 0)


class Tampered(ContractBroken):
    """The bundle is not what was signed. `what` says how that shows."""


def tampered(what: str) -> Tampered:
    return Tampered(what, where="bundle", fix="do not rely on it; get the bundle again from who made it")


def pack(members: Mapping[str, bytes]) -> bytes:
    """The archive of these members, in order of name. The same members give the same bytes, on any machine."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, EPOCH)
            info.create_system = 3  # the same whatever machine writes it
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, members[name])
    return buffer.getvalue()


def unpack(content: bytes, expected: Sequence[str]) -> dict[str, bytes]:
    """The members, exactly those of `expected`. Nothing is ever written to a disk. Raises Tampered."""
    if len(content) > LIMIT:
        raise tampered(f"it has {len(content)} bytes, more than {LIMIT}")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {info.filename: archive.read(info) for info in _sound(archive.infolist(), expected, len(content))}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, OSError, OverflowError, UnicodeError, LookupError) as error:
        raise tampered(f"it is no sound archive: {type(error).__name__}: {error}") from error
    if pack(members) != content:
        raise tampered("its container was altered: the same members are written otherwise")
    return members


def _sound(infos: Sequence[zipfile.ZipInfo], expected: Sequence[str], size: int) -> Sequence[zipfile.ZipInfo]:
    """Refuses, before anything is read, what an archive can do to its reader."""
    names = [info.filename for info in infos]
    for info in infos:
        if info.filename not in expected:
            shown = info.filename[:100].encode("unicode_escape").decode()
            where = " that would leave its folder" if ".." in info.filename or info.filename.startswith(("/", "\\")) or ":" in info.filename else ""
            raise tampered(f"it holds {shown!r}, a member{where} that does not belong in a bundle")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise tampered(f"{info.filename} is a symbolic link")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.file_size > size:
            raise tampered(f"{info.filename} is compressed or claims another size than it has")
    for name in expected:
        if names.count(name) != 1:
            raise tampered(f"it holds {name} {names.count(name)} times")
    return infos
