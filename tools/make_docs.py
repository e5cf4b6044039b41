"""Writes those parts of docs/ that say what the code says, and the JSON Schema of scenarios: `make docs`. Tests compare the two.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->` in a page; everything else of the page is written by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import BaseModel

from harness.cli.main import app
from harness.drift.rules import TABLE as DRIFT_RULES
from harness.engine.vocabulary import kinds, load_vocabulary, verbs
from harness.expect.audit_table import DENY, UPSTREAM
from harness.expect.audit_table import TABLE as AUDIT
from harness.fake.kit import providers as stand_ins
from harness.gate.answer import json_schema as gate_schema
from harness.local.base import servers as local_servers
from harness.model.drift import SEVERITIES
from harness.pytest_plugin import pytest_addoption
from harness.report.base import load_reports
from harness.scenario.schema import write_schema
from harness.tap.fault import FAULT_KINDS, Fault
from harness.tap.mutate import MUTATION_KINDS
from reference_gateway.defects import KNOWN as DEFECTS

DOCS = Path(__file__).resolve().parents[1] / "docs"
PART = re.compile(r"(?P<begin><!-- generated: (?P<name>[a-z-]+) -->\n)(?P<body>.*?)(?P<end><!-- end -->)", re.DOTALL)

MUTATIONS: Mapping[str, str] = {
    "parameter-added": "a new optional parameter",
    "parameter-removed": "a parameter is gone",
    "parameter-retyped": "a parameter has another type",
    "parameter-required": "an optional parameter becomes required",
    "enum-narrowed": "fewer values are accepted",
    "description-changed": "the tool's description says something else",
    "hint-flipped": "an annotation such as readOnlyHint is turned round",
    "output-schema-changed": "the output schema has another property",
    "tool-renamed": "the tool has another name",
    "tool-removed": "the tool is not listed",
    "tool-added": "a tool that nobody agreed to is listed",
    "cursor-dropped": "the list ends after its first page",
    "cursor-loop": "the list never ends: each page names the same next one",
}


def cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *([cell(c) for c in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def spelled(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> str:
    """A parameter's schema in words."""
    if "$ref" in schema:
        return spelled(defs[schema["$ref"].rpartition("/")[2]], defs)
    if "const" in schema:
        return f"`{str(schema['const']).lower() if isinstance(schema['const'], bool) else schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(spelled(s, defs) for s in schema["anyOf"] if s.get("type") != "null"))
    if schema.get("type") == "array":
        inner = spelled(schema.get("items", {}), defs)
        return "a list" if inner == "anything" else f"a list of {inner}"
    if schema.get("type") == "object" and schema.get("properties"):
        return "{" + ", ".join(f"{key}: {spelled(value, defs)}" for key, value in schema["properties"].items()) + "}"
    words = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false", "object": "a mapping"}
    return words.get(schema.get("type", ""), "anything")


def parameters(model: type[BaseModel], first: str) -> str:
    """The table of a word's keys. `first` is the name under which a bare value is known, which is the word itself."""
    whole = model.model_json_schema(by_alias=True)
    required, defs = set(whole.get("required", ())), whole.get("$defs", {})
    rows = []
    for name, schema in whole.get("properties", {}).items():
        key = first if name in ("target", "value") else f"`{name.removesuffix('_')}`"
        default = schema.get("default")
        absent = "required" if name in required else "" if default in (None, "", {}, []) else f"`{default}`".lower()
        rows.append((key, spelled(schema, defs), absent))
    return table(("Key", "Takes", "Without it"), rows)


def note_of(model: type[BaseModel]) -> str:
    """The parameters' own explanation, unless it is the base class's."""
    text = model.__dict__.get("__doc__") or ""
    return " ".join(text.split()) + "\n\n" if text.strip() else ""


def fenced(text: str, language: str = "yaml") -> str:
    return f"```{language}\n{text}\n```\n"


def verb_part() -> str:
    parts = []
    for verb in verbs().values():
        bench = "The scenario gets a bench of its own.\n\n" if verb.mutates else ""
        text = f"### {verb.id}\n\n{verb.summary[0].upper()}{verb.summary[1:]}.\n\n{note_of(verb.params)}{bench}"
        parts.append(text + fenced(verb.example) + "\n" + parameters(verb.params, f"`{verb.id}`"))
    return "\n".join(parts)


def expectation_part() -> str:
    parts = []
    for kind in kinds().values():
        place = " and ".join({"step": "a step", "run": "the whole run"}[scope] for scope in sorted(kind.scopes, reverse=True))
        holds, fails = kind.specimens()
        text = f"### {kind.id}\n\n{kind.summary[0].upper()}{kind.summary[1:]}. Judges {place}.\n\n{note_of(kind.params)}"
        shown = holds.yaml if holds.yaml == fails.yaml else f"{holds.yaml}\n# and one that its failing specimen uses:\n{fails.yaml}"
        parts.append(text + fenced(shown) + "\n" + parameters(kind.params, "the bare value"))
    return "\n".join(parts)


