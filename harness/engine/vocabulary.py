"""The words of the language, collected from the folders that define them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import harness.action
import harness.expect
from harness.action.base import Action
from harness.errors import LoadError, LoadErrors
from harness.expect.base import ExpectationKind
from harness.model.manifest import Manifest
from harness.model.scenario import Vocabulary, Word
from harness.registry import Registry, discover_plugins
from harness.scenario.files import data_root, own_providers
from harness.scenario.manifest import load_manifests


@lru_cache(maxsize=1)
def verbs() -> Registry[Action[Any]]:
    return discover_plugins(harness.action, "ACTION", "verb", "harness.action")


@lru_cache(maxsize=1)
def kinds() -> Registry[ExpectationKind[Any]]:
    return discover_plugins(harness.expect, "KIND", "expectation", "harness.expect")


@lru_cache(maxsize=4)
def manifests(root: Path) -> Mapping[str, Manifest]:
    return load_manifests(root / "providers")


def manifests_for(files: Iterable[str | Path], root: Path | None = None) -> Mapping[str, Manifest]:
    """The shipped ones, and those that stand in a folder `providers/` near these scenario files. Raises LoadErrors."""
    known = dict(manifests(root or data_root()))
    for folder in own_providers(Path(file) for file in files):
        for name, manifest in manifests(folder.parent).items():
            if known.setdefault(name, manifest) is not manifest:
                what, fix = f"there is a provider {name!r} already", "give this one another id"
                raise LoadErrors([LoadError(what, where=str(folder / f"{name}.yaml"), fix=fix)])
    return known


def load_vocabulary(root: Path | None = None, files: Iterable[Path] = ()) -> Vocabulary:
    """Verbs, expectations and the providers whose manifests are at hand, for scenarios in these files."""
    return Vocabulary(
        verbs={v.id: Word(id=v.id, summary=v.summary, params=v.params, mutates=v.mutates) for v in verbs().values()},
        expectations={k.id: Word(id=k.id, summary=k.summary, params=k.params, scopes=k.scopes) for k in kinds().values()},
        providers=tuple(sorted(manifests_for(files, root))),
    )


def vocabulary_without_files(providers: tuple[str, ...]) -> Vocabulary:
    """For judging stored evidence, where the manifests are in the evidence and no file may be needed."""
    return Vocabulary(
        verbs={v.id: Word(id=v.id, summary=v.summary, params=v.params, mutates=v.mutates) for v in verbs().values()},
        expectations={k.id: Word(id=k.id, summary=k.summary, params=k.params, scopes=k.scopes) for k in kinds().values()},
        providers=providers,
    )
