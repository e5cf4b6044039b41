"""The one door to the canonical-form API of jsonschema-rs, which is experimental: pinned exactly, and trusted one way only.

"Yes" and "no" are the library's; whatever else it does (unknown, an operand it does not support, a dialect it cannot mix, an
overflow) is None, "not known", with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jsonschema_rs
from jsonschema_rs.canonical import CanonicalKind, Containment, Satisfiability

from harness.drift.document import Schema
from harness.inventory.canonical import NotCanonical, exact_bytes


@dataclass(frozen=True, slots=True)
class Form:
    """A canonical schema. `text` is its fingerprint: equal texts accept the same values."""

    handle: jsonschema_rs.CanonicalSchema
    schema: Any
    text: bytes
    modelled: bool
    """False when the library keeps the schema as written: then only its text says anything."""


def canonical(schema: Schema, *, formats: bool = False) -> Form | str:
    """The canonical form of a schema that stands alone, or why there is none."""
    try:
        handle = jsonschema_rs.canonicalize(schema, draft=jsonschema_rs.Draft202012, validate_formats=formats, offline=True)
        found = handle.to_json_schema()
        return Form(handle, found, exact_bytes(found), handle.kind != CanonicalKind.RAW)
    except (ValueError, NotCanonical, jsonschema_rs.ReferencingError) as error:
        return f"no canonical form: {brief(error)}"


def covers(outer: Form, inner: Form) -> bool | None:
    """Whether `outer` accepts every value that `inner` accepts; None when the library cannot tell."""
    try:
        found = outer.handle.covers(inner.handle)
    except ValueError:
        return None
    return True if found == Containment.YES else False if found == Containment.NO else None


def difference(left: Form, right: Form) -> Any:
    """A schema for what `left` accepts and `right` refuses; None when the library cannot make one."""
    try:
        return left.handle.subtract(right.handle).to_json_schema()
    except ValueError:
        return None


def impossible(schema: Schema) -> bool:
    """Whether it is proven that no value satisfies `schema`."""
    found = canonical(schema)
    return isinstance(found, Form) and empty(found)


def empty(form: Form) -> bool:
    """The same for a form that is at hand."""
    return form.handle.satisfiability() == Satisfiability.NO


def disjoint(left: Schema, right: Schema) -> bool:
    """Whether it is proven that no value satisfies both. Each stands alone, without references."""
    one, other = canonical(left), canonical(right)
    if isinstance(one, str) or isinstance(other, str):
        return False
    try:
        return one.handle.intersect(other.handle).satisfiability() == Satisfiability.NO
    except ValueError:
        return False


def brief(error: Exception) -> str:
    """The first line of an error's text, bounded."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
