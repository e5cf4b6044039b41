"""The YAML reader: values, positions, and refusals that speak to whoever wrote the file."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import LoadError, LoadErrors
from harness.yaml_nodes import FASTEST, MapNode, locate, parse_yaml

SCANNERS = [FASTEST, yaml.SafeLoader]


@pytest.fixture(params=SCANNERS, ids=["fastest", "pure-python"])
def scanner(request: pytest.FixtureRequest) -> Any:
    return request.param


def refusals(text: str, scanner: Any) -> list[tuple[str, str, str, str]]:
    try:
        parse_yaml(text, "f.yaml", scanner=scanner)
    except LoadError as error:
        return [(error.where.removeprefix("f.yaml:"), error.what, error.fix, error.excerpt)]
    except LoadErrors as several:
        return [(e.where.removeprefix("f.yaml:"), e.what, e.fix, e.excerpt) for e in several.errors]
    return []


SIGNS = "has no quotes, and YAML reads its { } and : as its own signs"


@pytest.mark.parametrize(
    ("text", "where", "what", "fix"),
    [
        ("with: {text: ${fact}, user_id: u1}", "1:14", f"the variable ${{fact}} {SIGNS}", 'put quotes around the variable: "${fact}"'),
        (
            "with:\n  text: {fact}",
            "2:10",
            "{fact} is a YAML mapping with an empty value, not a variable",
            'put quotes around the variable: "${fact}" (for a mapping write {fact: value})',
        ),
        (
            "with:\n  text: ${fact}: note",
            "2:9",
            f"the variable ${{fact}} {SIGNS}",
            'put quotes around the variable: "${fact}", here around the whole value: "${fact}: note"',
        ),
        ("with:\n  text: @me", "2:9", "a value may not begin with '@'", 'put quotes around the value: "@me"'),
        ("with:\n  text: *star", "2:9", "aliases such as *star are not part of the language", 'put quotes around the value: "*star"'),
        ("with: [a, ${b.c}]", "1:11", f"the variable ${{b.c}} {SIGNS}", 'put quotes around the variable: "${b.c}"'),
        ("with: {{fact}}", "1:8", "{fact} is a YAML mapping, not a variable", 'put quotes around the variable: "${fact}"'),
        ("with: {x: @me, y: 1}", "1:11", "a value may not begin with '@'", 'put quotes around the value: "@me"'),
        ("with: {x: *star}", "1:11", "aliases such as *star are not part of the language", 'put quotes around the value: "*star"'),
        ("🙂: {text: ${fact}}", "1:11", f"the variable ${{fact}} {SIGNS}", 'put quotes around the variable: "${fact}"'),
        ("a: `x` # y", "1:4", "a value may not begin with '`'", 'put quotes around the value: "`x`"'),
        ("a: %x", "1:4", "a value may not begin with '%'", 'put quotes around the value: "%x"'),
    ],
)
def test_e05_a_variable_or_a_sign_without_quotes(text: str, where: str, what: str, fix: str, scanner: Any) -> None:
    line = text.split("\n")[int(where.split(":")[0]) - 1]
    assert refusals(text, scanner) == [(where, what, fix, line)]


@pytest.mark.parametrize(
    ("text", "where", "what", "fix"),
    [
        ("a: 1\nb: 2\na: 3", "3:1", "the key 'a' stands twice (first at line 1)", "remove or rename one of them"),
        ("a: {b: 1, b: 1}", "1:11", "the key 'b' stands twice (first at line 1)", "remove or rename one of them"),
        ("a: !!int '1'", "1:4", "tags such as !!int are not part of the language", "write the plain value; quote it if it is text"),
        ("a: !x {b: 1}", "1:4", "tags such as !x are not part of the language", "write the plain value; quote it if it is text"),
        ("a: &x 1", "1:4", "anchors such as &x are not part of the language", "write the value out; quote it if it is text"),
        ("a: 2026-07-24", "1:4", "an unquoted date: YAML readers disagree on what 2026-07-24 is", 'quote it: "2026-07-24"'),
        (
            "a: 2026-07-25T02:00:00Z",
            "1:4",
            "an unquoted date: YAML readers disagree on what 2026-07-25T02:00:00Z is",
            'quote it: "2026-07-25T02:00:00Z"',
        ),
        (
            "a: 2026-07-24 19:00:00 -07:00",
            "1:4",
            "an unquoted date: YAML readers disagree on what 2026-07-24 19:00:00 -07:00 is",
            'quote it: "2026-07-24 19:00:00 -07:00"',
        ),
        ("2026-07-24: x", "1:1", "an unquoted date: YAML readers disagree on what 2026-07-24 is", 'quote it: "2026-07-24"'),
        ("1: x", "1:1", "the key 1 is not text", 'quote it: "1"'),
        ("true: x", "1:1", "the key true is not text", 'quote it: "true"'),
        ("~: x", "1:1", "the key ~ is not text", 'quote it: "~"'),
        ("? [a]\n: x", "1:3", "a key must be text, not a list or a mapping", "write a plain word as the key"),
        ("<<: {a: 1}", "1:1", "merge keys (<<) are not part of the language", "write the keys out"),
        ("a: 1\n---\nb: 1", "2:1", "a second document starts here", "one file holds one document: move the rest to its own file"),
        ("%YAML 1.1\n---\na: 1", "1:1", "a % directive changes how YAML is read", "remove it: files are read as YAML 1.2, without tags"),
        ("a:\n\t- b", "2:1", "a tab where YAML wants spaces", "indent with spaces"),
        ("a: b: c", "1:5", 'a second ": " in one line: YAML takes it for another key', 'put quotes around the value: "b: c"'),
        ("a: {x:1}", "1:5", "{x:1} is a key 'x:1' without a value", "put a space after the colon: {x: 1}"),
        ("a: {x: 1, y}", "1:11", "'y' has no value", "write y: value (or y: null)"),
        ("a: 'x", "1:4", "the quote that is opened here is never closed", "close it, or check the line above"),
        ("a: [", "1:4", "the list that is opened here is never closed", "close it with ]"),
        ("a:\n  {b: 1,\n\n", "2:3", "the mapping that is opened here is never closed", "close it with }"),
        (
            'a: {b: "${x}" c: d}',
            "1:15",
            "the mapping opened at line 1, column 4 does not go on or end here",
            "put a comma between entries, close it with }, and quote text that holds brackets",
        ),
        ("a: .inf", "1:4", ".inf is not a number that JSON can carry", 'quote it if it is text: ".inf"'),
        ("a: 1e999", "1:4", "1e999 is too large for a double", 'quote it if it is text: "1e999"'),
        (f"a: {'9' * 5000}", "1:4", "a number of 5000 digits", "quote it if it is text"),
        ("", "1:1", "the file is empty", "write a document, or remove the file"),
        ("# only a note", "1:1", "the file is empty", "write a document, or remove the file"),
        ("[" * 33 + "]" * 33, "1:33", "nested deeper than 32 levels", "flatten the document"),
        ("a: b\x07", "1:5", "the character U+0007 may not stand in YAML", 'write it as an escape in double quotes: "\\u0007"'),
        ("a: b\n\u2028", "2:1", "the character U+2028 may not stand in YAML", 'write it as an escape in double quotes: "\\u2028"'),
    ],
)
def test_c07_and_whatever_else_makes_a_file_lie_is_refused_with_its_place(text: str, where: str, what: str, fix: str, scanner: Any) -> None:
    found = refusals(text, scanner)
    assert [(w, x, f) for w, x, f, _ in found] == [(where, what, fix)]


@pytest.mark.parametrize("text", ["a: [1, 2", "a: {b: 1", 'a: {b: "${x}" c: d}', "a: ]", "- a\nb: c", "a: |2\n b", "}", "a: *", "a: &", "? :\n -"])
def test_broken_structure_is_told_without_the_parsers_jargon_alone(text: str, scanner: Any) -> None:
    found = refusals(text, scanner)
    assert found
    for _, what, fix, _ in found:
        assert "did not find expected" not in what
        assert fix


def test_several_problems_come_together(scanner: Any) -> None:
    assert [w for w, _, _, _ in refusals("a: 2026-07-24\nb: &x 1\na: !t 2\n", scanner)] == ["1:4", "2:4", "3:1", "3:4"]


def test_too_big_is_refused_before_it_is_read() -> None:
    with pytest.raises(LoadError, match="at most 1,000,000"):
        parse_yaml("a" * 1_000_001, "f.yaml")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("012", 12),
        ("0o12", 10),
        ("0x1F", 31),
        ("0b11", "0b11"),
        ("12:30:45", "12:30:45"),
        ("1_000", "1_000"),
        ("+1", 1),
        ("-0", 0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("9007199254740993", 9007199254740993),
        ("~", None),
        ("null", None),
        ("nUll", "nUll"),
        ("=", "="),
        ('"2026-07-24"', "2026-07-24"),
        ("'12'", "12"),
        ("2026-07", "2026-07"),
        ("v2026-07-24", "v2026-07-24"),
        ("|\n  12\n", "12\n"),
        ("${fact}", "${fact}"),
        ("${fact} and more", "${fact} and more"),
        ("\ufeff1", 1),
    ],
)
def test_values_are_those_of_yaml_1_2_core(text: str, value: object, scanner: Any) -> None:
    document = text if text.startswith("\ufeff") else f"a: {text}"
    found = parse_yaml(document, "f.yaml", scanner=scanner).plain()
    found = found["a"] if isinstance(found, dict) else found
    assert (type(found), found) == (type(value), value)


def test_every_node_has_its_place() -> None:
    node = parse_yaml("a:\n  - b: {c: x}\n  - 2\n", "f.yaml")
    assert isinstance(node, MapNode)
    assert str(node.keys["a"]) == "f.yaml:1:1"
    assert str(locate(node, ["a", 0, "b", "c"])) == "f.yaml:2:12"
    assert str(locate(node, ["a", 0, "b", "c"], key=True)) == "f.yaml:2:9"
    assert str(locate(node, ["a", 0, "gone", "b"])) == "f.yaml:2:8"
    assert str(locate(node, ["a", 7])) == "f.yaml:2:3"


def test_nodes_cannot_be_changed() -> None:
    node = parse_yaml("a: 1", "f.yaml")
    assert isinstance(node, MapNode)
    with pytest.raises(TypeError):
        node.entries["b"] = node  # type: ignore[index]
    with pytest.raises(AttributeError):
        node.location = node.keys["a"]  # type: ignore[misc]


PRINTABLE = re.compile("[^\t\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


def in_quotes(text: str) -> str:
    """A YAML double-quoted scalar of any text."""
    written = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    return '"' + PRINTABLE.sub(lambda m: f"\\U{ord(m.group()):08X}", written) + '"'


def flow(value: Any) -> str:
    match value:
        case str():
            return in_quotes(value)
        case dict():
            return "{" + ", ".join(f"{in_quotes(k)}: {flow(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(flow(v) for v in value) + "]"
        case _:
            return json.dumps(value)


def block(value: Any, indent: int = 0) -> str:
    pad = "  " * indent
    match value:
        case dict() if value:
            return "".join(f"\n{pad}{in_quotes(k)}: {block(v, indent + 1)}" for k, v in value.items())
        case list() if value:
            return "".join(f"\n{pad}- {block(v, indent + 1)}" for v in value)
        case _:
            return flow(value)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(value=DOCUMENTS, style=st.sampled_from([flow, block]), scanner=st.sampled_from(SCANNERS))
@settings(max_examples=300, deadline=None)
def test_any_document_comes_back_as_it_was_written(value: Any, style: Any, scanner: Any) -> None:
    found = parse_yaml(f"--- {style(value)}\n", "f.yaml", scanner=scanner).plain()
    assert json.dumps(found, sort_keys=True) == json.dumps(value, sort_keys=True)


@given(
    text=st.text(st.one_of(st.sampled_from("{}[]:,-#&*!|>'\"%@`?\t\n $ab1.\\~<="), st.characters()), max_size=60),
    scanner=st.sampled_from(SCANNERS),
)
@settings(max_examples=500, deadline=None)
def test_any_text_is_read_or_refused(text: str, scanner: Any) -> None:
    for where, what, fix, _ in refusals(text, scanner):
        line, column = (int(n) for n in where.split(":"))
        assert line >= 1
        assert column >= 1
        assert what
        assert fix
