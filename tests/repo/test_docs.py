"""The pages say what the code says: generated parts are current, examples work, links lead somewhere, nothing is left out."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from harness.cli.main import app
from harness.engine.vocabulary import kinds, load_vocabulary, verbs
from harness.expect.base import Place
from harness.model.verdict import Results
from harness.report.base import load_reports
from harness.scenario.load import load_scenario
from harness.scenario.manifest import load_manifest
from harness.scenario.params import expectation_input
from harness.target.base import RunningTarget

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "reports/README.md", ROOT / "cassettes/README.md"])
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\[[^\]]+\]\((?P<target>[^)\s]+)\)")


def blocks(language: str) -> list[tuple[str, str]]:
    """(page and number, text) of every fenced block in this language."""
    found = []
    for page in PAGES:
        matches = [m["body"] for m in FENCE.finditer(page.read_text(encoding="utf-8")) if m["language"] == language]
        found += [(f"{page.relative_to(ROOT)}#{number}", body) for number, body in enumerate(matches, 1)]
    return found


def named(found: list[tuple[str, str]]) -> dict[str, Any]:
    return {"argvalues": [body for _, body in found], "ids": [name for name, _ in found]}


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def module_of(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where pydantic looks names up
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[path.stem]
    return module


def make_docs() -> ModuleType:
    return module_of(ROOT / "tools" / "make_docs.py")


# ---- what is generated


def test_generated_parts_are_current() -> None:
    tool = make_docs()
    stale = [path.name for path in PAGES if tool.renewed(text := path.read_text(encoding="utf-8")) != text]
    assert stale == [], "run `make docs`"


def test_every_generated_part_stands_somewhere() -> None:
    tool = make_docs()
    used = {found["name"] for path in PAGES for found in tool.PART.finditer(path.read_text(encoding="utf-8"))}
    assert used == set(tool.PARTS)


# ---- nothing is left out


@pytest.mark.parametrize("word", sorted({*verbs(), *kinds()}))
def test_every_word_has_an_entry_with_its_example(word: str) -> None:
    entries = re.split(r"^### ", page("words.md"), flags=re.MULTILINE)
    (entry,) = [e for e in entries if e.startswith(f"{word}\n")]
    examples = [verbs()[word].example] if word in verbs() else [s.yaml for s in kinds()[word].specimens()]
    assert all(example in entry for example in examples)


def options() -> Iterator[tuple[str, str]]:
    for name, command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        for parameter in command.params:
            yield from ((name, option) for option in [*parameter.opts, *parameter.secondary_opts] if option.startswith("--"))


@pytest.mark.parametrize(("command", "option"), sorted(options()))
def test_every_option_is_documented(command: str, option: str) -> None:
    (entry,) = [e for e in re.split(r"^##+ ", page("commands.md"), flags=re.MULTILINE) if e.startswith(f"harness {command}\n")]
    assert f"`{option}`" in entry or option == "--help"


@pytest.mark.parametrize("format_id", sorted(load_reports()))
def test_every_report_format_is_documented(format_id: str) -> None:
    assert f"| `{format_id}` |" in page("commands.md")


def finding_ids() -> set[str]:
    """Every id that the judging code spells out."""
    found: set[str] = set()
    for path in (p for folder in ("engine", "expect", "risk") for p in (ROOT / "harness" / folder).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("Finding", "finding", "RiskDisagreement", "Disagreement"):
                ids = [k.value for k in node.keywords if k.arg in ("id", "rule")]
                found |= {c.value for i in ids for c in ast.walk(i) if isinstance(c, ast.Constant) and isinstance(c.value, str)}
            if isinstance(node, ast.FunctionDef) and node.name == "trouble_id":
                values = [v for d in ast.walk(node) if isinstance(d, ast.Dict) for v in d.values]
                found |= {v.value for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str)} | {"could-not-tell"}
    return {i for i in found if re.fullmatch(r"[a-z]+(-[a-z]+)*", i)}


def test_the_finding_ids_are_found_in_the_code() -> None:
    assert {"witness-blind", "untestable", "audit-altered", "risk-under-claimed", "list-incomplete", "cleanup-failed"} <= finding_ids()


@pytest.mark.parametrize("finding", sorted(finding_ids()))
def test_every_finding_is_documented(finding: str) -> None:
    assert f"| `{finding}` |" in page("findings.md")


def test_every_make_target_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {name for line in re.findall(r"^\.PHONY: (.+)$", makefile, flags=re.MULTILINE) for name in line.split()}
    explained = set(re.findall(r"^([a-z-]+):.*## \S", makefile, flags=re.MULTILINE))
    assert targets == explained


def test_ci_calls_make_targets_and_begins_as_the_readme_does() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    parts = re.findall(r"^part ([a-z-]+)$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert all(re.search(rf"^{part}:", makefile, flags=re.MULTILINE) for part in parts)
    first = next(body for name, body in blocks("sh") if name == "README.md#1")
    commands = [line.partition("#")[0].split() for line in first.splitlines()]
    assert commands == [["make", part] for part in parts[:2]] == [["make", "accept"], ["make", "test"]]


# ---- what is shown works


SCENARIOS = [(name, body) for name, body in blocks("yaml") if body.startswith("scenario:")]
MANIFESTS = [(name, body) for name, body in blocks("yaml") if body.startswith("id:") and "transport:" in body]
SOURCES = blocks("python")
COMMANDS = [(name, line) for name, body in blocks("sh") for line in body.splitlines() if line.startswith("harness ")]


def test_there_are_examples() -> None:
    assert len(SCENARIOS) >= 2
    assert len(MANIFESTS) >= 1
    assert len(SOURCES) >= 3
    assert len(COMMANDS) >= 5


@pytest.mark.parametrize("text", **named(SCENARIOS))
def test_scenarios_shown_can_be_loaded(text: str) -> None:
    scenario = load_scenario(text, "docs/example.yaml", load_vocabulary())
    assert scenario.proves
    assert scenario.does_not_prove


@pytest.mark.parametrize("text", **named(MANIFESTS))
def test_manifests_shown_can_be_loaded(text: str) -> None:
    assert load_manifest(text, "docs/example.yaml").id == "example"


@pytest.mark.parametrize("source", **named(SOURCES))
def test_plugins_shown_do_what_a_plugin_must(source: str, tmp_path: Path) -> None:
    (tmp_path / "shown_plugin.py").write_text(source, encoding="utf-8")
    module = vars(module_of(tmp_path / "shown_plugin.py"))
    if kind := module.get("KIND"):
        for specimen, holds in zip(kind.specimens(), (True, False), strict=True):
            ((word, value),) = _yaml(specimen.yaml).items()
            assert word == kind.id
            params = kind.params.model_validate(expectation_input(value))
            assert (kind.judge(params, Place("x", specimen.step, ""), specimen.view) == []) is holds
    elif action := module.get("ACTION"):
        assert isinstance(_yaml(action.example), dict)
        assert action.params.model_validate({"target": _yaml(action.example)[action.id]})
        used = set(re.findall(r"stage\.target\.(\w+)\(", source))
        assert used <= set(dir(RunningTarget))
    else:
        nothing = Results(
            run="r", started_at="", ended_at="", harness_version="", level_line="l", exit_code=0, exit_reasons=(), totals={}, verdicts=()
        )
        assert module["REPORT"].files(nothing)


def _yaml(text: str) -> Any:
    import yaml

    return yaml.safe_load(text)


@pytest.mark.parametrize("line", **named(COMMANDS))
def test_commands_shown_can_be_given(line: str) -> None:
    name, *arguments = shlex.split(line, comments=True)[1:]
    group: Any = typer.main.get_command(app)
    command = group if name.startswith("-") else group.commands[name]
    known = {o for p in command.params for o in [*p.opts, *p.secondary_opts]} | {"--help", "--version"}
    assert {a.partition("=")[0] for a in [name, *arguments] if a.startswith("-")} <= known


@pytest.mark.parametrize("line", **named([(n, line) for n, body in blocks("sh") for line in body.splitlines() if line.startswith("make ")]))
def test_make_targets_shown_exist(line: str) -> None:
    assert re.search(rf"^{line.split()[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)


# ---- links


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def leads(there: Path, anchor: str) -> bool:
    """To a heading of a page, or to a line of any other file."""
    text = there.read_text(encoding="utf-8")
    if there.suffix == ".md":
        return anchor in anchors(text)
    return re.fullmatch(r"L[1-9]\d*", anchor) is not None and int(anchor[1:]) <= text.count("\n")


@pytest.mark.parametrize("path", PAGES, ids=[str(p.relative_to(ROOT)) for p in PAGES])
def test_links_lead_somewhere(path: Path) -> None:
    broken = []
    for target in (m["target"] for m in LINK.finditer(path.read_text(encoding="utf-8"))):
        if target.startswith(("https://", "http://")):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.exists() or (anchor and not leads(there, anchor)):
            broken.append(target)
    assert broken == []


def test_every_page_is_reachable_from_the_readme() -> None:
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        current = todo.pop()
        if current in seen or current.suffix != ".md":
            continue
        seen.add(current)
        links = (m["target"].partition("#")[0] for m in LINK.finditer(current.read_text(encoding="utf-8")))
        todo += [(current.parent / link).resolve() for link in links if link and "://" not in link]
    assert {p for p in PAGES if p.parent.name == "docs"} <= seen
