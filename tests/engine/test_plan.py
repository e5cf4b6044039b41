"""From a selection to a plan: what is unknown, unavailable or empty is said before anything starts, and is never a pass."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.engine.documents import read_documents
from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.engine.run import documents_for, run_plan
from harness.errors import Exit, HarnessError, Incomplete, LoadError, LoadErrors, UsageError
from harness.model.evidence import PlanItemRecord
from harness.model.scenario import PROTOCOLS
from harness.scenario.files import data_root

NEWEST = PROTOCOLS[-1]


@pytest.mark.parametrize(
    ("options", "said", "fix"),
    [
        ({"level": "fak"}, "unknown level 'fak'", "did you mean 'fake'?"),
        ({"target": "refrence"}, "unknown target 'refrence'", "did you mean 'reference'?"),
        ({"protocol": "2025-06-19"}, "unknown protocol '2025-06-19'", "did you mean '2025-06-18'?"),
        ({"providers": ["mem1"]}, "unknown provider 'mem1'", "did you mean 'mem0'?"),
    ],
    ids=["level", "target", "protocol", "provider"],
)
def test_an_unknown_word_is_a_usage_error_with_a_suggestion(options: dict[str, Any], said: str, fix: str) -> None:
    with pytest.raises(UsageError) as raised:
        make_plan(["MEM-1"], **options)
    assert raised.value.exit_code == Exit.USAGE
    assert raised.value.what == said
    assert fix in raised.value.fix
    assert raised.value.where.startswith("--")


@pytest.mark.parametrize(
    ("select", "providers"), [(["MEM-1", "tag:nothing"], []), (["MEM-1"], ["zep"]), (["X-*"], [])], ids=["idle", "provider", "glob"]
)
def test_nothing_selected_is_incomplete_and_names_what_selected_nothing(select: list[str], providers: list[str]) -> None:
    with pytest.raises(Incomplete) as raised:
        make_plan(select, providers=providers)
    assert raised.value.exit_code == Exit.INCOMPLETE
    assert "nothing is selected" in raised.value.what
    assert any(word in raised.value.what for word in select)


def test_a_mistyped_id_is_a_usage_error_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match="no scenario has the id 'MEM-11'") as raised:
        make_plan(["MEM-11"])
    assert raised.value.exit_code == Exit.USAGE
    assert "MEM-1" in raised.value.fix


def test_an_item_is_named_by_scenario_level_target_and_protocol() -> None:
    assert [item.id for item in make_plan(["MEM-1"], protocol="all").items] == [f"MEM-1[fake,reference,{p}]" for p in PROTOCOLS]
    assert [item.id for item in make_plan(["MEM-3"]).items] == [f"MEM-3[fake,reference,{NEWEST}]"]


def test_a_level_that_cannot_be_had_is_red_and_says_why(tmp_path: Path) -> None:
    """Never another level instead; nothing is contacted."""
    evidence = tmp_path / "evidence.jsonl"
    plan = make_plan(["MEM-1"], level="live", protocol=NEWEST)
    assert plan.items[0].missing
    asyncio.run(run_plan(plan, jobs=1, evidence=evidence, run_id="live"))
    records = read_evidence(evidence)
    results = judge(records)
    (verdict,) = results.verdicts
    assert (verdict.outcome, verdict.exit_code, results.exit_code) == ("error", 3, 3)
    assert [finding.id for finding in verdict.findings] == ["credentials-missing", "consent-missing", "consent-missing"]
    assert "mem0" in verdict.findings[0].message
    assert all(finding.fix for finding in verdict.findings)
    assert not any(claim.proven for claim in verdict.claims)
    assert all(claim.level == "live" for claim in verdict.claims)
    assert {r.kind for r in records} <= {"run", "plan_item", "process", "audit_log"}


def test_only_what_does_not_apply_is_incomplete_too(tmp_path: Path) -> None:
    evidence = tmp_path / "evidence.jsonl"
    plan = make_plan(["COGNEE-SLOW"], level="live")
    asyncio.run(run_plan(plan, jobs=1, evidence=evidence, run_id="none"))
    results = judge(read_evidence(evidence))
    assert [v.outcome for v in results.verdicts] == ["not_applicable"]
    assert results.exit_code == 5
    assert "nothing that was selected applies here" in results.exit_reasons


# ---- documents


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("providers", "inventories"):
        shutil.copytree(data_root() / folder, tmp_path / folder)
    return tmp_path


def test_sound_documents_are_read(root: Path) -> None:
    documents = read_documents(root, ["mem0", "zep"], {"mem0": "x"})
    assert set(documents.parsed_inventories) == {"mem0", "zep"}


def test_an_inventory_with_a_broken_hash_is_refused_with_its_position(root: Path) -> None:
    path = root / "inventories" / "mem0.yaml"
    lines = path.read_text(encoding="utf-8").split("\n")
    number, line = next((n, text) for n, text in enumerate(lines, 1) if "shape_hash:" in text)
    lines[number - 1] = line.replace(line.split('"')[1], "0" * 64)
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises((LoadError, LoadErrors)) as raised:
        read_documents(root, ["mem0"])
    assert raised.value.exit_code == Exit.USAGE
    assert f"mem0.yaml:{number}:" in str(raised.value)
    assert "shape_hash does not fit the shape" in str(raised.value)
    assert "fix:" in str(raised.value)


@pytest.mark.parametrize("what", ["providers", "inventories"])
def test_a_missing_document_is_refused(root: Path, what: str) -> None:
    (root / what / "mem0.yaml").unlink()
    with pytest.raises(LoadError) as raised:
        read_documents(root, ["mem0"], {"mem0": "scenarios/catalog/discover-mem0.yaml:9:3"})
    assert raised.value.exit_code == Exit.USAGE
    assert raised.value.where.endswith(f"{what}/mem0.yaml")
    assert raised.value.fix


def test_a_missing_inventory_names_who_compares_with_it(root: Path) -> None:
    (root / "inventories" / "mem0.yaml").unlink()
    with pytest.raises(LoadError, match=r"discover-mem0\.yaml:9:3"):
        read_documents(root, ["mem0"], {"mem0": "scenarios/catalog/discover-mem0.yaml:9:3"})
    assert read_documents(root, ["mem0"]).inventories == {}, "who compares nothing needs none"


@pytest.mark.parametrize("what", ["providers", "inventories"])
@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"", b"inventory: mem0\ntools: [", b"- 1\n", b"a: &b 1\n"], ids=["bytes", "empty", "open", "list", "anchor"]
)
def test_a_document_that_is_none_is_refused_and_never_a_crash(root: Path, what: str, content: bytes) -> None:
    (root / what / "mem0.yaml").write_bytes(content)
    with pytest.raises(HarnessError) as raised:
        read_documents(root, ["mem0"])
    assert raised.value.exit_code == Exit.USAGE
    assert "mem0.yaml" in str(raised.value)


def test_which_inventories_a_plan_needs_is_read_off_its_expectations() -> None:
    """The shipped scenarios and inventories fit together."""
    plan = make_plan([])
    documents = documents_for(plan.items)
    assert set(documents.inventories) == {"cognee", "honcho", "mem0", "papr", "supermemory", "zep"}


def test_documents_are_embedded_once_and_named_by_content(tmp_path: Path) -> None:
    evidence = tmp_path / "evidence.jsonl"
    asyncio.run(run_plan(make_plan(["MEM-1"], level="live", protocol="all"), jobs=1, evidence=evidence, run_id="once"))
    starts = [r for r in read_evidence(evidence) if isinstance(r, PlanItemRecord) and r.phase == "start"]
    assert [len(start.embedded) for start in starts] == [3, 0, 0]
    assert len({start.documents for start in starts}) == 1
