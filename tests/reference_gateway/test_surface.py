"""The agents' door: three protocol versions, tokens, names, and results that come through as they were."""

from __future__ import annotations

import json

import anyio
import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from .conftest import SECRET, SUCCESS, TLS, VERSIONS, Bench, raw_call


@pytest.mark.parametrize("version", VERSIONS)
def test_a_call_at_every_version_is_one_request_and_three_records(bench: Bench, version: str) -> None:
    run, token = bench.run()
    result = bench.call(token, "notes__get_echo", {"n": 2**70 + 1, "f": 1.25, "u": "é"}, version=version)
    assert result["structuredContent"] == {"got": {"n": 2**70 + 1, "f": 1.25, "u": "é"}}
    assert result["_meta"]["gateway/outcome"] == "success"
    assert result["_meta"]["gateway/origin"] == "provider"
    assert "gateway/reason" not in result["_meta"]
    assert len(bench.provider.calls) == 1
    assert bench.trail(run, result["_meta"]["gateway/invocation"]) == SUCCESS
