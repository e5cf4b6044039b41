"""Several connections in one go, for gateways whose seam is one connection at a time.

One that is one process a connection may all the same show one agent session several of them. It has other names for the tools of a joint
session than for those of a single connection; so it does not declare `several`, by which scenarios name their tools, and its joint session
is asked for by those that ask for its names with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from harness.target.base import ConnectionRequest, RunGrant
from harness.target.names import Naming


@dataclass(frozen=True, slots=True)
class Joint:
    """`naming`: how the tools of each connection are shown in this session."""

    grant: RunGrant
    naming: Naming


@runtime_checkable
class Joins(Protocol):
    def joined(self, tenant: str, requests: Sequence[ConnectionRequest]) -> AbstractAsyncContextManager[Joint]:
        """One session's way in to all of these, connected in this order, for as long as the block lasts. Raises Unreachable."""
        ...


@runtime_checkable
class AtOnce(Protocol):
    """A gateway that starts anew for each connection can take several changes in one start."""

    def at_once(self, tenant: str) -> AbstractAsyncContextManager[None]:
        """What is connected and disconnected within the block takes effect at its end. Raises Unreachable there."""
        ...
