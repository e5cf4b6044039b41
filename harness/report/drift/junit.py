"""JUnit XML: one testcase per finding, and one that says whether the check could be made at all."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from harness.errors import Exit
from harness.model.drift_result import DriftResult, Judged
from harness.report.drift.proof import proof_lines
from harness.report.drift.reading import answer, place
from harness.report.inert import clip_text, one_line, shown, visible


class JUnit:
    id = "junit"
    summary = "JUnit XML: a testcase per finding; failing ones are failures, accepted ones skipped"

    def render(self, result: DriftResult) -> bytes:
        could_tell = result.exit_code in (Exit.OK, Exit.DRIFT)
        counts = {
            "tests": str(len(result.judged) + 1),
            "failures": str(len(result.failing)),
            "errors": str(int(not could_tell)),
            "skipped": str(len(result.accepted)),
            "time": "0.000",
        }
        root = ET.Element("testsuites", {"name": "harness drift", **counts})
        suite = ET.SubElement(root, "testsuite", {"name": _attribute(result.subject or "drift"), **counts})
        whole = ET.SubElement(suite, "testcase", {"name": "comparison", "classname": _attribute(f"drift.{result.subject}"), "time": "0.000"})
        if not could_tell:
            problem = ET.SubElement(whole, "error", {"message": _attribute("; ".join(result.reasons)), "type": result.verdict})
            problem.text = visible("\n".join(result.reasons))
        ET.SubElement(whole, "system-out").text = visible(answer(result))
        for judged in result.judged:
            _case(suite, judged, result)
        ET.indent(root)
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'.encode()


def _case(suite: ET.Element, judged: Judged, result: DriftResult) -> None:
    finding = judged.finding
    name = " ".join(filter(None, (finding.id, place(judged))))
    settings = {"name": _attribute(name), "classname": _attribute(f"drift.{result.subject}.{finding.tool or 'server'}"), "time": "0.000"}
    if judged.location:
        settings |= {"file": _attribute(judged.location.file), "line": str(judged.location.line)}
    case = ET.SubElement(suite, "testcase", settings)
    if judged.state == "accepted":
        ET.SubElement(case, "skipped", {"message": _attribute(f"accepted by {judged.accepted_by}")})
    elif judged.state == "failing":
        failure = ET.SubElement(case, "failure", {"message": _attribute(finding.message), "type": finding.id})
        lines = [finding.message, *proof_lines(result, finding), f"expected: {shown(finding.expected)}", f"actual: {shown(finding.actual)}"]
        failure.text = visible("\n".join([*lines, f"fix: {finding.fix}"]))
    else:
        ET.SubElement(case, "system-out").text = visible(clip_text(f"{finding.severity}: {finding.message}"))


def _attribute(text: str) -> str:
    return one_line(clip_text(text, 500, 480))


FORMAT = JUnit()
