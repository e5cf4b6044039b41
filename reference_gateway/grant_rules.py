"""Whose grant a call rests on, and whether it still stands: asked anew at every call, from the run and never from its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reference_gateway.connection import Connection
from reference_gateway.defects import Defects
from reference_gateway.grant import Grant
from reference_gateway.runs import Run

_NAMES_OF_USERS = ("user_id", "subject", "userId")


class GrantRules:
    """Without a defect it adds nothing to what run and connection say."""

    def __init__(self, defects: Defects) -> None:
        self._defects = defects
        self._seen: dict[tuple[str, str], bool] = {}

    def acting(self, run: Run, arguments: Mapping[str, Any]) -> Run:
        """The run as the decision about this call sees it."""
        if "argument-names-user" not in self._defects:
            return run
        named = next((arguments[name] for name in _NAMES_OF_USERS if isinstance(arguments.get(name), str)), None)
        return replace(run, subject=named or run.subject)

    def revoked(self, run: Run, connection: Connection) -> bool:
        if "revoked-grant-cached" in self._defects:
            return self._seen.setdefault((run.run, connection.name), connection.revoked)
        return connection.revoked

    def grant(self, connection: Connection) -> Grant:
        grant = connection.settings.grant
        ignored = "grant-of-another" if grant.kind == "personal" else "audience-ignored"
        return Grant("organization") if ignored in self._defects else grant
