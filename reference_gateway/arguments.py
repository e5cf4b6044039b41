"""Arguments against a tool's own schema. Each schema is compiled once; one that is a bomb, or points elsewhere, is refused whole."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import jsonschema_rs

MAX_DEPTH = 64
MAX_NODES = 20_000
MAX_BYTES = 512 * 1024
MAX_COMPILED = 5_000
BACKTRACK_LIMIT = 100_000

UNUSABLE = "the tool's own schema cannot be used to check arguments: "


class _Bomb(ValueError):
    pass


class Validators:
    """Compiled schemas by their hash, least recently used forgotten first."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[str, jsonschema_rs.Validator | str] = OrderedDict()

    def problem(self, schema_hash: str, schema: object, arguments: Mapping[str, Any]) -> str | None:
        """What is wrong with the arguments, in words for the agent that sent them (they quote values); None when nothing is."""
        validator = self._validator(schema_hash, schema)
        if isinstance(validator, str):
            return validator
        try:
            error = next(iter(validator.iter_errors(arguments)), None)
        except (ValueError, OverflowError, RecursionError) as failure:
            return f"the arguments cannot be checked: {failure}"
        if error is None:
            return None
        place = "/".join(str(step) for step in error.instance_path)
        return f"{place}: {error.message}" if place else error.message

    def _validator(self, schema_hash: str, schema: object) -> jsonschema_rs.Validator | str:
        if (known := self._compiled.get(schema_hash)) is not None:
            self._compiled.move_to_end(schema_hash)
            return known
        compiled = _compile(schema if isinstance(schema, dict) else {})
        self._compiled[schema_hash] = compiled
        if len(self._compiled) > MAX_COMPILED:
            self._compiled.popitem(last=False)
        return compiled


def _compile(schema: dict[str, Any]) -> jsonschema_rs.Validator | str:
    try:
        _within_bounds(schema)
    except _Bomb as error:
        return f"{UNUSABLE}{error}"
    problem = ""
    # Linear-time patterns where they suffice; backtracking, bounded, only for schemas that need look-around.
    for patterns in (jsonschema_rs.RegexOptions(), jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT)):
        try:
            return jsonschema_rs.validator_for(schema, pattern_options=patterns, offline=True)
        except (ValueError, OverflowError, jsonschema_rs.ReferencingError) as error:  # its ValidationError is a ValueError
            problem = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"{UNUSABLE}{problem}"


def _within_bounds(schema: dict[str, Any]) -> None:
    """Iterative, for depth is what it guards against."""
    nodes = size = 0
    waiting: list[tuple[Any, int]] = [(schema, 1)]
    while waiting:
        value, depth = waiting.pop()
        nodes += 1
        if depth > MAX_DEPTH:
            raise _Bomb(f"it is nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, dict):
            size += sum(len(key) for key in value)
            waiting.extend((item, depth + 1) for item in value.values())
        elif isinstance(value, list):
            waiting.extend((item, depth + 1) for item in value)
        elif isinstance(value, str):
            size += len(value)
        if nodes > MAX_NODES or size > MAX_BYTES:
            raise _Bomb(f"it is larger than {MAX_NODES} nodes or {MAX_BYTES} characters")
