"""The published 82 tools: in, out, and as committed."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import LoadError, LoadErrors
from harness.inventory.canonical import schema_hash
from harness.inventory.published import export_published, import_published, is_published, load_published, published_text
from harness.inventory.store import load_inventories
from harness.inventory.walk import ANNOTATIONS, schemas
from harness.model.inventory import Inventory, Taken
from harness.model.tool import ordered_parameters

DATA = Path(__file__).parent / "data"
PUBLISHED = DATA / "published-2026-09-24.json"
COMMITTED = Path(__file__).parents[2] / "inventories"
COUNTS = {"mem0": 11, "supermemory": 16, "cognee": 3, "zep": 12, "honcho": 40}


def test_import_and_export_give_the_same_bytes() -> None:
    assert published_text(load_published(PUBLISHED).values()) == PUBLISHED.read_text("utf-8")


def test_the_committed_inventories_are_that_import() -> None:
    imported = load_published(PUBLISHED)
    committed = load_inventories(COMMITTED)
    assert {name: len(inventory.tools) for name, inventory in imported.items()} == COUNTS
    assert {name: committed[name] for name in imported} == imported
    assert published_text(committed[name] for name in imported) == PUBLISHED.read_text("utf-8")


def test_64_shapes_are_verified_and_18_unknown() -> None:
    records = [record for name in COUNTS for record in load_inventories(COMMITTED)[name].tools]
    basis = [record.shape_basis for record in records]
    assert (basis.count("verified"), basis.count("none"), len(records)) == (64, 18, 82)
    assert len({record.schema_hash for record in records}) == 75
    assert all(record.parameters == ordered_parameters(record.parameters) for record in records)


def test_committed_inventories_hold_no_prose() -> None:
    for name in COUNTS:
        for record in load_inventories(COMMITTED)[name].tools:
            assert not [word for _, node in schemas(record.shape) for word in node if word in ANNOTATIONS], record.name


def test_where_nothing_was_removed_the_shape_gives_the_published_hash() -> None:
    """The whole preimages among the vectors that carry no annotation are their own shape."""
    vectors = json.loads((DATA / "hash_vectors.json").read_text("utf-8"))["schemas"]
    plain = [v for v in vectors if not ANNOTATIONS & set(v["input_schema"])]
    inventories = load_inventories(COMMITTED)
    for vector in plain:
        record = inventories[vector["provider"]].get(vector["tool"])
        assert record is not None
        assert record.shape_hash == record.schema_hash == schema_hash(record.shape)
    assert len(plain) == 4


def _document() -> Any:
    return json.loads(PUBLISHED.read_text("utf-8"))


def _set(path: tuple[str | int, ...], value: Any) -> Any:
    document = _document()
    node = document
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    return document


TOOL = ("providers", "mem0", "tools", 0)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (_set((*TOOL, "schema_hash"), "ABC"), "/providers/mem0/tools/0/schema_hash"),
        (_set((*TOOL, "risk"), "low"), "/providers/mem0/tools/0/risk"),
        (_set((*TOOL, "surprise"), 1), "/providers/mem0/tools/0/surprise"),
        (_set((*TOOL, "name"), "delete_entities"), "listed twice"),
        (_set((*TOOL, "shape"), {"properties": {"memory_id": {"title": "x"}}}), "/properties/memory_id/title"),
        (_set(("hash_recipe",), "md5"), "recipe"),
        (_set(("observed_on",), "24.9.2026"), "/observed_on"),
        (_set(("providers",), {}), "/providers"),
        ([], "/"),
    ],
)
def test_a_broken_document_names_the_place(document: Any, says: str) -> None:
    with pytest.raises(LoadErrors) as caught:
        import_published(document, where="doc.json")
    assert says in str(caught.value)
    assert all(error.fix and error.where == "doc.json" for error in caught.value.errors)


def test_a_missing_document_is_a_load_error(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="cannot be read"):
        load_published(tmp_path / "none.json")


def test_one_date_per_document() -> None:
    one = Inventory(provider="a", taken=Taken(date="2026-01-01"), tools=())
    two = Inventory(provider="b", taken=Taken(date="2026-01-02"), tools=())
    with pytest.raises(LoadError, match="2 days"):
        export_published([one, two])
    with pytest.raises(LoadError, match="twice"):
        export_published([one, one])
    assert is_published(export_published([one]))
    assert not is_published({"tools": []})


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_subset_of_the_published_tools_round_trips(data: st.DataObject) -> None:
    document = _document()
    names = data.draw(st.lists(st.sampled_from(sorted(COUNTS)), min_size=1, max_size=3, unique=True))
    kept = {name: {"tools": data.draw(st.permutations(document["providers"][name]["tools"]))[: data.draw(st.integers(0, 5))]} for name in names}
    document["providers"] = kept
    before = copy.deepcopy(document)
    assert json.dumps(export_published(import_published(document).values())) == json.dumps(before)
