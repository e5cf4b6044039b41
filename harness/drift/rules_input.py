"""Rules on input schemas: what a caller may send."""

from __future__ import annotations

from typing import Any

from harness.drift.rule import Rule, name_of, owner_of, short, tool
from harness.inventory.facts import Fact
from harness.inventory.schema_diff import LOWER_BOUNDS

STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
PLAIN = tool()
ONE_OF_TWO = tool({"q": {"enum": ["a", "b"]}})
ONE = tool({"q": {"enum": ["a"]}})
CLOSED = {"additionalProperties": False}


def _admits(fact: Fact) -> bool:
    """Whether every type admitted before is admitted still; a number field admits integers."""
    after = set(fact.new) | ({"integer"} if "number" in fact.new else set())
    return set(fact.old) <= after


def _tightened(fact: Fact) -> bool:
    """A bound that refuses more than before; setting any bound counts, dropping one does not."""
    if fact.new is None:
        return False
    if fact.old is None:
        return True
    if not isinstance(fact.old, (int, float)) or not isinstance(fact.new, (int, float)):
        return True  # draft-04 booleans and nonsense: said to tighten, since we cannot show otherwise
    keyword = fact.detail["keyword"]
    if keyword == "multipleOf":
        return fact.new == 0 or fact.old % fact.new != 0
    return fact.new > fact.old if keyword in LOWER_BOUNDS else fact.new < fact.old


def _narrowed(fact: Fact) -> bool:
    return bool(fact.detail["removed"])


def _ignored(fact: Fact) -> bool:
    """An open object lets a removed argument in and drops it silently."""
    return fact.detail["closed"] is False


def _values(found: Any) -> str:
    return "anything" if found is None else short(found)


def _now_required(fact: Fact) -> str:
    ghost = "" if fact.detail["declared"] else ", though it is declared nowhere"
    return f"{fact.detail['name']!r} has become required at {fact.pointer}{ghost}; calls without it are refused"


def _null(fact: Fact) -> bool:
    """Only null came or went."""
    return set(fact.old) ^ set(fact.new) == {"null"}


