"""What a torture run answers: counts, and whether the promise held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

Scale = Literal["short", "full"]
"""`short` is the form for CI (a few seconds); `full` is what the project claims."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One promise, tried `tried` times. `violations` must be 0, and `control` (the same run against a broken subject) must not."""

    promise: str
    tried: int
    violations: int
    control: int
    """How often the negative control was found broken; 0 means that this run could not have noticed anything."""
    notes: tuple[str, ...] = ()

    @property
    def held(self) -> bool:
        return self.tried > 0 and self.violations == 0 and self.control > 0


class Run(Protocol):
    """The one function of a torture file: `run(scale)`. Bounded in count and time; leaves no process and no file behind."""

    def __call__(self, scale: Scale) -> list[Figures]: ...
