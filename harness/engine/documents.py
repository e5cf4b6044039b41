"""The documents a verdict rests on: read from files when a run starts, from the evidence when it is judged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from harness.errors import LoadError
from harness.expect.view import View
from harness.inventory.store import inventory_path, parse_inventory
from harness.model.evidence import Document, EvidenceRecord
from harness.model.inventory import Inventory
from harness.model.manifest import Manifest
from harness.model.scenario import Scenario
from harness.scenario.manifest import load_manifest


@dataclass
class Documents:
    """Manifest and inventory texts by provider. `of` embeds each document once per evidence file."""

    manifests: Mapping[str, Document]
    inventories: Mapping[str, Document]
    parsed_manifests: Mapping[str, Manifest] = field(init=False)
    parsed_inventories: Mapping[str, Inventory] = field(init=False)
    _embedded: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.parsed_manifests = {p: load_manifest(d.text, d.name) for p, d in self.manifests.items()}
        self.parsed_inventories = {p: parse_inventory(d.text, d.name) for p, d in self.inventories.items()}

    def of(self, scenario: Scenario) -> tuple[tuple[str, ...], dict[str, Document]]:
        """(hashes of all documents of this scenario, those not yet embedded in this file)."""
        providers = sorted({spec.provider or name for name, spec in scenario.connections.items()})
        needed = [Document(kind="scenario", name=scenario.file, text=scenario.source)]
        needed += [self.manifests[p] for p in providers if p in self.manifests]
        needed += [self.inventories[p] for p in providers if p in self.inventories]
        keyed = {key_of(d): d for d in needed}
        fresh = {k: d for k, d in keyed.items() if k not in self._embedded}
        self._embedded.update(fresh)
        return tuple(keyed), fresh

    def view(self, records: Sequence[EvidenceRecord], scenario: Scenario) -> View:
        return view_of(records, scenario, self.parsed_manifests, self.parsed_inventories)


def key_of(document: Document) -> str:
    return hashlib.sha256(document.text.encode("utf-8", "surrogatepass")).hexdigest()


def view_of(records: Sequence[EvidenceRecord], scenario: Scenario, manifests: Mapping[str, Manifest], inventories: Mapping[str, Inventory]) -> View:
    providers = {name: spec.provider or name for name, spec in scenario.connections.items()}
    return View(records, providers, manifests, inventories)


def read_documents(
    root: Path, providers: Sequence[str], compared: Mapping[str, str] = MappingProxyType({}), own: Sequence[Path] = ()
) -> Documents:
    """The manifest of each provider, and its inventory where there is one; `compared` maps those that must have one to who needs it.
    `own`: folders of manifests that are not shipped.

    Raises LoadError or LoadErrors (2) for a missing or broken manifest or inventory.
    """
    manifests, inventories = {}, {}
    for provider in providers:
        home = next((folder.parent for folder in own if (folder / f"{provider}.yaml").exists()), root)
        manifests[provider] = read_document("manifest", home, f"providers/{provider}.yaml", "write the provider's manifest")
        path = inventory_path(root / "inventories", provider)
        if path.exists():
            inventories[provider] = read_document("inventory", root, f"inventories/{provider}.yaml", "make it readable")
        elif provider in compared:
            fix = f"write {path.name} from a reviewed capture; what is not agreed cannot be compared"
            raise LoadError(f"no inventory for provider {provider!r}, which {compared[provider]} compares with", where=str(path), fix=fix)
    return Documents(manifests, inventories)


def read_document(kind: Literal["manifest", "inventory"], root: Path, name: str, fix: str) -> Document:
    try:
        return Document(kind=kind, name=name, text=(root / name).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise LoadError(f"no such {kind}", where=str(root / name), fix=fix) from error
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"the {kind} cannot be read: {error}", where=str(root / name), fix="make it a readable UTF-8 file") from error
