"""How two schemas relate: equal, narrowed, widened, incomparable; or unproven, with the reason. Pure: no clock, no file, no chance.

Method, cheapest first: the same JSON; the same normal form; the same canonical form; containment shown, by the library or by our
rules; an example found and confirmed. A "no" is only ever said with an example in hand, a "yes" only with a proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.drift.canonical_form import Form, brief, canonical, covers, empty, impossible
from harness.drift.conjunction import types
from harness.drift.containment import OutOfFuel, Prover
from harness.drift.document import Document, normalise, unordered
from harness.drift.documented import closed, ignored_arguments
from harness.drift.guard import admitted, check_size
from harness.drift.pool import nodes_of
from harness.drift.refused import Refused
from harness.drift.validators import Judges, first_opinion
from harness.drift.witness import NONE, Question, Search
from harness.inventory.canonical import NotCanonical, json_equal
from harness.model.drift import Relation, RelationWord

SAME = Relation(strict="equal", documented="equal", method="identical")


@dataclass(frozen=True, slots=True)
class _Half:
    """One direction: shown to be contained (True), shown not to be by `witness` (False), or neither (None, with the reason)."""

    contained: bool | None
    method: str
    witness: Any = None
    reason: str = ""


def relate(old: Any, new: Any, *, old_draft: int | None = None, new_draft: int | None = None) -> Relation:
    """The relation of two schemas for tool arguments or structured results, which are objects. Never raises for what a schema holds.

    A draft is given where it was declared but the schema no longer says so (a shape has no `$schema`).
    """
    try:
        check_size(old)
        check_size(new)
        if old_draft == new_draft and json_equal(old, new):
            return SAME
        before, after = objects_only(admitted(old, old_draft), admitted(new, new_draft))
        for document in (before, after):
            first_opinion(document.schema)  # what no validator takes as a schema says nothing, however much of it we could read
        return _Comparison(before, after).relation()
    except Refused as error:
        return unproven(f"refused: {error.why} ({error.code})", refused=error.code)
    except NotCanonical as error:
        return unproven(f"no canonical text: {error.reason}")
    except OutOfFuel:
        return unproven("the proof was given up: too many cases")
    except RecursionError:
        return unproven("nested too deep to compare")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, ZeroDivisionError) as error:
        # What a foreign schema may hold has no end (`minLength: "x"`); no shape of it may look compatible, or stop the others.
        return unproven(f"not a usable schema: {type(error).__name__}: {brief(error)}")


def unproven(reason: str, *, refused: str = "") -> Relation:
    """Nothing is known of how they relate."""
    return Relation(strict="unproven", documented="unproven", refused=refused, reason=reason)


def recheck(old: Any, new: Any, relation: Relation, *, old_draft: int | None = None, new_draft: int | None = None) -> bool:
    """Whether a stored relation's witnesses still hold, by both validators; no search, so a judge may call it."""
    try:
        before, after = Judges(normalise(old, old_draft).schema), Judges(normalise(new, new_draft).schema)
    except (Refused, ValueError):
        return relation.witness is None and relation.reverse_witness is None
    forth = relation.witness is None or (before.agree(relation.witness, True) and after.agree(relation.witness, False))
    back = relation.reverse_witness is None or (before.agree(relation.reverse_witness, False) and after.agree(relation.reverse_witness, True))
    return forth and back


def objects_only(*documents: Document) -> tuple[Document, ...]:
    """Arguments and structured results are objects: a schema that forgets to say so means the same."""
    out = []
    for document in documents:
        root = document.root
        if root is True:
            out.append(Document({"type": "object"}, document.defs))
        elif isinstance(root, dict) and "$ref" not in root and root.get("type") != "object" and "object" in types([root]):
            out.append(Document({**root, "type": "object"}, document.defs))
        else:
            out.append(document)
    return tuple(out)


