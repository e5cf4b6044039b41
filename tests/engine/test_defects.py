"""The table of deliberate defects is whole and tells them apart, and all of it is tried, with the defect and without."""

from __future__ import annotations

from reference_gateway.defects import KNOWN

from .defects import SHARES, TABLE, scenarios, share

REQUIRED = {
    "iserror-as-success",
    "skip-approval",
    "approve-twice",
    "dispatch-before-approval",
    "drop-audit",
    "wrong-outcome",
    "weaken-risk",
    "stale-catalog",
    "drop-page",
    "leak-credential",
    "truncate-result",
    "swap-responses",
    "bypass-tap",
    "spawn-subprocess",
    "normalise-schema",
}
ELSEWHERE = {"first-list-lasts", "relay-leaks-token", "relay-open-to-other-run", "relay-shares-network", "claim-unguarded"}
"""Found by scenarios that need namespaces of their own: relay_tests. The last one takes two gateways at once: torture/approval_races.py."""


def test_the_table_covers_every_defect() -> None:
    assert set(TABLE) >= REQUIRED
    assert set(TABLE) | ELSEWHERE == set(KNOWN)


def test_each_is_tried_once() -> None:
    assert sorted(defect for number in range(SHARES) for defect in share(number)) == sorted(TABLE)
    found = [scenario for number in range(SHARES) for scenario in scenarios(number)]
    assert sorted(found) == sorted({scenario for row in TABLE.values() for scenario in row["run"]})


def test_the_table_tells_defects_apart() -> None:
    """Two defects on the same scenarios differ in what they break: one's finding is what the other must spare."""
    for name, row in TABLE.items():
        for other, against in TABLE.items():
            if name < other and row["run"] == against["run"]:
                assert set(row["finds"]) != set(against["finds"]), f"{name} and {other} look the same"
