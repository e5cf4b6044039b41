"""Inventory files: what is read back is what was written, and every way of breaking one has a position."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import LoadError, LoadErrors
from harness.inventory.canonical import json_hash
from harness.inventory.shape import open_defaults
from harness.inventory.store import dump_inventory, load_inventories, load_inventory, parse_inventory, read_inventory, save_inventory
from harness.model.inventory import Components, Inventory, Taken, ToolRecord

HASH = "a" * 64
EMPTY = json_hash({})
GOOD = f"""\
inventory: demo
recipe: input-schema/jcs-sha256/1
taken:
  date: "2026-09-24"
  endpoint: "https://example.test/mcp"
  headers: [X-Workspace]
  pages: 2
tools:
  - name: add
    schema_hash: "{HASH}"
    risk: write
    status: active
    parameters: [text]
    shape_basis: verified
    shape_hash: "{json_hash({"properties": {"text": {"type": "string"}}})}"
    shape: {{properties: {{text: {{type: string}}}}}}
  - name: ping
    schema_hash: "{EMPTY}"
    risk: read
    parameters: []
    shape_basis: none
"""


def test_a_sound_file() -> None:
    inventory = parse_inventory(GOOD, "demo.yaml")
    assert (inventory.provider, inventory.taken.pages, inventory.taken.headers) == ("demo", 2, ("X-Workspace",))
    assert [record.name for record in inventory.tools] == ["add", "ping"]
    assert inventory.get("ping") is inventory.tools[1]
    assert inventory.get("Ping") is None
    assert parse_inventory(dump_inventory(inventory), "again") == inventory


@pytest.mark.parametrize(
    ("old", "new", "where", "what", "fix"),
    [
        (f'schema_hash: "{HASH}"', 'schema_hash: "abc"', "demo.yaml:10:5", "schema_hash is not a SHA-256", "64 lower-case"),
        (f'schema_hash: "{HASH}"', f'schema_hash: "{"A" * 64}"', "demo.yaml:10:5", "not a SHA-256", "64 lower-case"),
        ("risk: write", "risk: medium", "demo.yaml:11:5", "risk is 'medium'", "'read', 'write' or 'destructive'"),
        ("risk: write", "rsik: write", "demo.yaml:11:5", "unknown key 'rsik'", "did you mean 'risk'"),
        ("  pages: 2", "  page: 2", "demo.yaml:7:3", "unknown key 'page'", "did you mean 'pages'"),
        ("recipe:", "recepy:", "demo.yaml:2:1", "unknown key 'recepy'", "did you mean 'recipe'"),
        ("inventory: demo", "provider: demo", "demo.yaml:1:1", "unknown key 'provider'", "write `inventory:`"),
        ("    risk: read\n", "", "demo.yaml:17:5", "'risk' is missing", "add `risk:`"),
        ("name: ping", "name: add", "demo.yaml:17:5", "'add' is listed twice", "remove"),
        ("parameters: [text]", "parameters: [text, more]", "demo.yaml:13:5", "differ in more", "agree"),
        ("parameters: [text]", "parameters: [text, text]", "demo.yaml:13:5", "listed twice", "remove"),
        ("type: string", "type: integer", "demo.yaml:15:5", "shape_hash does not fit", "hashes to"),
        ("{type: string}", "{type: string, title: T}", "demo.yaml:16:5", "holds text at /properties/text/title", "no prose"),
        ("{type: string}", "{type: string, default: acme}", "demo.yaml:16:5", "in clear at /properties/text/default", "reviewed_defaults"),
        ("shape_basis: verified", "shape_basis: none", "demo.yaml:14:5", "shape_basis is 'none'", "exactly when"),
        ("shape_basis: verified", "shape_basis: guessed", "demo.yaml:14:5", "shape_basis is 'guessed'", "'verified'"),
        ('date: "2026-09-24"', "date: 2026-09-24", "demo.yaml:4:9", "unquoted date", '"2026-09-24"'),
        ('date: "2026-09-24"', 'date: "Sept 24"', "demo.yaml:4:3", "date is 'Sept 24'", "YYYY-MM-DD"),
        ("name: ping", "name: &p ping", "demo.yaml:17:11", "anchors such as &p", "write the value out"),
        ("name: ping", "name: !!binary ping", "demo.yaml:17:11", "tags such as !!binary", "plain value"),
        ("risk: read", "risk: read\n    risk: read", "demo.yaml:20:5", "'risk' stands twice", "remove"),
        ("pages: 2", "pages: 0", "demo.yaml:7:3", "pages", ""),
        ("tools:", "tools: [", "demo.yaml:", "does not go on or end", "close it"),
        ("recipe: input-schema/jcs-sha256/1", "recipe: md5", "demo.yaml:2:1", "recipe is 'md5'", "input-schema/jcs-sha256/1"),
    ],
)
def test_a_broken_file_says_where_what_and_how_to_fix(old: str, new: str, where: str, what: str, fix: str) -> None:
    assert old in GOOD
    with pytest.raises((LoadError, LoadErrors)) as caught:
        parse_inventory(GOOD.replace(old, new, 1), "demo.yaml")
    errors = caught.value.errors if isinstance(caught.value, LoadErrors) else (caught.value,)
    matching = [error for error in errors if what in error.what]
    assert matching, str(caught.value)
    assert matching[0].where.startswith(where), matching[0].where
    assert fix in matching[0].fix
    assert caught.value.exit_code == 2


def test_a_recorded_schema_without_prose_must_hash_to_its_shape() -> None:
    text = GOOD.replace("    shape_basis: none", f'    shape_basis: verified\n    shape_hash: "{EMPTY}"\n    shape: {{}}\n    prose: {{}}')
    assert parse_inventory(text, "x").tools[1].prose == {}
    with pytest.raises(LoadErrors, match="no prose was removed"):
        parse_inventory(text.replace(f'schema_hash: "{EMPTY}"', f'schema_hash: "{HASH}"'), "x")


def test_every_problem_is_told_at_once() -> None:
    text = GOOD.replace("risk: write", "risk: x").replace("risk: read", "risk: y")
    with pytest.raises(LoadErrors) as caught:
        parse_inventory(text, "x")
    assert len(caught.value.errors) == 2


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n", "text\n", "a: [b, *c]\n", "? [x]\n: y\n", "1: x\n"])
def test_what_is_no_inventory(text: str) -> None:
    with pytest.raises((LoadError, LoadErrors)):
        parse_inventory(text, "x")


def test_missing_files_suggest(tmp_path: Path) -> None:
    save_inventory(parse_inventory(GOOD, "x"), tmp_path / "demo.yaml")
    with pytest.raises(LoadError) as caught:
        load_inventory(tmp_path, "demmo")
    assert "no inventory for provider 'demmo'" in str(caught.value)
    assert "did you mean 'demo'" in caught.value.fix
    with pytest.raises(LoadError, match="no such folder"):
        load_inventories(tmp_path / "nowhere")
    with pytest.raises(LoadError, match="no such inventory"):
        read_inventory(tmp_path / "nothing.yaml")
    with pytest.raises(LoadError, match="cannot be read"):
        read_inventory(tmp_path)


def test_the_file_name_is_the_provider(tmp_path: Path) -> None:
    save_inventory(parse_inventory(GOOD, "x"), tmp_path / "other.yaml")
    with pytest.raises(LoadErrors, match="speaks of 'demo'"):
        load_inventories(tmp_path)


def test_a_folder_reports_all_its_broken_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD.replace("risk: write", "risk: x"))
    (tmp_path / "b.yaml").write_text("tools: [")
    with pytest.raises(LoadErrors) as caught:
        load_inventories(tmp_path)
    assert len({error.where.split(":")[0] for error in caught.value.errors}) == 2


def test_saving_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    target = tmp_path / "demo.yaml"
    target.write_text("old")
    save_inventory(parse_inventory(GOOD, "x"), target)
    assert read_inventory(target) == parse_inventory(GOOD, "x")
    assert [path.name for path in tmp_path.iterdir()] == ["demo.yaml"]


WORDS = st.sampled_from(
    [
        "yes",
        "no",
        "on",
        "null",
        "true",
        "~",
        "1",
        "1.0",
        "0o17",
        "2026-01-01",
        "12:30:45",
        "",
        "é😀",
        "a: b",
        "# x",
        "- y",
        "\n",
        "\x85",
        "<<",
        "=",
    ]
)
words = WORDS | st.text(st.characters(codec="utf-8"), max_size=6)
numbers = st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False)
leaves = st.none() | st.booleans() | numbers | words
nested = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3), max_leaves=6)


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    records = []
    for name in draw(st.lists(words.filter(bool), max_size=3, unique=True)):
        properties = draw(st.dictionaries(words, st.fixed_dictionaries({"const": nested}, optional={"default": nested}), max_size=3))
        shape: dict[str, Any] = {"properties": properties, "enum": draw(st.lists(nested, max_size=2))}
        records.append(
            ToolRecord(
                name=name,
                schema_hash=HASH,
                risk=draw(st.sampled_from(["read", "write", "destructive"])),
                parameters=tuple(properties),
                shape_basis=draw(st.sampled_from(["verified", "assumed"])),
                shape=shape,
                shape_hash=json_hash(shape),
                reviewed_defaults=open_defaults(shape),
                prose=draw(st.none() | st.just({"/properties/x/description": HASH})),
                components=draw(st.none() | st.just(Components()) | st.just(Components(title=HASH))),
            )
        )
    return Inventory(provider="demo", taken=Taken(date="2026-01-01", server_name=draw(st.none() | words)), tools=tuple(records))


@settings(max_examples=60, deadline=None)
@given(inventories())
def test_writing_and_reading_lose_nothing(inventory: Inventory) -> None:
    again = parse_inventory(dump_inventory(inventory), "x")
    assert json_hash(again.model_dump(mode="json")) == json_hash(inventory.model_dump(mode="json"))
    assert [list(record.shape or {}) for record in again.tools] == [list(record.shape or {}) for record in inventory.tools]
