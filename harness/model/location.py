"""Where a thing stands in a source file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict


def _true(value: object) -> object:
    if value == 1 and value is not True:  # for Python they are equal; for a reader, and for the schema, they are not
        raise ValueError("Input should be true")
    return value


Yes = Annotated[Literal[True], BeforeValidator(_true)]
"""The word `true` and nothing else."""


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