RULES: tuple[Rule, ...] = (
    Rule(
        "parameter-removed",
        "breaking",
        "property-removed",
        lambda fact: f"{owner_of(fact.pointer)} is gone; calls that send it are refused",
        "keep accepting it, or announce the removal",
        (tool({"q": STRING, "n": INTEGER}, schema=CLOSED), tool({"q": STRING}, schema=CLOSED)),
        (tool({"q": STRING, "n": INTEGER}), tool({"q": STRING})),
        when=lambda fact: not _ignored(fact),
    ),
    Rule(
        "parameter-ignored",
        "risk",
        "property-removed",
        lambda fact: f"{owner_of(fact.pointer)} is gone; calls that send it are accepted and the argument is silently ignored",
        "keep honouring it, or close the object so that callers notice",
        (tool({"q": STRING, "n": INTEGER}), tool({"q": STRING})),
        (tool({"q": STRING, "n": INTEGER}, schema=CLOSED), tool({"q": STRING}, schema=CLOSED)),
        when=_ignored,
    ),
    Rule(
        "parameter-added-required",
        "breaking",
        "property-added",
        lambda fact: f"{owner_of(fact.pointer)} is new and required; every old call is refused",
        "make it optional",
        (PLAIN, tool({"q": STRING, "n": INTEGER}, ["n"])),
        (PLAIN, tool({"q": STRING, "n": INTEGER})),
        when=lambda fact: bool(fact.detail["required"]),
    ),
    Rule(
        "parameter-added-optional",
        "info",
        "property-added",
        lambda fact: f"{owner_of(fact.pointer)} is new and optional",
        "review it and accept it into the inventory",
        (PLAIN, tool({"q": STRING, "n": INTEGER})),
        (PLAIN, tool({"q": STRING, "n": INTEGER}, ["n"])),
        when=lambda fact: not fact.detail["required"],
    ),
    Rule(
        "parameter-required",
        "breaking",
        "required-added",
        _now_required,
        "make it optional again",
        (PLAIN, tool(None, ["q"])),
        (tool(None, ["q"]), PLAIN),
    ),
    Rule(
        "parameter-optional",
        "info",
        "required-removed",
        lambda fact: f"{fact.detail['name']!r} is no longer required at {fact.pointer}",
        "accept it into the inventory",
        (tool(None, ["q"]), PLAIN),
        (PLAIN, tool(None, ["q"])),
    ),
    Rule(
        "parameter-retyped",
        "breaking",
        "types-changed",
        lambda fact: f"{owner_of(fact.pointer)} was {'|'.join(fact.old)} and is {'|'.join(fact.new)}",
        "accept the old type as well",
        (tool({"q": NUMBER}), tool({"q": INTEGER})),
        (tool({"q": INTEGER}), tool({"q": NUMBER})),
        when=lambda fact: not _admits(fact) and not _null(fact),
    ),
    Rule(
        "parameter-null-refused",
        "breaking",
        "types-changed",
        lambda fact: f"{owner_of(fact.pointer)} no longer takes null",
        "accept null again: many callers send it for what they leave out",
        (tool({"q": {"type": ["string", "null"]}}), tool({"q": STRING})),
        (tool({"q": STRING}), tool({"q": {"type": ["string", "null"]}})),
        when=lambda fact: not _admits(fact) and _null(fact),
    ),
    Rule(
        "parameter-null-accepted",
        "info",
        "types-changed",
        lambda fact: f"{owner_of(fact.pointer)} now also takes null",
        "accept it into the inventory",
        (tool({"q": STRING}), tool({"q": {"type": ["string", "null"]}})),
        (tool({"q": INTEGER}), tool({"q": NUMBER})),
        when=lambda fact: _admits(fact) and _null(fact),
    ),
    Rule(
        "parameter-type-widened",
        "info",
        "types-changed",
        lambda fact: f"{owner_of(fact.pointer)} was {'|'.join(fact.old)} and now also admits more: {'|'.join(fact.new)}",
        "accept it into the inventory",
        (tool({"q": INTEGER}), tool({"q": NUMBER})),
        (tool({"q": NUMBER}), tool({"q": INTEGER})),
        when=lambda fact: _admits(fact) and not _null(fact),
    ),
    Rule(
        "enum-narrowed",
        "breaking",
        "enum-changed",
        lambda fact: f"{owner_of(fact.pointer)} no longer takes {short(fact.detail['removed'])}",
        "keep accepting the old values",
        (ONE_OF_TWO, ONE),
        (ONE, ONE_OF_TWO),
        when=_narrowed,
    ),
    Rule(
        "enum-widened",
        "info",
        "enum-changed",
        lambda fact: f"{owner_of(fact.pointer)} also takes {short(fact.detail['added'])}",
        "accept it into the inventory",
        (ONE, ONE_OF_TWO),
        (ONE_OF_TWO, ONE),
        when=lambda fact: not _narrowed(fact),
    ),
    Rule(
        "bound-tightened",
        "breaking",
        "bound-changed",
        lambda fact: f"{name_of(fact.pointer)} of {owner_of(fact.pointer)} went from {_values(fact.old)} to {_values(fact.new)}",
        "keep the old bound",
        (tool({"q": {"maxLength": 9}}), tool({"q": {"maxLength": 8}})),
        (tool({"q": {"maxLength": 8}}), tool({"q": {"maxLength": 9}})),
        when=_tightened,
    ),
    Rule(
        "bound-relaxed",
        "info",
        "bound-changed",
        lambda fact: f"{name_of(fact.pointer)} of {owner_of(fact.pointer)} went from {_values(fact.old)} to {_values(fact.new)}",
        "accept it into the inventory",
        (tool({"q": {"minimum": 1}}), tool({"q": {}})),
        (tool({"q": {}}), tool({"q": {"minimum": 1}})),
        when=lambda fact: not _tightened(fact),
    ),
    Rule(
        "pattern-added",
        "breaking",
        "pattern-changed",
        lambda fact: f"{owner_of(fact.pointer)} must now match {short(fact.new)}",
        "accept what was accepted before",
        (PLAIN, tool({"q": {"type": "string", "pattern": "^a"}})),
        (tool({"q": {"type": "string", "pattern": "^a"}}), PLAIN),
        when=lambda fact: fact.old is None,
    ),
    Rule(
        "pattern-changed",
        "risk",
        "pattern-changed",
        lambda fact: f"{owner_of(fact.pointer)} matched {short(fact.old)}, now {short(fact.new)}; whether old values still pass is open",
        "check that every old value matches the new pattern",
        (tool({"q": {"pattern": "^a"}}), tool({"q": {"pattern": "^[ab]"}})),
        (tool({"q": {"pattern": "^a"}}), tool({"q": {}})),
        when=lambda fact: fact.old is not None and fact.new is not None,
    ),
    Rule(
        "pattern-removed",
        "info",
        "pattern-changed",
        lambda fact: f"{owner_of(fact.pointer)} need no longer match {short(fact.old)}",
        "accept it into the inventory",
        (tool({"q": {"pattern": "^a"}}), tool({"q": {}})),
        (tool({"q": {}}), tool({"q": {"pattern": "^a"}})),
        when=lambda fact: fact.new is None,
    ),
    Rule(
        "format-changed",
        "risk",
        "format-changed",
        lambda fact: f"format of {owner_of(fact.pointer)} went from {_values(fact.old)} to {_values(fact.new)}",
        "keep the format, or say that it is not asserted: only then does nobody break",
        (tool({"q": {"format": "uri"}}), tool({"q": {"format": "email"}})),
        (tool({"q": {"format": "uri"}}), tool({"q": {"format": "uri", "title": "t"}})),
    ),
    Rule(
        "default-changed",
        "risk",
        "default-changed",
        lambda fact: f"default of {owner_of(fact.pointer)} went from {short(fact.old)} to {short(fact.new)}",
        "keep the default, or announce the new one: callers that leave it out get something else",
        (tool({"q": {"default": 1}}), tool({"q": {"default": 2}})),
        (tool({"q": {"default": 1}}), tool({"q": {"default": 1.0}})),
    ),
    Rule(
        "additional-properties-closed",
        "risk",
        "additional-changed",
        lambda fact: f"{owner_of(fact.pointer)} no longer takes undeclared properties freely",
        "keep the object open, or check that no caller sends undeclared properties",
        (PLAIN, tool(None, schema=CLOSED)),
        (tool(None, schema=CLOSED), PLAIN),
        when=lambda fact: fact.new is not True and fact.new != {},
    ),
    Rule(
        "additional-properties-opened",
        "info",
        "additional-changed",
        lambda fact: f"{owner_of(fact.pointer)} now takes undeclared properties",
        "accept it into the inventory",
        (tool(None, schema=CLOSED), PLAIN),
        (PLAIN, tool(None, schema=CLOSED)),
        when=lambda fact: fact.new is True or fact.new == {},
    ),
    Rule(
        "composition-changed",
        "risk",
        "composition-changed",
        lambda fact: f"{owner_of(fact.pointer)} is composed differently ({name_of(fact.pointer)}); what it accepts is not decided here",
        "compare what both accept before you accept the change",
        (tool({"q": {"anyOf": [{"maxLength": 3}, {"type": "null"}]}}), tool({"q": {"anyOf": [{"maxLength": 3}]}})),
        (tool({"q": {"anyOf": [STRING, {"type": "null"}]}}), tool({"q": {"type": ["string", "null"]}})),
    ),
    Rule(
        "reference-changed",
        "risk",
        "reference-changed",
        lambda fact: f"{owner_of(fact.pointer)} referred to {_values(fact.old)} and now to {_values(fact.new)}",
        "compare the schemas referred to",
        (tool({"q": {"$ref": "#/$defs/a"}}), tool({"q": {"$ref": "#/$defs/b"}})),
        (tool({"q": {"$ref": "#/$defs/a"}}), tool({"q": {"$ref": "#/$defs/a", "title": "t"}})),
    ),
    Rule(
        "definition-changed",
        "info",
        "definition-changed",
        lambda fact: f"definition {name_of(fact.pointer)!r} came or went; it counts only where it is referred to",
        "accept it into the inventory",
        (PLAIN, tool(schema={"$defs": {"a": STRING}})),
        (PLAIN, PLAIN),
    ),
    Rule(
        "keyword-changed",
        "risk",
        "keyword-changed",
        lambda fact: f"{name_of(fact.pointer)} of {owner_of(fact.pointer)} went from {short(fact.old)} to {short(fact.new)}",
        "check what the keyword demands of callers",
        (tool({"q": {"const": 1}}), tool({"q": {"const": 2}})),
        (tool({"q": {"const": 1}}), tool({"q": {"const": 1.0}})),
    ),
    Rule(
        "order-changed",
        "info",
        "order-changed",
        lambda fact: f"order only: {name_of(fact.pointer)} of {owner_of(fact.pointer)} lists the same; the hash changes, the calls accepted do not",
        "emit lists in a stable order",
        (tool(None, ["a", "b"]), tool(None, ["b", "a"])),
        (tool(None, ["a", "b"]), tool(None, ["a", "b"])),
    ),
    Rule(
        "spelling-changed",
        "info",
        "spelling-changed",
        lambda fact: f"{owner_of(fact.pointer)} is spelt differently at {fact.pointer}; it accepts the same",
        "accept it into the inventory",
        (tool({"q": {"anyOf": [STRING, {"type": "null"}]}}), tool({"q": {"type": ["string", "null"]}})),
        (tool({"q": STRING}), tool({"q": INTEGER})),
    ),
)
