"""What a drift rule is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from harness.inventory.facts import Fact
from harness.inventory.side import Side, ToolView, tools_views
from harness.model.drift import DriftFinding, DriftSeverity
from harness.model.tool import Tool

Wire = dict[str, Any]
Specimen = Wire | ToolView | Side | None
"""One side of an example: a wire tool, what is known of one, a whole side, or nothing listed."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table. `fact` is the kind it judges and `when` narrows it; `message` completes the sentence "TOOL: …".

    `fails` and `passes` are specimens, before and after, that give this finding and that do not; where `related`, they are judged with
    their relations. Severity: breaking (a documented
    caller is refused or misled), risk (may hurt, or cannot be told here), text (what a model reads changed), info.
    """

    id: str
    severity: DriftSeverity
    fact: str
    message: Callable[[Fact], str]
    fix: str
    fails: tuple[Specimen, Specimen]
    passes: tuple[Specimen, Specimen]
    when: Callable[[Fact], bool] = lambda _: True
    direction: Literal["input", "output"] = "input"
    related: bool = False

    def matches(self, fact: Fact) -> bool:
        return fact.kind == self.fact and fact.direction == self.direction and self.when(fact)

    def judge(self, fact: Fact) -> DriftFinding:
        message = f"{fact.tool}: {self.message(fact)}" if fact.tool else self.message(fact)
        return DriftFinding(
            id=self.id,
            severity=self.severity,
            tool=fact.tool,
            pointer=fact.pointer,
            expected=fact.old,
            actual=fact.new,
            message=message,
            fix=self.fix,
            direction=self.direction,
        )


def tool(properties: Wire | None = None, required: list[str] | None = None, /, **rest: Any) -> Wire:
    """A specimen tool: input properties, required names; keywords are wire fields, `schema` is merged into inputSchema."""
    schema: Wire = {"type": "object", "properties": {"q": {"type": "string"}} if properties is None else properties}
    if required is not None:
        schema["required"] = required
    schema.update(rest.pop("schema", {}))
    return {"name": "find", "inputSchema": schema, **rest}


def specimen_side(specimen: Specimen) -> Side:
    """A specimen as a side of a comparison."""
    if isinstance(specimen, Side):
        return specimen
    if isinstance(specimen, ToolView):
        return Side("specimen", (specimen,))
    return Side("specimen", tools_views([Tool.from_wire(specimen)] if specimen else []))


def name_of(pointer: str) -> str:
    """The last reference token of a pointer, unescaped: for messages."""
    return pointer.rsplit("/", 1)[-1].replace("~1", "/").replace("~0", "~")


def owner_of(pointer: str) -> str:
    """The parameter that a pointer into inputSchema lies in, for messages; "the input" at the top."""
    steps = pointer.split("/")
    names = [steps[index + 1] for index, step in enumerate(steps[:-1]) if step == "properties"]
    return f"parameter {'.'.join(name.replace('~1', '/').replace('~0', '~') for name in names)!r}" if names else "the input"


def short(value: Any) -> str:
    """A value for a message, bounded."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
