"""Durations as people write them: "200ms", "30s", "5m", "1h". A bare number is refused: nobody can tell its unit."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

PATTERN = r"^[0-9]+(\.[0-9]+)?(ms|s|m|h)$"
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)(ms|s|m|h)\Z")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(written: object) -> float:
    """Seconds. ValueError, worded for the writer, on anything else than a number with a unit."""
    found = _DURATION.match(written) if isinstance(written, str) else None
    if found is None:
        unit_missing = isinstance(written, (int, float)) and not isinstance(written, bool)
        hint = f'say the unit: "{written}s"' if unit_missing else 'write a duration such as "30s", "5m" or "200ms"'
        raise ValueError(hint)
    return round(float(found.group(1)) * _SECONDS[found.group(2)], 6)


def _keep_seconds(value: object) -> object:
    return value if isinstance(value, float) else parse_duration(value)


Seconds = Annotated[float, BeforeValidator(_keep_seconds), WithJsonSchema({"type": "string", "pattern": PATTERN})]
"""For parameter models of verbs and expectations: takes "30s", holds 30.0."""
