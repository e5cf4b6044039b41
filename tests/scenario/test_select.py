"""SELECT: ids, globs, paths and tags; nothing selected is its own result."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import Exit, UsageError
from harness.model.scenario import Scenario, Vocabulary
from harness.scenario.load import load_scenarios
from harness.scenario.select import select, sources


@pytest.fixture
def library(tmp_path: Path) -> Path:
    for area, name, tags in [("mem", "MEM-1", "[release]"), ("mem", "MEM-2", "[nightly, release]"), ("disc", "DISC-MEM0", "[]")]:
        folder = tmp_path / "scenarios" / area
        folder.mkdir(parents=True, exist_ok=True)
        text = f"scenario: {name}\ntitle: t\ntags: {tags}\nconnections: [mem0]\nexpect: [{{no_secret: true}}]\n"
        (folder / f"{name.lower()}.yaml").write_text(text)
    return tmp_path / "scenarios"


@pytest.fixture
def scenarios(library: Path, vocabulary: Vocabulary) -> tuple[Scenario, ...]:
    return load_scenarios([library], vocabulary)


@pytest.mark.parametrize(
    ("selectors", "ids"),
    [
        ([], ["DISC-MEM0", "MEM-1", "MEM-2"]),
        (["MEM-1"], ["MEM-1"]),
        (["MEM-*"], ["MEM-1", "MEM-2"]),
        (["MEM-[2-9]"], ["MEM-2"]),
        (["tag:nightly"], ["MEM-2"]),
        (["MEM-1", "tag:nightly", "MEM-*"], ["MEM-1", "MEM-2"]),
        (["DISC-MEM0", "MEM-2"], ["DISC-MEM0", "MEM-2"]),
    ],
)
def test_union_in_the_order_of_loading(selectors: list[str], ids: list[str], scenarios: tuple[Scenario, ...]) -> None:
    assert [s.id for s in select(scenarios, selectors).scenarios] == ids


def test_paths(library: Path, scenarios: tuple[Scenario, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(library.parent)
    assert [s.id for s in select(scenarios, ["scenarios/disc"]).scenarios] == ["DISC-MEM0"]
    assert [s.id for s in select(scenarios, [str(library / "mem" / "mem-1.yaml")]).scenarios] == ["MEM-1"]


@pytest.mark.parametrize("selector", ["MEM-9*", "tag:weekly"])
def test_nothing_selected_is_neither_all_nor_an_error(selector: str, scenarios: tuple[Scenario, ...]) -> None:
    selection = select(scenarios, [selector])
    assert selection.nothing
    assert selection.idle == (selector,)
    assert not select(scenarios, [selector, "MEM-1"]).nothing


@pytest.mark.parametrize(
    ("selector", "fix"),
    [("MEM-11", "did you mean 'MEM-1'?"), ("mem-2", "did you mean 'MEM-2'?"), ("x", "use one of: DISC-MEM0, MEM-1, MEM-2")],
)
def test_an_unknown_id_is_refused_with_a_suggestion(selector: str, fix: str, scenarios: tuple[Scenario, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        select(scenarios, [selector])
    assert (caught.value.where, caught.value.what, caught.value.fix) == (selector, f"no scenario has the id {selector!r}", fix)
    assert caught.value.exit_code is Exit.USAGE


def test_of_many_ids_none_is_listed(scenarios: tuple[Scenario, ...]) -> None:
    many = tuple(scenarios[0].model_copy(update={"id": f"MEM-{number}00"}) for number in range(1, 40))
    with pytest.raises(UsageError) as caught:
        select(many, ["x"])
    assert caught.value.fix == "use one of the 39 that `harness list` shows"
    with pytest.raises(UsageError) as close:
        select(many, ["MEM-30000"])
    assert close.value.fix.startswith("did you mean 'MEM-")


@pytest.mark.parametrize("selector", ["scenarios/none.yaml", "a/" * 3000, "a/\0"])
def test_a_path_that_is_not_there_is_refused(selector: str, scenarios: tuple[Scenario, ...], library: Path) -> None:
    with pytest.raises(UsageError, match="no such file or folder"):
        select(scenarios, [selector])
    with pytest.raises(UsageError, match="no such file or folder"):
        sources([selector], library)


def test_what_is_loaded_for_a_selection(library: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("x")
    inside = library / "mem" / "mem-1.yaml"
    assert sources([], library) == (library,)
    assert sources(["MEM-1", "tag:x"], library) == (library,)
    assert sources([str(own)], library) == (own,)
    assert sources([str(own), "MEM-1", str(inside)], library) == (library, own)
