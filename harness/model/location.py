"""Where a thing stands in a source file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """Base of every model: immutable, unknown fields refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Location(Frozen):
    """File name (as the user wrote it), line and column, both from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


NOWHERE = Location(file="", line=0, column=0)
