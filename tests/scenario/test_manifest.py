"""Provider manifests: loaded by id, refused with positions."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import LoadError, LoadErrors
from harness.scenario.files import data_root
from harness.scenario.manifest import load_manifest, load_manifests, need_manifest

TEXT = """\
id: mem0
title: Mem0
docs: https://docs.example.test
transport: mcp_http
endpoint: https://mcp.example.test/mcp
path: /mcp
mount: reverse
auth: {scheme: bearer, paths: [credentials.authorization], env: [MEM0_API_KEY]}
selectors: [user_id]
recall:
  search_memories: {items: /results, text: /memory, id: /id, scope: {user_id: /user_id}}
"""


def refusals(text: str, file: str = "mem0.yaml") -> list[tuple[str, str, str]]:
    with pytest.raises(LoadErrors) as caught:
        load_manifest(text, file)
    return [(e.where, e.what, e.fix) for e in caught.value.errors]


def test_a_manifest_is_read_whole() -> None:
    manifest = load_manifest(TEXT, "providers/mem0.yaml")
    assert manifest.auth.paths == ("credentials.authorization",)
    assert manifest.recall["search_memories"].scope == {"user_id": "/user_id"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "mount:",
            "muont:",
            [
                ("1:1", "a provider manifest needs 'mount'", "add mount: …"),
                ("7:1", "unknown key 'muont' in a provider manifest", "did you mean 'mount'?"),
            ],
        ),
        ("mcp_http", "mcp_htp", [("4:12", "transport of a provider manifest may not be 'mcp_htp'", "did you mean 'mcp_http'?")]),
        (
            "scheme: bearer",
            "shceme: bearer",
            [
                ("8:7", "auth of a provider manifest needs 'scheme'", "add scheme: …"),
                ("8:8", "unknown key 'shceme' in a provider manifest", "did you mean 'scheme'?"),
            ],
        ),
        ("items: /results, ", "", [("11:20", "recall.search_memories of a provider manifest needs 'items'", "add items: …")]),
        (
            "title: Mem0",
            "title: 12",
            [
                (
                    "2:8",
                    "title of a provider manifest may not be 12: it should be a valid string",
                    "write text, in quotes if it looks like a number, a date or true/false",
                )
            ],
        ),
        ("id: mem0", "id: memo", [("1:5", "the id is 'memo', and the file is named 'mem0'", "give both the same name")]),
    ],
)
def test_a_wrong_manifest_is_refused_where_it_is_wrong(old: str, new: str, expected: list[tuple[str, str, str]]) -> None:
    assert refusals(TEXT.replace(old, new, 1)) == [(f"mem0.yaml:{where}", what, fix) for where, what, fix in expected]


def test_a_list_is_no_manifest() -> None:
    assert refusals("- a") == [("mem0.yaml:1:1", "a provider manifest must be a mapping, not a list", "write `name: value` entries")]


def test_a_folder_gives_all_or_every_error(tmp_path: Path) -> None:
    (tmp_path / "mem0.yaml").write_text(TEXT)
    (tmp_path / "zep.yaml").write_text(TEXT.replace("id: mem0", "id: zep"))
    assert list(load_manifests(tmp_path)) == ["mem0", "zep"]
    (tmp_path / "zep.yaml").write_text("id: [")
    (tmp_path / "mem0.yaml").write_text(TEXT.replace("id: mem0", "id: mem1"))
    with pytest.raises(LoadErrors) as caught:
        load_manifests(tmp_path)
    assert [Path(e.where.rsplit(":", 2)[0]).name for e in caught.value.errors] == ["mem0.yaml", "zep.yaml"]
    with pytest.raises(LoadErrors, match="no such folder"):
        load_manifests(tmp_path / "none")


def test_an_unknown_provider_gets_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "mem0.yaml").write_text(TEXT)
    manifests = load_manifests(tmp_path)
    assert need_manifest(manifests, "mem0").id == "mem0"
    with pytest.raises(LoadError) as caught:
        need_manifest(manifests, "mem", where="f.yaml:3:4")
    assert (caught.value.where, caught.value.fix) == ("f.yaml:3:4", "did you mean 'mem0'?")


def test_data_stands_beside_the_package_in_a_checkout_and_inside_it_when_installed(tmp_path: Path) -> None:
    package = tmp_path / "harness"
    package.mkdir()
    assert data_root(package) == tmp_path
    (package / "_data").mkdir()
    (tmp_path / "scenarios").mkdir()  # of somebody else: it does not win over what the package came with
    assert data_root(package) == package / "_data"


def test_papr_has_exactly_one_of_three_credentials_and_a_probe_that_is_no_tool() -> None:
    papr = need_manifest(load_manifests(data_root() / "providers"), "papr")
    assert (papr.auth.one_of, len(papr.auth.paths), papr.auth.scheme) == (True, 3, "papr")
    assert [operation.path for operation in papr.operations if operation.tool is None] == ["/v1/memory/00000000-0000-0000-0000-000000000000"]
    assert len({operation.tool for operation in papr.operations} - {None}) == 7
