"""Whether a conjunction meets the demands of one schema on texts, numbers and lists."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from harness.drift import conjunction as con
from harness.drift.conjunction import LENGTH_LIMIT, Conjunction
from harness.drift.document import Schema
from harness.drift.language import Window, outside, pattern_included
from harness.drift.proving import Proving
from harness.inventory.canonical import json_equal


def string_holds(flat: Conjunction, right: dict[str, Any]) -> bool:
    language = con.language(flat)
    known = {node.get("pattern") for node in flat}
    if "pattern" in right and right["pattern"] not in known and pattern_included(language, right["pattern"]) is not True:
        return False
    shortest, longest = con.least((right,), "minLength"), con.most((right,), "maxLength")
    mine = con.most(flat, "maxLength")
    if shortest > con.least(flat, "minLength") and (shortest > LENGTH_LIMIT or outside(language, Window(shortest)) is not False):
        return False
    if longest is None or (mine is not None and mine <= longest):
        return True
    return longest <= LENGTH_LIMIT and outside(language, Window(0, longest)) is False


def number_holds(flat: Conjunction, right: dict[str, Any], types: frozenset[str]) -> bool:
    steps = list(con.numbers(flat, "multipleOf")) + ([Fraction(1)] if "fraction" not in types else [])
    for wanted in con.numbers((right,), "multipleOf"):
        if wanted == 0 or not any(step % wanted == 0 for step in steps):
            return False
    low, high = con.lower((right,)), con.upper((right,))
    mine_low, mine_high = con.lower(flat), con.upper(flat)
    if "fraction" not in types:
        low, mine_low = _whole(low, up=True), _whole(mine_low, up=True)
        high, mine_high = _whole(high, up=False), _whole(mine_high, up=False)
    if low is not None and (mine_low is None or mine_low < low):
        return False
    return high is None or (mine_high is not None and (mine_high[0], not mine_high[1]) <= (high[0], not high[1]))


def _whole(bound: tuple[Fraction, bool] | None, *, up: bool) -> tuple[Fraction, bool] | None:
    """The same bound on integers, itself included."""
    if bound is None:
        return None
    value, excluded = bound
    if up:
        return Fraction(math.floor(value) + 1 if excluded else math.ceil(value)), False
    return Fraction(math.ceil(value) - 1 if excluded else math.floor(value)), False


def array_holds(prover: Proving, flat: Conjunction, right: dict[str, Any], depth: int) -> bool:
    if "unevaluatedItems" in right and not _plain(right):
        return False
    fewest, longest = con.fewest_items(flat), _most_items(prover, flat)
    if fewest < con.least((right,), "minItems"):
        return False
    most = con.most((right,), "maxItems")
    if most is not None and (longest is None or longest > most):
        return False
    few = longest is not None and longest <= 1
    if right.get("uniqueItems") is True and not few and not any(node.get("uniqueItems") is True for node in flat):
        return False
    return _items_hold(prover, flat, right, longest, depth) and _contains_holds(prover, flat, right, longest, depth)


def _plain(right: Mapping[str, Any]) -> bool:
    """Whether `unevaluatedItems` means what `items` means: nothing beside it looks at items."""
    return not {"$ref", "allOf", "anyOf", "oneOf", "if", "contains", "not"} & set(right)


def _most_items(prover: Proving, flat: Conjunction) -> int | None:
    """An upper count of items, by bounds or because items beyond the first ones are impossible."""
    stated = con.most(flat, "maxItems")
    for index in range(con.longest_prefix(flat) + 1):
        if stated is not None and index >= stated:
            break
        inner = prover.flat(con.item_parts(flat, index))
        if inner is None or not con.types(inner):
            return index
    return stated


def _items_hold(prover: Proving, flat: Conjunction, right: Mapping[str, Any], longest: int | None, depth: int) -> bool:
    prefix = right.get("prefixItems", [])
    rest = right.get("items", right.get("unevaluatedItems", True))
    last = max(len(prefix), con.longest_prefix(flat))  # from here on every item is alike, on both sides
    every = _in_every_item(flat, longest)
    for index in range(last + 1):
        if longest is not None and index >= longest:
            return True
        if not prover.proves((*con.item_parts(flat, index), *every), prefix[index] if index < len(prefix) else rest, depth + 1):
            return False
    return True


def _in_every_item(flat: Conjunction, longest: int | None) -> list[Schema]:
    """What `contains` asks of so many items that it is asked of all there can be."""
    return [node["contains"] for node in flat if "contains" in node and longest is not None and longest <= con.contained(node)]


def _contains_holds(prover: Proving, flat: Conjunction, right: Mapping[str, Any], longest: int | None, depth: int) -> bool:
    if "contains" not in right:
        return True
    wanted, least, most = right["contains"], right.get("minContains", 1), right.get("maxContains")
    for node in flat:
        same = "contains" in node and json_equal(node["contains"], wanted) and b'"$ref"' not in prover.text(wanted)
        if same and node.get("minContains", 1) >= least and (most is None or node.get("maxContains", most + 1) <= most):
            return True
    if most is not None and (longest is None or longest > most):
        return False
    if least == 0:
        return True
    fewest = con.fewest_items(flat)
    if fewest < least:
        return False
    last = con.longest_prefix(flat)
    sure = sum(prover.proves(con.item_parts(flat, index), wanted, depth + 1) for index in range(min(last, fewest)))
    rest = fewest - last
    if rest > 0 and sure < least and prover.proves(con.item_parts(flat, last), wanted, depth + 1):
        sure += rest
    return bool(sure >= least)
