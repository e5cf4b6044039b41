"""providers/<id>.yaml → Manifest. The file's name is the provider's id."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from harness.errors import LoadError, LoadErrors
from harness.model.manifest import Manifest
from harness.registry import suggest
from harness.scenario.files import shown
from harness.scenario.load import read_text
from harness.scenario.params import check_model
from harness.scenario.problems import Problems, in_order
from harness.yaml_nodes import ScalarNode, parse_yaml


def load_manifest(text: str, file: str) -> Manifest:
    """Raises LoadErrors with everything that is wrong, positioned."""
    try:
        node = parse_yaml(text, file)
    except LoadError as error:
        raise LoadErrors([error]) from None
    problems = Problems(text)
    root = problems.mapping(node, "a provider manifest")
    manifest = check_model(Manifest, root, "a provider manifest", problems) if root is not None else None
    if root is not None and isinstance(found := root.entries.get("id"), ScalarNode) and found.value != Path(file).stem:
        problems.add(found.location, f"the id is {found.value!r}, and the file is named {Path(file).stem!r}", "give both the same name")
    problems.raise_any()
    assert isinstance(manifest, Manifest)  # None only together with a problem
    return manifest


def load_manifests(folder: Path) -> Mapping[str, Manifest]:
    """Every `*.yaml` of the folder, by id, in order. Raises LoadErrors with the problems of all files."""
    if not folder.is_dir():
        raise LoadErrors(
            [LoadError("no such folder of provider manifests", where=str(folder), fix="name the folder that holds <provider>.yaml files")]
        )
    found: dict[str, Manifest] = {}
    errors: list[LoadError] = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            manifest = load_manifest(read_text(path), shown(path))
            found[manifest.id] = manifest
        except LoadErrors as several:
            errors.extend(several.errors)
        except LoadError as error:
            errors.append(error)
    if errors:
        raise LoadErrors(in_order(errors))
    return MappingProxyType(found)


def need_manifest(manifests: Mapping[str, Manifest], provider: str, *, where: str = "") -> Manifest:
    """The manifest, or LoadError with a suggestion."""
    if provider in manifests:
        return manifests[provider]
    raise LoadError(f"unknown provider {provider!r}", where=where, fix=suggest(provider, list(manifests)) if manifests else "add its manifest")
