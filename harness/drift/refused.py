"""A schema that is not looked into any further."""

from __future__ import annotations


class Refused(ValueError):
    """`code` is a kebab-case word, `pointer` points into the schema, the message completes "refused: …"."""

    def __init__(self, code: str, pointer: str, why: str) -> None:
        super().__init__(why)
        self.code = code
        self.pointer = pointer
        self.why = why
