"""Managed arguments: a connection's fixed selectors, put into every call of a tool that has such a parameter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reference_gateway.bodies import invalid
from reference_gateway.canonical import NotCarried, canonical_bytes
from reference_gateway.connectors import manageable

MISMATCH = "managed_argument_mismatch"
MAX_ARGUMENTS = 10

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")


def check(provider: str, managed: Mapping[str, object]) -> None:
    """Plain values of parameters that may be managed. Raises GatewayError `invalid_field`, which never repeats a value."""
    if len(managed) > MAX_ARGUMENTS:
        raise invalid(f"more than {MAX_ARGUMENTS} arguments are managed", "managed", "manage fewer")
    for name, value in managed.items():
        where = f"managed.{name}"[:200]
        if not _NAME.fullmatch(name):
            raise invalid("that is no name of an argument", where, "use the parameter's name")
        if not manageable(provider, name):
            raise invalid("this connector does not let that argument be managed", where, "see its entry in the gallery")
        if isinstance(value, str):
            if not 0 < len(value.strip()) <= len(value) <= 500:
                raise invalid("a managed text is empty or longer than 500 characters", where, "give the selector as the provider knows it")
        elif not isinstance(value, bool | int):
            raise invalid("a managed argument is a text, a whole number or a truth value", where, "give a plain value")


def applicable(managed: Mapping[str, Any], schema: object) -> dict[str, Any]:
    """Those that the tool has as a parameter of its own."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    known = properties if isinstance(properties, Mapping) else {}
    return {name: value for name, value in managed.items() if name in known}


def differing(managed: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    """The first argument that an agent sent otherwise than it is fixed; None when there is none. 1, 1.0 and true differ."""
    return next((name for name, value in managed.items() if name in arguments and not _same(value, arguments[name])), None)


def _same(one: object, other: object) -> bool:
    try:
        return type(one) is type(other) and canonical_bytes(one) == canonical_bytes(other)
    except NotCarried:
        return False
