"""Where scenarios, manifests, inventories and cassettes are: beside the package in a checkout, inside it when installed."""

from __future__ import annotations

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


def inventories_folder() -> Path:
    return data_root() / "inventories"


def cassettes_folder() -> Path:
    return data_root() / "cassettes"
