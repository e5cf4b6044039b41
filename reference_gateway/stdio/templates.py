"""Approved commands of local servers, from the file that the gateway was started with. No command ever comes over the operator API."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from reference_gateway.bodies import Body, parse
from reference_gateway.errors import GatewayError

MAX_FILE = 1024 * 1024
FLAG = "--templates"

_KEY = re.compile(r"[A-Z][A-Z0-9_]{0,99}")
# What would let a credential decide which program runs, or what it loads.
_FORBIDDEN = re.compile(r"PATH|HOME|LANG|IFS|ENV|BASH_ENV|SHELL|LD_.*|DYLD_.*|PYTHON.*|NODE_.*|PERL.*|RUBY.*|JAVA_.*")

Text = Annotated[str, Field(min_length=1, max_length=4096)]


class Template(Body):
    """`env`: key of the child's environment → path of the credential. `backoff_s`: after the first crash; doubles with each."""

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
    title: Annotated[str, Field(min_length=1, max_length=200)]
    command: Annotated[list[Text], Field(min_length=1, max_length=100)]
    env: dict[str, Text] = Field(default_factory=dict)
    slots: Annotated[int, Field(ge=1, le=64)] = 4
    restarts: Annotated[int, Field(ge=0, le=100)] = 3
    restart_window_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 600.0
    backoff_s: Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)] = 1.0

    def public(self) -> dict[str, Any]:
        """Without the command: it is the business of whoever runs the gateway."""
        return {"id": self.id, "title": self.title, "env": dict(self.env), "slots": self.slots}


class TemplatesFile(Body):
    templates: list[Template]


def load_templates(file: str | None) -> Mapping[str, Template]:
    """By id; empty without a file. Raises GatewayError `templates_unusable`."""
    if file is None:
        return {}
    try:
        found = parse(TemplatesFile, _read(file))
    except GatewayError as error:
        if error.code == "templates_unusable":
            raise
        raise _unusable(f"{error.message}: {error.where}", file, "write it as docs/operator-api.md says") from error
    known: dict[str, Template] = {}
    for each in found.templates:
        _check(each, file)
        if each.id in known:
            raise _unusable(f"two templates are named {each.id!r}", file, "give each a name of its own")
        known[each.id] = each
    return known


def _read(file: str) -> bytes:
    try:
        # Judged and read through one descriptor, so that the file cannot be exchanged in between.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or "not a file name"
        raise _unusable(f"the file of templates cannot be opened: {what}", file, "name a readable JSON file") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise _unusable("the file of templates is not a regular file", file, "name a JSON file")
        if stat.S_IMODE(status.st_mode) & 0o022:
            raise _unusable("others may change the file of templates", file, "chmod go-w the file")
        if status.st_uid not in (os.geteuid(), 0):
            raise _unusable("the file of templates is another user's", file, "chown it to the gateway's user")
        if status.st_size > MAX_FILE:
            raise _unusable(f"the file of templates is larger than {MAX_FILE} bytes", file, "keep only what is used")
        pieces = []
        while piece := os.read(descriptor, 65536):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def _check(template: Template, file: str) -> None:
    program = Path(template.command[0])
    if any("\0" in word for word in template.command):
        raise _unusable("a word of the command holds a NUL", f"{file}: {template.id}", "remove it")
    if not program.is_absolute() or not os.access(program, os.X_OK) or program.is_dir():
        raise _unusable("the command is not the absolute path of a program", f"{file}: {template.id}", "write the whole path of an executable file")
    for key in template.env:
        if not _KEY.fullmatch(key) or _FORBIDDEN.fullmatch(key):
            raise _unusable("a key of the environment may not be set by a credential", f"{file}: {template.id}.env", "use the server's own keys")


def _unusable(what: str, where: str, fix: str) -> GatewayError:
    return GatewayError("templates_unusable", what, where=where, fix=fix)
