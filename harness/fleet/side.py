"""A side got: from a URL, a command, a file, an inventory or a gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.discover.capture import AUTO, capture_stdio, capture_url
from harness.discover.cassette import Recorded, capture_cassette, is_cassette
from harness.discover.sources import capture_data
from harness.discover.wire import Limits
from harness.errors import LoadError, UsageError
from harness.fleet.source import Source
from harness.inventory.jsontext import parse_json
from harness.inventory.published import import_published, is_published
from harness.inventory.side import Side, capture_side, inventory_side
from harness.inventory.store import inventory_path, parse_inventory
from harness.model.inventory import Inventory
from harness.model.tool import Capture
from harness.registry import suggest
from harness.risk.oracle import Oracle

_FILE_BYTES = 64 * 1024 * 1024
YAML = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Access:
    """How live sides are reached. `headers` hold secrets: never shown, stored or sent anywhere but to the URL. `env` goes to commands."""

    protocol: str = AUTO
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    provider: str | None = None
    level: str = "fake"
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Loaded:
    """`agreed` is what an inventory or a catalog says, `capture` a tool list as it came: exactly one of them is set.

    `text` and `file` are the document that it came from, for positions. `against` is set where the source decides it.
    """

    agreed: Side | None = None
    file: str = ""
    text: str | None = None
    provider: str = ""
    inventory: Inventory | None = None
    capture: Capture | None = None
    against: str = ""

    @property
    def label(self) -> str:
        return self.agreed.label if self.agreed else self.capture.source if self.capture else ""


def with_document(source: Source, folders: Sequence[Path]) -> Source:
    """The source with its file read, where it is one; a provider becomes the file of its inventory. Raises LoadError."""
    if source.kind not in ("file", "provider") or source.document is not None:
        return source
    path = Path(source.text) if source.kind == "file" else find_inventory(source.text, folders)
    try:
        raw = path.read_bytes()
        if len(raw) > _FILE_BYTES:
            raise LoadError(f"larger than {_FILE_BYTES} bytes", where=str(path), fix="give a smaller file")
        return Source(kind="file", text=str(path), document=raw.decode("utf-8"))
    except OSError as error:
        raise LoadError(f"cannot be read: {error.strerror}", where=str(path), fix="check the path") from error
    except UnicodeDecodeError as error:
        raise LoadError("is not UTF-8", where=str(path), fix="store it as UTF-8") from error


def find_inventory(provider: str, folders: Sequence[Path]) -> Path:
    """The inventory file of a provider: the first folder that has one. Raises LoadError with a suggestion."""
    for folder in folders:
        if inventory_path(folder, provider).is_file():
            return inventory_path(folder, provider)
    known = sorted({path.stem for folder in folders for path in folder.glob("*.yaml")})
    hint = suggest(provider, known) if known else "capture one first"
    raise LoadError(f"neither a file nor a provider with an inventory: {provider!r}", where=provider, fix=f"{hint}, or give a URL")


async def load(source: Source, access: Access) -> Loaded:
    """The side as it is now. Raises the HarnessError that says why there is no first page, or what is wrong with the file."""
    if source.kind == "url":
        capture = await capture_url(source.text, protocol_version=access.protocol, headers=access.headers, limits=access.limits)
        return _captured(capture, access)
    if source.kind == "stdio":
        capture = await capture_stdio(source.command, env=access.env, protocol_version=access.protocol, limits=access.limits)
        return _captured(replace(capture, source=source.text), access)
    if source.kind == "gateway":
        from harness.fleet.gateway import gateway_side  # starts processes; most checks do not

        side, level = await gateway_side(source.text, source.target, access.level)
        return Loaded(side, provider=source.text, against="fake" if level == "fake" else "local")
    if source.document is None:
        raise UsageError("the file was not read", where=source.text, fix="read it with with_document first")
    return _document(source.text, source.document, access)


def _captured(capture: Capture, access: Access) -> Loaded:
    return Loaded(provider=access.provider or "", capture=capture)


def with_risks(loaded: Loaded, reviewed: Inventory | None) -> Side:
    """The side with the classes that we give its tools: as reviewed in the inventory it is compared with, unless it now says worse of itself."""
    if loaded.capture is None:
        assert loaded.agreed is not None  # one of the two is set
        return loaded.agreed
    oracle = Oracle({reviewed.provider: reviewed} if reviewed else {})
    provider = reviewed.provider if reviewed else "generic"
    return capture_side(loaded.capture, risks={tool.name: oracle.judge(provider, tool).risk for tool in loaded.capture.tools})


def _document(name: str, text: str, access: Access) -> Loaded:
    if name.endswith(YAML):
        if is_cassette(text):
            return _recorded(capture_cassette(text, name), name, access)
        inventory = parse_inventory(text, name)
        return Loaded(inventory_side(inventory), name, text, inventory.provider, inventory)
    data = parse_json(text.encode(), where=name, max_bytes=_FILE_BYTES)
    if is_published(data):
        inventory = _chosen(import_published(data, where=name), access.provider, name)
        return Loaded(inventory_side(inventory), name, text, inventory.provider, inventory)
    loaded = _captured(capture_data(data, name), access)
    return Loaded(file=name, text=text, provider=loaded.provider, capture=loaded.capture)


def _recorded(found: Recorded, name: str, access: Access) -> Loaded:
    """A recording whose texts are hashes is a side of which hashes are known; one without a list has no tools to be missed."""
    if found.sealed:
        return Loaded(capture_side(found.capture, sealed_texts=True), name, None, access.provider or "")
    return Loaded(file=name, provider=access.provider or "", capture=found.capture)


def _chosen(found: Mapping[str, Inventory], provider: str | None, where: str) -> Inventory:
    if provider is None and len(found) == 1:
        return next(iter(found.values()))
    if provider is None:
        raise LoadError(f"holds {len(found)} providers", where=where, fix=f"choose one with --provider: {', '.join(found)}")
    if provider not in found:
        raise LoadError(f"no provider {provider!r} in it", where=where, fix=suggest(provider, list(found)))
    return found[provider]


def same_endpoint(one: Any, other: Any) -> bool:
    """Whether two URLs name the same endpoint: without query, credentials, trailing slash, and case of scheme and host."""
    from urllib.parse import urlsplit

    if not (isinstance(one, str) and isinstance(other, str)):
        return False
    shapes = []
    for text in (one, other):
        parts = urlsplit(text)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme.lower())
        shapes.append((parts.scheme.lower(), (parts.hostname or "").lower(), port, parts.path.rstrip("/")))
    return shapes[0] == shapes[1]
