"""Evidence in, results out. Pure: no file, no clock, no network; the same records give the same results, byte for byte."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.engine.compared import Comparisons
from harness.engine.documents import key_of, view_of
from harness.engine.evaluate import evaluate
from harness.engine.fold import fold, results_of
from harness.engine.implicit import implicit_findings
from harness.engine.vocabulary import vocabulary_without_files
from harness.errors import Exit, LoadError
from harness.expect.view import View
from harness.inventory.store import parse_inventory
from harness.model.evidence import Document, EvidenceRecord, PlanItemRecord, RunRecord, StepRecord
from harness.model.finding import Finding
from harness.model.inventory import Inventory
from harness.model.manifest import Manifest
from harness.model.scenario import Scenario
from harness.model.verdict import Results, Verdict
from harness.scenario.load import load_scenario
from harness.scenario.manifest import load_manifest
from harness.scenario.variables import Bindings


def judge(records: Sequence[EvidenceRecord]) -> Results:
    """Verdicts of every plan item in the evidence, in order of their start. Raises LoadError when a document is missing."""
    documents: dict[str, Document] = {}
    for record in records:
        if isinstance(record, PlanItemRecord):
            documents.update(unaltered(record.embedded))
    starts = [r for r in records if isinstance(r, PlanItemRecord) and r.phase == "start"]
    if not starts:
        raise LoadError("the evidence holds no plan item", where="evidence", fix="use the evidence.jsonl of a whole run")
    parsed = Parsed(documents)
    by_item: dict[str, list[EvidenceRecord]] = {start.item: [] for start in starts}
    for record in records:
        by_item.get(getattr(record, "item", ""), []).append(record)
    verdicts = tuple(judge_item(start, by_item[start.item], parsed) for start in starts)
    runs = [r for r in records if isinstance(r, RunRecord)]
    return results_of(runs, verdicts)


def unaltered(embedded: Mapping[str, Document]) -> Mapping[str, Document]:
    """Documents are named by their content, so that nobody weakens an expectation after the run."""
    for key, document in embedded.items():
        if key_of(document) != key:
            raise LoadError(
                f"the {document.kind} {document.name} in the evidence is not the one that was run",
                where="evidence",
                fix="use the evidence as the run wrote it",
            )
    return embedded


class Parsed:
    """Documents of the evidence, each parsed once."""

    def __init__(self, documents: dict[str, Document]) -> None:
        self._documents = documents
        self._cache: dict[str, Any] = {}
        self.comparisons = Comparisons()

    def need(self, key: str) -> Document:
        if key not in self._documents:
            raise LoadError(
                f"the document {key[:12]}… is not in the evidence", where="evidence", fix="judge the whole evidence file, not a part of it"
            )
        return self._documents[key]

    def manifests(self, keys: Sequence[str]) -> dict[str, Manifest]:
        found = [self._parse(k, load_manifest) for k in keys if self.need(k).kind == "manifest"]
        return {m.id: m for m in found}

    def inventories(self, keys: Sequence[str]) -> dict[str, Inventory]:
        found = [self._parse(k, parse_inventory) for k in keys if self.need(k).kind == "inventory"]
        return {i.provider: i for i in found}

    def scenario(self, keys: Sequence[str], providers: tuple[str, ...]) -> Scenario:
        key = next(k for k in keys if self.need(k).kind == "scenario")
        found: Scenario = self._parse(key, lambda text, name: load_scenario(text, name, vocabulary_without_files(providers)))
        return found

    def _parse(self, key: str, parse: Any) -> Any:
        if key not in self._cache:
            document = self.need(key)
            self._cache[key] = parse(document.text, document.name)
        return self._cache[key]


def judge_item(start: PlanItemRecord, records: Sequence[EvidenceRecord], parsed: Parsed) -> Verdict:
    manifests = parsed.manifests(start.documents)
    scenario = parsed.scenario(start.documents, tuple(manifests))
    view = view_of(records, scenario, manifests, parsed.inventories(start.documents))
    if start.not_applicable or start.missing or start.untestable:
        return fold(start, scenario, view, (), (), parsed.comparisons.of(view))
    bindings = bindings_of(start, records)
    evaluated, findings = evaluate_all(scenario, bindings, view)
    return fold(start, scenario, view, evaluated, (*findings, *implicit_findings(scenario, view)), parsed.comparisons.of(view))


def bindings_of(start: PlanItemRecord, records: Sequence[EvidenceRecord]) -> Bindings:
    """`let` as it was resolved, and every capture as it was made."""
    bound = Bindings(dict(start.bindings))
    for record in records:
        if isinstance(record, StepRecord):
            bound = bound.with_captures(record.step, record.captures)
    return bound


def broke_off(view: View) -> bool:
    """True when we could not tell how the scenario went on: then the run as a whole is not judged, least of all as failed."""
    ends = [r for r in view.records if isinstance(r, PlanItemRecord) and r.phase == "end"]
    return not ends or (ends[-1].trouble is not None and ends[-1].trouble.exit_code != Exit.FAILED)


def evaluate_all(scenario: Scenario, bindings: Bindings, view: View) -> tuple[tuple[str, ...], list[Finding]]:
    """Step expectations in order, then the run's. A step that never ran leaves its expectations unevaluated, and says so."""
    evaluated: list[str] = []
    findings: list[Finding] = []
    for step in scenario.steps:
        ran = step.id in view.steps
        for expectation in step.expect:
            if ran:
                found = evaluate(expectation, step.id, bindings, view)
                findings += found
                if not any(f.severity == "error" for f in found):
                    evaluated.append(expectation.id)
    for expectation in () if broke_off(view) else scenario.expect:
        found = evaluate(expectation, "", bindings, view)
        findings += found
        if not any(f.severity == "error" for f in found):
            evaluated.append(expectation.id)
    return tuple(evaluated), findings
