"""`drift.yaml`: severities, threshold and files of a project that checks for drift. Everything in it may be left out, the file too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import LoadError, LoadErrors
from harness.model.drift import SEVERITIES, DriftSeverity
from harness.model.drift_result import SEVERITY_OF
from harness.registry import suggest
from harness.yaml_hints import source_lines
from harness.yaml_nodes import MapNode, Node, ScalarNode, SeqNode, parse_yaml

NAME = "drift.yaml"
KEYS = ("severities", "fail_on", "waivers")


@dataclass(frozen=True, slots=True)
class Config:
    """`severities`: rule id → severity in place of the table's. `waivers`: the file, relative to the folder of drift.yaml."""

    severities: Mapping[str, DriftSeverity] = field(default_factory=dict)
    fail_on: tuple[str, ...] = ()
    waivers: Path | None = None


def load_config(path: Path, rules: Collection[str]) -> Config:
    """Raises LoadError when the file cannot be read, LoadErrors with everything that is wrong in it. `rules` are the known rule ids."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"cannot be read: {error}", where=str(path), fix="check the path; it must be UTF-8") from error
    return parse_config(text, path, rules)


def parse_config(text: str, path: Path, rules: Collection[str]) -> Config:
    node = parse_yaml(text, str(path))
    reader = _Reader(source_lines(text))
    if not isinstance(node, MapNode):
        raise LoadErrors([reader.error(node, "drift.yaml is a mapping", f"use one of: {', '.join(KEYS)}")])
    for key in node.entries:
        if key not in KEYS:
            reader.errors.append(reader.error_at(node, key, f"unknown key {key!r}", suggest(key, list(KEYS))))
    config = Config(reader.severities(node.entries.get("severities"), rules), reader.words(node.entries.get("fail_on")), _waivers(node, path, reader))
    if reader.errors:
        raise LoadErrors(reader.errors)
    return config


def _waivers(node: MapNode, path: Path, reader: _Reader) -> Path | None:
    found = node.entries.get("waivers")
    if found is None:
        return None
    if isinstance(found, ScalarNode) and isinstance(found.value, str) and found.value:
        return path.parent / found.value
    reader.errors.append(reader.error(found, "waivers names a file", "write waivers: waivers.yaml"))
    return None


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self.errors: list[LoadError] = []

    def error(self, node: Node, what: str, fix: str) -> LoadError:
        return LoadError(what, where=str(node.location), fix=fix, excerpt=self._lines[node.location.line - 1].strip()[:160])

    def error_at(self, node: MapNode, key: str, what: str, fix: str) -> LoadError:
        mark = node.keys[key]
        return LoadError(what, where=str(mark), fix=fix, excerpt=self._lines[mark.line - 1].strip()[:160])

    def severities(self, node: Node | None, rules: Collection[str]) -> dict[str, DriftSeverity]:
        if node is None:
            return {}
        if not isinstance(node, MapNode):
            self.errors.append(self.error(node, "severities is a mapping", "write rule-id: breaking, risk, text or info"))
            return {}
        found: dict[str, DriftSeverity] = {}
        for rule, value in node.entries.items():
            word = value.value if isinstance(value, ScalarNode) else None
            if rule not in rules:
                self.errors.append(self.error_at(node, rule, f"unknown rule {rule!r}", suggest(rule, list(rules))))
            known = next((severity for severity in SEVERITIES if severity == word), None)
            if known is None:
                self.errors.append(self.error(value, f"{word!r} is no severity", f"use one of: {', '.join(SEVERITIES)}"))
            else:
                found[rule] = known
        return found

    def words(self, node: Node | None) -> tuple[str, ...]:
        if node is None:
            return ()
        found: list[str] = []
        for item in node.items if isinstance(node, SeqNode) else (node,):
            word = item.value if isinstance(item, ScalarNode) else None
            if word in SEVERITY_OF:
                found.append(str(word))
            else:
                self.errors.append(self.error(item, f"{word!r} is no threshold", f"use one of: {', '.join(SEVERITY_OF)}"))
        return tuple(found)
