"""What a comparison of two tool lists came to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from harness.model.location import Frozen
from harness.model.risk import Basis, Risk

DriftSeverity = Literal["breaking", "risk", "text", "info"]
SEVERITIES: tuple[DriftSeverity, ...] = ("breaking", "risk", "text", "info")
UNDECIDED = frozenset({"relation-unproven", "schema-refused", "output-relation-unproven", "output-schema-refused"})
Against = Literal["live", "local", "fake"]


RelationWord = Literal["equal", "narrowed", "widened", "incomparable", "unproven"]


class Relation(Frozen):
    """How two schemas relate, by what they accept. Each word is about `new`, seen from `old`.

    `strict` is by the letter. `documented` is for callers that keep to the declared properties: "narrowed" when a documented old
    call is refused now, "widened" when a documented new call was refused before. `ignored_arguments` are pointers (into the schema)
    of old parameters that are still let through and no longer read. `format_only`: a break only where `format` is asserted.
    `witness` was valid and is refused now; `reverse_witness` was refused and is valid now; both are confirmed by two validators, are
    documented calls where there is such a one, and are objects (None: none). `documented_witness` says that `witness` is such a call.
    `uncallable`: nothing at all satisfies the new schema, though something did the old one. `refused`: the code of a schema bomb.
    Where a word is "unproven", `reason` says why; a witness may be known all the same, and is proof of its half.
    """

    strict: RelationWord
    documented: RelationWord
    ignored_arguments: tuple[str, ...] = ()
    format_only: bool = False
    witness: Any = None
    reverse_witness: Any = None
    documented_witness: bool = False
    uncallable: bool = False
    refused: str = ""
    method: str = ""
    reason: str = ""

    @property
    def breaks(self) -> Literal["yes", "no", "unproven"]:
        """Whether a documented caller is refused: "yes" only with a witness, "no" only with a proof."""
        if self.documented_witness:
            return "yes"
        return "no" if self.documented in ("equal", "widened") else "unproven"

    @property
    def breaks_readers(self) -> Literal["yes", "no", "unproven"]:
        """The same for an output schema, by the letter: whether something may come back now that was ruled out before."""
        if self.reverse_witness is not None:
            return "yes"
        return "no" if self.strict in ("equal", "narrowed") else "unproven"


class ToolRelation(Frozen):
    """The relations of one tool's two schemas; None where they are not both known, or were not compared."""

    input: Relation | None = None
    output: Relation | None = None


class DriftFinding(Frozen):
    """One judged difference. `id` is the rule's kebab-case id, `pointer` points into the tool's wire object; `tool` is "" for the server.

    `witness`, on a breaking one: arguments that were accepted and are refused now (direction "input"), or a structured result that
    may come now and was ruled out before ("output"). One per tool and direction; None where nothing was searched.
    """

    id: str
    severity: DriftSeverity
    tool: str
    pointer: str = ""
    expected: Any = None
    actual: Any = None
    message: str
    fix: str
    direction: Literal["input", "output"] = "input"
    witness: Any = None

    @property
    def anchor(self) -> str:
        """Where the rule is explained: its section of docs/drift.md."""
        return f"docs/drift.md#{self.id}"


class RiskRow(Frozen):
    """One tool's risk as each party has it; None where a party says nothing. `hints` is what its annotations say by themselves."""

    tool: str
    gateway: Risk | None = None
    oracle: Risk
    inventory: Risk | None = None
    hints: Risk | None = None
    oracle_basis: Basis
    oracle_reason: str
    hint_reason: str = ""

    @property
    def disputed(self) -> bool:
        return len({risk for risk in (self.gateway, self.oracle, self.inventory, self.hints) if risk is not None}) > 1


class AspectCount(Frozen):
    """Expected tools compared in one aspect, and how many of them agreed."""

    compared: int
    agreed: int


class DriftReport(Frozen):
    """`against` says what the new side is evidence of; against a fake its own prose and hashes are not compared.

    `relations` holds, by tool, what was computed of the tools whose schemas changed (see ToolRelation); a tool without an entry either
    has the same schemas, or was not compared. `complete` is False when either list may be short: then nothing is said about missing
    tools, and the verdict is "incomplete".
    """

    old: str
    new: str
    against: Against
    complete: bool
    reason: str = ""
    names: AspectCount
    parameters: AspectCount
    risk: AspectCount
    status: AspectCount
    shape: AspectCount
    hash: AspectCount
    findings: tuple[DriftFinding, ...]
    relations: Mapping[str, ToolRelation] = {}

    @property
    def unproven(self) -> tuple[DriftFinding, ...]:
        """Findings that say "not decided": never to be shown as compatible, exit code 5 unless accepted."""
        return tuple(finding for finding in self.findings if finding.id in UNDECIDED)

    @property
    def verdict(self) -> Literal["same", "drift", "incomplete"]:
        """A short list is never "same" and never plain "drift": what is missing could explain or hide anything."""
        if not self.complete:
            return "incomplete"
        return "drift" if self.findings_of("breaking", "risk", "text") else "same"

    @property
    def summary(self) -> str:
        """How much was compared: "names 82, parameters 82, risk 82, shape 64, hash 0"."""
        counts = {word: getattr(self, word).compared for word in ("names", "parameters", "risk", "shape", "hash")}
        return ", ".join(f"{word} {count}" for word, count in counts.items())

    def findings_of(self, *severities: DriftSeverity) -> tuple[DriftFinding, ...]:
        return tuple(finding for finding in self.findings if finding.severity in severities)

    def fails_on(self, words: Collection[str]) -> tuple[DriftFinding, ...]:
        """Findings that fail the gate. Breaking ones always count; "risk" and "text" add theirs, "any" adds everything."""
        chosen = set(SEVERITIES) if "any" in words else {"breaking", *words}
        return tuple(finding for finding in self.findings if finding.severity in chosen)


def total(reports: Collection[DriftReport]) -> str:
    """The summary of several reports together."""
    words = ("names", "parameters", "risk", "shape", "hash")
    return ", ".join(f"{word} {sum(getattr(report, word).compared for report in reports)}" for word in words)
