"""Our SARIF against the official JSON Schema of SARIF 2.1.0, as a package of its makers ships it; nothing of it is copied here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from harness.cli.main import main

FOLDER = Path(__file__).resolve().parents[1] / ".real" / "npm" / "sarif" / "node_modules" / "@microsoft" / "jest-sarif" / "lib" / "schemas"
SCHEMA = FOLDER / "sarif-2.1.0-rtm.5.json"


def tools(limit: int, names: tuple[str, ...]) -> str:
    schema = {"type": "object", "properties": {"q": {"type": "string", "maxLength": limit}, "odd/name~": {"enum": ["\u202e", "ü", 1]}}}
    return json.dumps({"tools": [{"name": name, "description": f"Does {name} {limit}.", "inputSchema": schema} for name in names]})


@pytest.mark.parametrize("limit", [9, 3])
def test_a_report_is_sarif(limit: int, tmp_path: Path) -> None:
    schema: dict[str, Any] = json.loads(SCHEMA.read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema, format_checker=jsonschema.FormatChecker())
    (tmp_path / "old.json").write_text(tools(9, ("find", "keep")), encoding="utf-8")
    (tmp_path / "new.json").write_text(tools(limit, ("find", "come")), encoding="utf-8")
    out = tmp_path / "drift.sarif"
    main(["drift", str(tmp_path / "old.json"), str(tmp_path / "new.json"), "--format", "sarif", "-o", str(out)])
    report = json.loads(out.read_text(encoding="utf-8"))
    assert report["runs"][0]["results"]
    assert list(validator.iter_errors(report)) == []
    del report["runs"][0]["results"][0]["message"]
    assert list(validator.iter_errors(report))  # the schema does look
