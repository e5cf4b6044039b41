"""Writes the rules' part of docs/drift.md, one section per rule, and docs/drift.schema.json. A test compares both with the code.

The example of a section is what the rule says of its own failing specimen.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from harness.drift.compare import compare
from harness.drift.relation import relate
from harness.drift.relations import relations_between
from harness.drift.rule import Rule, specimen_side
from harness.drift.rules import TABLE
from harness.fleet.rules import rule_infos
from harness.model.drift import SEVERITIES
from harness.report.drift.base import load_formats
from harness.report.drift.document import json_schema
from harness.report.inert import one_line

DOCS = Path(__file__).resolve().parents[1] / "docs"
PART = re.compile(r"(?P<begin><!-- (?P<name>rules|formats), from the code -->\n)(?P<body>.*?)(?P<end><!-- end of \w+ -->)", re.DOTALL)
MEANING = {
    "breaking": "a documented caller is refused, or a reader gets what it was promised it would not",
    "risk": "may hurt, or is a security signal, or could not be decided here",
    "text": "what a model reads changed",
    "info": "good to know; nobody is hurt",
}


def example(rule: Rule) -> str:
    """The sentence that the rule says of its failing specimen; its severity may there be overruled by proof, the sentence is still its own."""
    old, new = (specimen_side(specimen) for specimen in rule.fails)

    def decide(before: object, after: object, one: int | None, other: int | None) -> object:
        return relate(before, after, old_draft=one, new_draft=other)

    for relations in (None, relations_between(old, new, decide)):  # type: ignore[arg-type]  # the same signature, by position
        for finding in compare(old, new, relations=relations).findings:
            if finding.id == rule.id:
                return one_line(finding.message)
    return ""


def rules_part() -> str:
    parts = []
    examples = {rule.id: example(rule) for rule in reversed(TABLE)}
    infos = rule_infos()
    for severity in SEVERITIES:
        parts.append(f"## Severity {severity}\n\n{MEANING[severity][:1].upper()}{MEANING[severity][1:]}.\n")
        for rule in (info for info in infos if info.default == severity):
            said = f"Says, for example: `{examples[rule.id].replace('`', chr(39))}`\n\n" if examples.get(rule.id) else ""
            about = {"waiver": "About an accepted exception."}.get(rule.direction, f"Direction: {rule.direction}.")
            parts.append(f"### {rule.id}\n\n{about}\n\n{said}What to do: {rule.fix}.\n")
    return "\n".join(parts)


def formats_part() -> str:
    rows = "".join(f"| `{name}` | {found.summary} |\n" for name, found in load_formats().items())
    return f"| `--format` | What it is |\n| --- | --- |\n{rows}"


PARTS = {"rules": rules_part, "formats": formats_part}


def renewed(page: str) -> str:
    """The page with its generated parts as they should be now."""
    return PART.sub(lambda found: f"{found['begin']}\n{PARTS[found['name']]()}\n{found['end']}", page)


def schema_text() -> str:
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def stale() -> Iterator[tuple[Path, str]]:
    """(file, text that it should have) of each that differs."""
    page, schema = DOCS / "drift.md", DOCS / "drift.schema.json"
    for path, wanted in ((page, renewed(page.read_text(encoding="utf-8"))), (schema, schema_text())):
        if not path.exists() or path.read_text(encoding="utf-8") != wanted:
            yield path, wanted


def main() -> int:
    for path, wanted in stale():
        path.write_text(wanted, encoding="utf-8")
        sys.stdout.write(f"renewed {path.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
