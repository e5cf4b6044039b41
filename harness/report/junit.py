"""`junit.xml`: one testcase per plan item, so that CI systems count what results.json counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from xml.etree import ElementTree as ET

from harness.model.finding import Finding
from harness.model.verdict import Results, Verdict
from harness.report.inert import clip_text, one_line, shown, visible
from harness.report.reading import cause, not_proven, with_run_itself


class JUnit:
    id = "junit"
    summary = "junit.xml: one testcase per scenario, level, target and protocol version"
    by_default = True

    def files(self, results: Results) -> Mapping[str, bytes]:
        return {"junit.xml": document(results)}


def document(results: Results) -> bytes:
    """JUnit XML in UTF-8. `<failure>` is a judged contradiction, `<error>` means that nobody could tell, `<skipped>` not applicable."""
    every = with_run_itself(results)
    root = ET.Element("testsuites", {"name": "harness", **_totals(every)})
    for area, verdicts in _by_area(every).items():
        suite = ET.SubElement(root, "testsuite", {"name": _attribute(area), "timestamp": _attribute(results.started_at), **_totals(verdicts)})
        _properties(suite, {"run": results.run, "level_line": results.level_line, "harness_version": results.harness_version})
        for verdict in verdicts:
            _testcase(suite, verdict)
    ET.indent(root)
    body = ET.tostring(root, encoding="unicode", xml_declaration=False)
    return f'<?xml version="1.0" encoding="UTF-8"?><!-- {_comment(results.level_line)} -->\n{body}\n'.encode()


def _by_area(verdicts: Iterable[Verdict]) -> dict[str, list[Verdict]]:
    areas: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        areas.setdefault(verdict.area, []).append(verdict)
    return areas


def _totals(verdicts: Iterable[Verdict]) -> dict[str, str]:
    every = list(verdicts)
    outcomes = [verdict.outcome for verdict in every]
    return {
        "tests": str(len(every)),
        "failures": str(outcomes.count("fail")),
        "errors": str(outcomes.count("error")),
        "skipped": str(outcomes.count("not_applicable")),
        "time": f"{sum(verdict.seconds for verdict in every):.3f}",
    }


def _testcase(suite: ET.Element, verdict: Verdict) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        {"name": _attribute(verdict.item), "classname": _attribute(f"{verdict.area}.{verdict.scenario}"), "time": f"{verdict.seconds:.3f}"},
    )
    _properties(
        case,
        {
            "level": verdict.level,
            "target": verdict.target,
            "protocol": verdict.protocol,
            "providers": ",".join(verdict.providers),
            "findings": ",".join(dict.fromkeys(finding.id for finding in verdict.findings)),
            "exit_code": str(verdict.exit_code),
        },
    )
    first = cause(verdict)
    message = _attribute(clip_text(first.message, 500, 500) if first else verdict.title)
    kind = _attribute(first.id if first else verdict.outcome)
    if verdict.outcome == "not_applicable":
        ET.SubElement(case, "skipped", {"message": _attribute("; ".join(verdict.notes) or "not applicable here")})
    elif verdict.outcome == "fail":
        ET.SubElement(case, "failure", {"message": message, "type": kind}).text = _story(verdict)
    elif verdict.outcome == "error":
        ET.SubElement(case, "error", {"message": message, "type": kind}).text = _story(verdict)
    unproven = not_proven(verdict)
    if unproven:
        ET.SubElement(case, "system-out").text = visible(clip_text("not proven:\n" + "\n".join(f"- {line}" for line in unproven)))


def _story(verdict: Verdict) -> str:
    return "\n\n".join([visible(verdict.title), *(_finding(finding) for finding in verdict.findings)])


def _finding(finding: Finding) -> str:
    lines = [f"{finding.severity} {one_line(finding.id)}: {shown(finding.message)}"]
    place = " ".join(filter(None, (finding.where, finding.expectation, f"step {finding.step}" if finding.step else "")))
    for word, value in (("at", place), ("expected", finding.expected), ("actual", finding.actual), ("fix", finding.fix)):
        text = shown(value)
        if text:
            lines.append(f"  {word}: {text}")
    return "\n".join(lines)


def _properties(parent: ET.Element, values: Mapping[str, str]) -> None:
    holder = ET.SubElement(parent, "properties")
    for name, value in values.items():
        ET.SubElement(holder, "property", {"name": name, "value": _attribute(value)})


def _attribute(text: str) -> str:
    return one_line(text)


def _comment(text: str) -> str:
    """An XML comment may not hold two hyphens in a row, nor end in one."""
    return one_line(text).replace("-", "‐")


REPORT = JUnit()