class _Comparison:
    def __init__(self, old: Document, new: Document) -> None:
        self.old, self.new = old, new
        self.forms: dict[int, Form | str] = {}

    def form(self, document: Document) -> Form | str:
        if id(document) not in self.forms:
            self.forms[id(document)] = canonical(document.schema)
        return self.forms[id(document)]

    def relation(self) -> Relation:
        ignored = ignored_arguments(self.old, self.new)
        if json_equal(unordered(self.old.schema), unordered(self.new.schema)):
            return Relation(strict="equal", documented="equal", method="normal form")
        one, other = self.form(self.old), self.form(self.new)
        if isinstance(one, Form) and isinstance(other, Form) and one.modelled and other.modelled and one.text == other.text:
            return Relation(strict="equal", documented="equal", method="canonical form", format_only=self.format_breaks(), ignored_arguments=ignored)
        narrow, wide = closed(self.old), closed(self.new)
        documented, strict = self.direction(self.old, narrow, self.new, self.new)
        documented_back, strict_back = self.direction(self.new, wide, self.old, narrow)
        halves = (strict, strict_back, documented, documented_back)
        return Relation(
            strict=_word(strict, strict_back),
            documented=_word(documented, documented_back),
            ignored_arguments=ignored,
            format_only=strict.contained is True and self.format_breaks(),
            witness=documented.witness if documented.contained is False else strict.witness,
            reverse_witness=strict_back.witness,
            documented_witness=documented.contained is False,
            uncallable=impossible(self.new.schema) and not impossible(self.old.schema),
            method=" + ".join(dict.fromkeys(half.method for half in (strict, strict_back) if half.method)),
            reason="; ".join(dict.fromkeys(half.reason for half in halves if half.reason)),
        )

    def direction(self, whole: Document, narrow: Document, target: Document, narrow_target: Document) -> tuple[_Half, _Half]:
        """(documented, strict) containment of one side in the other. A documented example that holds by the letter is the strict one."""
        strict = self.shown(whole, target)
        documented = strict if narrow_target is target and strict is not None else self.shown(narrow, narrow_target)
        asked = [pair for pair, told in (((narrow, narrow_target), documented), ((whole, target), strict)) if told is None]
        found = self.refuted(whole, target, asked) if asked else []
        if strict is None:
            strict = found.pop()
        if documented is None:
            documented = found.pop()
        if documented.contained is False and strict.contained is not True and Judges(target.schema).agree(documented.witness, False):
            return documented, documented
        return documented, strict

    def shown(self, left: Document, right: Document) -> _Half | None:
        """A proof of containment, or None."""
        inner, outer = self.form(left), self.form(right)
        if isinstance(inner, Form) and empty(inner):
            return _Half(True, "nothing satisfies it")
        if isinstance(inner, Form) and isinstance(outer, Form) and inner.modelled and outer.modelled:
            told = covers(outer, inner)
            if told is True:
                return _Half(True, "containment")
            if told is False:
                return None
        try:
            if Prover(left, right).contained():
                return _Half(True, "structure")
            if isinstance(inner, Form) and isinstance(outer, Form) and Prover(normalise(inner.schema), normalise(outer.schema)).contained():
                return _Half(True, "structure")
        except OutOfFuel:
            return None
        return None

    def refuted(self, left: Document, right: Document, pairs: list[tuple[Document, Document]]) -> list[_Half]:
        """For each pair an example against containment, or the admission that there is none. Values come from `left` and `right`."""
        search = Search(left, right, [Question(one, other, self.both_forms(one, other)) for one, other in pairs])
        halves = []
        for (one, other), found in zip(pairs, search.answers(), strict=True):
            if found is not NONE:
                halves.append(_Half(False, "witness", found))
                continue
            forms = self.both_forms(one, other)
            why = next((form for form in (self.form(one), self.form(other)) if isinstance(form, str)), "")
            if forms is not None and covers(forms[1], forms[0]) is False:
                why = "although the canonical forms differ"
            halves.append(_Half(None, "", None, f"no proof, and none of {search.tried} values tried is an example{f' ({why})' if why else ''}"))
        return halves

    def both_forms(self, one: Document, other: Document) -> tuple[Form, Form] | None:
        inner, outer = self.form(one), self.form(other)
        return (inner, outer) if isinstance(inner, Form) and isinstance(outer, Form) else None

    def format_breaks(self) -> bool:
        """Whether a call breaks where `format` is asserted, which no validator does unless told to."""
        before, after = ([node.get("format") for node in nodes_of(document) if "format" in node] for document in (self.old, self.new))
        if not after or before == after:
            return False
        inner, outer = canonical(self.old.schema, formats=True), canonical(self.new.schema, formats=True)
        if isinstance(inner, str) or isinstance(outer, str):
            return True
        told = covers(outer, inner)
        return told is False or (told is None and bool(set(map(str, after)) - set(map(str, before))))


def _word(forth: _Half, back: _Half) -> RelationWord:
    if forth.contained is None or back.contained is None:
        return "unproven"
    if forth.contained:
        return "equal" if back.contained else "widened"
    return "narrowed" if back.contained else "incomparable"