def audit_part() -> str:
    def rows() -> Iterator[tuple[str, str]]:
        for word, records in AUDIT.items():
            yield f"`{word}`", " · ".join(f"{r.event}/{r.outcome}/{r.decision}/{reason(r.reasons)}" for r in records)

    def reason(reasons: frozenset[str]) -> str:
        named = {frozenset(DENY): "*a reason to deny*", frozenset(UPSTREAM): "*an upstream reason*"}
        return named.get(reasons) or " or ".join(sorted(reasons))

    lists = [("Reasons to deny", DENY), ("Upstream reasons", UPSTREAM)]
    said = "".join(f"\n{title}: {', '.join(f'`{r}`' for r in sorted(reasons))}.\n" for title, reasons in lists)
    return table(("Word", "Records, in order: event/outcome/decision/reason"), rows()) + said


def fault_part() -> str:
    common = {f.name for f in fields(Fault)}
    rows = []
    for kind, fault in sorted(FAULT_KINDS.items()):
        settings = ", ".join(f"`{f.name}`" for f in fields(fault) if f.name not in common)
        rows.append((f"`{kind}`", " ".join((fault.__doc__ or "").split()), settings))
    return table(("`kind`", "What the tap does", "Settings, in `with`"), rows)


def mutation_part() -> str:
    return table(("`kind`", "What the tool list looks like then"), ((f"`{kind}`", MUTATIONS[kind]) for kind in sorted(MUTATION_KINDS)))


def drift_part() -> str:
    known: dict[str, tuple[str, str]] = {}
    for rule in DRIFT_RULES:
        known.setdefault(rule.id, (rule.severity, rule.fix))
    ordered = sorted(known.items(), key=lambda entry: (SEVERITIES.index(entry[1][0]), entry[0]))
    return table(("Id", "Severity", "What to do"), ((f"`{name}`", severity, fix) for name, (severity, fix) in ordered))


def defect_part() -> str:
    values = {"": "", "ADDRESS": "=ADDRESS"}
    rows = ((f"`{name}{values.get(value, f'[={value}]')}`", what) for name, (value, what) in DEFECTS.items())
    return table(("Defect", "What goes wrong in the gateway"), rows)


def report_part() -> str:
    rows = ((f"`{r.id}`", r.summary, "yes" if r.by_default else "on request") for r in load_reports().values())
    return table(("`--report`", "What it is", "Written"), rows)


def all_commands() -> Iterator[tuple[str, Any]]:
    """Every command, a group before the commands in it."""
    group: Any = typer.main.get_command(app)
    for name, command in sorted(group.commands.items()):
        yield name, command
        yield from ((f"{name} {inner}", below) for inner, below in sorted(getattr(command, "commands", {}).items()))


def command_part() -> str:
    parts = []
    for name, command in all_commands():
        about = (command.help or "").partition("\n\n")[0].replace("\n", " ").strip()
        rows = []
        for option in command.params:
            if option.name == "help":
                continue
            is_option = option.param_type_name == "option"
            spellings = ", ".join(f"`{o}`" for o in [*option.opts, *option.secondary_opts]) if is_option else f"`{(option.name or '').upper()}`"
            rows.append((spellings, getattr(option, "help", "") or ""))
        parts.append(f"### harness {name}\n\n{about}\n" + (f"\n{table(('Argument or option', 'Meaning'), rows)}" if rows else ""))
    return "\n".join(parts)


def pytest_part() -> str:
    parser = pytest.Parser(_ispytest=True)
    pytest_addoption(parser)
    rows = [(f"`{option.names()[0]}`", option.attrs().get("help", "")) for group in parser._groups for option in group.options]
    return table(("Option", "Meaning"), rows)


def stand_in_part() -> str:
    return "".join(f"- `{name}`\n" for name in sorted(stand_ins()))


def local_part() -> str:
    rows = ((f"`{s.id}`", s.schema_level, s.memory_level, ", ".join(s.protocols)) for s in local_servers().values())
    return table(("Provider", "Claims about schema and protocol", "Claims about memory", "MCP versions"), rows)


PARTS: Mapping[str, Callable[[], str]] = {
    "verbs": verb_part,
    "expectations": expectation_part,
    "audit-words": audit_part,
    "faults": fault_part,
    "mutations": mutation_part,
    "drift-rules": drift_part,
    "defects": defect_part,
    "reports": report_part,
    "commands": command_part,
    "pytest-options": pytest_part,
    "stand-ins": stand_in_part,
    "local-servers": local_part,
}


def renewed(page: str) -> str:
    """The page with every generated part as it should be now. KeyError for a part that nobody makes."""
    return PART.sub(lambda found: f"{found['begin']}\n{PARTS[found['name']]()}\n{found['end']}", page)


def main() -> int:
    for path in sorted(DOCS.glob("*.md")):
        old = path.read_text(encoding="utf-8")
        new = renewed(old)
        if new != old:
            path.write_text(new, encoding="utf-8")
            sys.stdout.write(f"renewed {path.name}\n")
    write_schema(DOCS / "scenario.schema.json", load_vocabulary())
    (DOCS / "gate.schema.json").write_text(json.dumps(gate_schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
