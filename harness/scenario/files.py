"""Where scenarios, manifests, inventories and cassettes are: beside the package in a checkout, inside it when installed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import harness

PACKAGE = Path(harness.__file__).resolve().parent


def data_root(package: Path = PACKAGE) -> Path:
    """The folder that holds scenarios/, providers/, inventories/: the checkout, else the installed package's own `_data`."""
    shipped = package / "_data"  # first: a stray folder beside an installed package must not win over what it came with
    return shipped if shipped.is_dir() else package.parent


def shown(path: Path) -> str:
    """How a file is named to people and in evidence: as seen from here, else from the shipped data; never a path of one machine if avoidable."""
    absolute = path.resolve()
    for base in (Path.cwd(), data_root().resolve()):
        if absolute.is_relative_to(base):
            return absolute.relative_to(base).as_posix()
    return str(path)


def scenarios_folder() -> Path:
    return data_root() / "scenarios"


def providers_folder() -> Path:
    return data_root() / "providers"


OWN_WITHIN = 3


def own_providers(files: Iterable[Path]) -> tuple[Path, ...]:
    """For scenarios that are not shipped: the folder `providers/` that is nearest to each (file or folder), in its own folder or up to two above."""
    found: dict[Path, None] = {}
    folders = dict.fromkeys(file.absolute() if file.is_dir() else file.absolute().parent for file in files if file.exists())
    for folder in folders:
        nearest = next((f / "providers" for f in (folder, *folder.parents[: OWN_WITHIN - 1]) if (f / "providers").is_dir()), None)
        if nearest is not None and nearest.resolve() != providers_folder().resolve():
            found[nearest] = None
    return tuple(found)


def inventories_folder() -> Path:
    return data_root() / "inventories"


def cassettes_folder() -> Path:
    return data_root() / "cassettes"
