"""`servers.yaml` (or `.jsonl`, one server a line, for thousands): which servers a fleet check asks, and by what it judges them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError

from harness.errors import LoadError, LoadErrors
from harness.fleet.source import Source, command_source, parse_source
from harness.model.location import Frozen
from harness.registry import suggest
from harness.yaml_hints import source_lines
from harness.yaml_nodes import MapNode, Node, SeqNode, locate, parse_yaml

ServerId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?\Z")


class Server(Frozen):
    """`new` is a URL, a file or a command line; `command` a list of words instead. `old` is left out where the id has an inventory.

    `header_env` maps a header's name to the environment variable that holds its value; `env` names variables for a command. Both are
    read where the check runs, so that no secret is in a plan or crosses a scheduler.
    """

    id: ServerId
    new: str | None = None
    command: tuple[str, ...] = ()
    old: str | None = None
    provider: str | None = None
    protocol: str = "auto"
    against: Literal["live", "local", "fake"] | None = None
    header_env: Mapping[str, str] = Field(default_factory=dict)
    env: tuple[str, ...] = ()


class Job(Frozen):
    """One server as it travels to a worker: plain data, files already read."""

    server: Server
    old: Source
    new: Source


def load_servers(path: Path) -> tuple[Server, ...]:
    """Raises LoadError when the file cannot be read, LoadErrors with everything that is wrong in it, by line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"cannot be read: {error}", where=str(path), fix="check the path; it must be UTF-8") from error
    errors: list[LoadError] = []
    servers = tuple(_lines(text, path, errors) if path.suffix == ".jsonl" else _yaml(text, path, errors))
    seen: set[str] = set()
    for server in servers:
        if server.id in seen:
            errors.append(LoadError(f"server {server.id!r} stands twice", where=str(path), fix="give each its own id"))
        seen.add(server.id)
        if (server.new is None) == (not server.command):
            errors.append(LoadError(f"server {server.id!r} needs `new` or `command`", where=str(path), fix="write exactly one of them"))
        if _RESERVED.match(server.id):
            errors.append(LoadError(f"{server.id!r} is no file name everywhere", where=str(path), fix="choose another id"))
    if not servers and not errors:
        errors.append(LoadError("it names no server", where=f"{path}:1:1", fix="write servers: [{id: …, new: …}]"))
    if errors:
        raise LoadErrors(errors[:100])
    return servers


def sources_of(server: Server, folder: Path) -> tuple[Source, Source]:
    """(old, new), unread; paths are relative to `folder`, that of the servers' file."""
    new = command_source(server.command) if server.command else _source(server.new or "", folder)
    old = Source(kind="provider", text=server.provider or server.id) if server.old is None else _source(server.old, folder)
    return old, new


def _source(text: str, folder: Path) -> Source:
    beside = folder / text
    return Source(kind="file", text=str(beside)) if not text.startswith(("http:", "https:")) and beside.is_file() else parse_source(text)


def _yaml(text: str, path: Path, errors: list[LoadError]) -> Iterator[Server]:
    root, lines = parse_yaml(text, str(path)), source_lines(text)
    listed: Node | None = root
    if isinstance(root, MapNode):
        listed = root.entries.get("servers")
        errors += [
            LoadError(f"unknown key {key!r}", where=str(mark), fix=suggest(key, ["servers"])) for key, mark in root.keys.items() if key != "servers"
        ]
    if not isinstance(listed, SeqNode):
        errors.append(LoadError("a fleet is a list", where=str(root.location), fix="write servers: and one `- id: …` per server"))
        return
    for item in listed.items:
        yield from _server(item.plain(), errors, lambda place, node=item: _mark(node, place, lines))


def _mark(node: Node, place: tuple[str | int, ...], lines: list[str]) -> tuple[str, str]:
    at = locate(node, place, key=True)
    return str(at), lines[at.line - 1].strip()[:160]


def _lines(text: str, path: Path, errors: list[LoadError]) -> Iterator[Server]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                data = json.loads(line)
            except ValueError as error:
                errors.append(LoadError(f"not JSON: {error}", where=f"{path}:{number}:1", fix="write one JSON object a line"))
                continue
            yield from _server(data, errors, lambda _, at=f"{path}:{number}:1", said=line[:160]: (at, said))


def _server(data: Any, errors: list[LoadError], place: Any) -> Iterable[Server]:
    try:
        return (Server.model_validate(data),)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            where, excerpt = place(tuple(problem["loc"]))
            key = str(problem["loc"][0]) if problem["loc"] else ""
            unknown = problem["type"] == "extra_forbidden"
            what = f"unknown key {key!r}" if unknown else f"{key or 'the server'}: {problem['msg']}"
            fix = suggest(key, list(Server.model_fields)) if unknown else "see docs/drift.md, fleets"
            errors.append(LoadError(what, where=where, fix=fix, excerpt=excerpt))
        return ()
