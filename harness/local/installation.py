"""Where a vendor's software is installed: a venv of its own, made by `make real` from a lock file with hashes."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from harness.scenario.files import data_root

FOLDER = ".real"
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Installation:
    """`home` is the venv, `lock` the requirements it must have been made from. The copy in the venv is written last, so a torn one has none."""

    home: Path
    lock: Path

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    @property
    def made_from(self) -> Path:
        return self.home / ".locked"

    def missing(self) -> str:
        """Why it cannot be used, with the remedy; "" when it is there and made from this very lock."""
        shown = f"{self.home.parent.name}/{self.home.name}"
        if not self.python.exists() or not self.made_from.exists():
            return f"its own server software is not installed ({shown} is missing or unfinished); run make real"
        if self.made_from.read_bytes() != self.lock.read_bytes():
            return f"its own server software was installed from another lock than {self.lock.name} ({shown} is out of date); run make real"
        return ""


def installation(provider: str) -> Installation:
    """The one beside the scenarios: `.real/<provider>` of the checkout."""
    return Installation(home=data_root() / FOLDER / provider, lock=HERE / f"{provider}-requirements.txt")


def command_line(command: tuple[str, ...]) -> str:
    """As it would be typed, for error messages."""
    return " ".join(shlex.quote(Path(word).name if word.startswith("/") else word) for word in command)
