"""What the rules on lists and objects need of the proof that they are part of."""

from __future__ import annotations

from typing import Protocol

from harness.drift.conjunction import Conjunction
from harness.drift.document import Document, Schema


class Proving(Protocol):
    """See containment.Prover, which is one."""

    left: Document
    right: Document

    def proves(self, parts: tuple[Schema, ...], right: Schema, depth: int) -> bool: ...
    def flat(self, parts: tuple[Schema, ...]) -> Conjunction | None: ...
    def nothing(self, flat: Conjunction) -> bool: ...
    def text(self, node: Schema) -> bytes: ...
    def refers(self, node: Schema) -> bool: ...
