"""Verdicts on random pairs of schemas, over every keyword and draft, against values tried one by one by validators of the drafts themselves."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import jsonschema_rs

from harness.drift.relation import relate
from harness.model.drift import Relation
from torture._schemas import Pair, pairs, values
from torture.figures import Figures, Scale

SEED = 20_261_130
PAIRS = {"short": 150, "full": 6_000}
TRIED = 250
VALIDATORS: dict[int, Any] = {
    4: jsonschema_rs.Draft6Validator,  # draft 4 alone holds that 1.0 is no integer; here it is one in every draft
    6: jsonschema_rs.Draft6Validator,
    7: jsonschema_rs.Draft7Validator,
    2019: jsonschema_rs.Draft201909Validator,
    2020: jsonschema_rs.Draft202012Validator,
}
MIRROR = {"equal": "equal", "narrowed": "widened", "widened": "narrowed", "incomparable": "incomparable"}
Compare = Callable[[Any, Any], Relation]


def run(scale: Scale) -> list[Figures]:
    count = PAIRS[scale]
    found, words = judged(count, relate)
    blind, _ = judged(count // 10, _keeps_quiet)
    unproven = words["unproven"]
    notes = (f"seed {SEED}; {dict(sorted(words.items()))}; unproven {unproven / max(sum(words.values()), 1):.2%}",)
    return [Figures("no verdict on two schemas is contradicted by a value, and each break has a confirmed example", count, found, blind, notes)]


def _keeps_quiet(old: Any, new: Any) -> Relation:
    """The control: a comparison that never sees a change."""
    return Relation(strict="equal", documented="equal")


def judged(count: int, compare: Compare) -> tuple[int, Counter[str]]:
    """(wrong verdicts, how often each word was said)."""
    chance = random.Random(SEED)
    wrong, words = 0, Counter[str]()
    for pair in pairs(chance):
        if sum(words.values()) >= count:
            break
        try:
            before, after = (VALIDATORS[pair.draft](schema, validate_formats=False, offline=True).is_valid for schema in pair.for_validators())
        except (ValueError, jsonschema_rs.ReferencingError):
            continue  # no schema of its draft: says nothing about ours
        found, back = compare(pair.old, pair.new), compare(pair.new, pair.old)
        words[found.strict] += 1
        wrong += _contradicted(pair, found, back, before, after, chance)
    return wrong, words


def _contradicted(pair: Pair, found: Relation, back: Relation, before: Callable[[Any], bool], after: Callable[[Any], bool], chance: Any) -> bool:
    if "unproven" not in (found.strict, back.strict) and back.strict != MIRROR[found.strict]:
        return True
    if found.strict in ("narrowed", "incomparable") and not (before(found.witness) and not after(found.witness)):
        return True
    if found.strict in ("widened", "incomparable") and not (after(found.reverse_witness) and not before(found.reverse_witness)):
        return True
    for value in values(pair, chance, TRIED):
        one, other = before(value), after(value)
        if (one and not other and found.strict in ("equal", "widened")) or (other and not one and found.strict in ("equal", "narrowed")):
            return True
    return False
