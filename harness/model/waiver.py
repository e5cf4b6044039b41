"""An accepted exception. There is one type of it, for every kind of finding."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

from harness.model.location import NOWHERE, Frozen, Location

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
Day = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]
RuleId = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]


class Where(Frozen):
    """What a waiver covers. `provider` is the provider or server id; left out: any. `tool` and `pointer` are exact; left out: the list itself.

    `scenario`, an exact id, makes it an expected failure of that scenario: the gate applies it, and comparisons of tool lists pass it over.
    """

    provider: str | None = None
    tool: str = ""
    pointer: str = ""
    scenario: str = ""


class Waiver(Frozen):
    """`finding` is the rule's id, `owner` who answers for it, `expires` the last day on which it holds.

    `accepted` is the day on which it was accepted. `fingerprint` binds it to one change (of this value to that value): a later, other
    change at the same place is not covered, and the waiver is then stale. `at` is its place in the file, for messages.
    """

    finding: RuleId
    where: Where
    owner: Text
    reason: Text
    issue: Text
    expires: Day
    accepted: Day | None = None
    fingerprint: Digest | None = None
    at: Location = NOWHERE
