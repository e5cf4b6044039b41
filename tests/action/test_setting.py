"""Setting up in a scenario: what cannot be told is untestable, what was not asked is never a pass, and no credential is written down."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.engine.run import run_plan
from harness.errors import ContractBroken, LoadErrors
from harness.model.verdict import Results
from harness.target.forms import Form, read_form
from harness.target.setting import OPERATIONS

SCENARIO = """\
scenario: {id}
title: Setting up at its limits
connections: {{mem0: {{setup: {setup}}}}}
let: {{user: "harness-${{nonce}}"}}
steps:
{steps}
  - {{id: look, call: mem0.get_memories, with: {{filters: {{user_id: "${{user}}"}}}}}}
proves: [{{claim: it went as expected, by: [wanted]}}]
"""

ENTER = "operate: enter_credentials, connection: mem0"
ACTIVE = "answered: {at: /status, equals: active}"
STEPS = {
    "WELL": ("draft", f"  - {{id: act, {ENTER}, key: good, expect: [{{id: wanted, {ACTIVE}}}]}}"),
    "REFUSED": ("draft", f"  - {{id: act, {ENTER}, key: wrong, expect: [{{id: wanted, {ACTIVE}}}]}}"),
    "NOT-REFUSED": ("made", "  - {id: act, operate: read, connection: mem0, expect: [{id: wanted, answered: {refused: memory_connectors_off}}]}"),
    "NOBODY-KEEPS": ("made", "  - {id: act, operate: gallery, kept: true, expect: [{id: wanted, answered: {at: /connectors, count: 6}}]}"),
    "NO-CREDENTIALS": ("made", "  - {id: act, operate: rotate, key: new, expect: [{id: wanted, answered: {at: /status, equals: active}}]}"),
    "NO-PROCESS": ("made", "  - {id: act, crash: mem0, expect: [{id: wanted, answered: {at: /state, equals: backoff}}]}"),
    "NOTHING-CALLED": ("made", "  - {id: act, operate: read, connection: mem0, expect: [{id: wanted, received: {argument: user_id, equals: x}}]}"),
}  # fmt: skip


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, str]:
    folder = tmp_path_factory.mktemp("setting")
    for name, (setup, steps) in STEPS.items():
        (folder / f"{name.lower()}.yaml").write_text(SCENARIO.format(id=name, setup=setup, steps=steps), encoding="utf-8")
    evidence = folder / "run" / "evidence.jsonl"
    asyncio.run(run_plan(make_plan([], paths=[folder]), jobs=4, evidence=evidence, run_id="setting"))
    return judge(read_evidence(evidence)), evidence.read_text(encoding="utf-8")


OUTCOMES = {
    "WELL": "pass",
    "REFUSED": "error",  # it failed, and besides the tap never saw a discovery, without which nothing is proven
    "NOT-REFUSED": "fail",
    "NOBODY-KEEPS": "error",
    "NO-CREDENTIALS": "error",
    "NO-PROCESS": "error",
    "NOTHING-CALLED": "fail",
}


@pytest.mark.parametrize("scenario", list(STEPS))
def test_how_each_ends(ran: tuple[Results, str], scenario: str) -> None:
    verdict = next(v for v in ran[0].verdicts if v.scenario == scenario)
    assert verdict.outcome == OUTCOMES[scenario], verdict.findings
    assert all(f.message and f.where for f in verdict.findings)


def test_no_credential_is_written_down_not_even_a_wrong_one(ran: tuple[Results, str]) -> None:
    assert "synthetic-mem0-" not in ran[1]


def written(tmp_path: Path, step: str) -> Path:
    file = tmp_path / "one.yaml"
    file.write_text(SCENARIO.format(id="ONE", setup="made", steps=step), encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("  - {id: act, operate: enter_credential, expect: [{id: wanted, answered: {refused: x}}]}", "enter_credentials"),
        ("  - {id: act, operate: read, key: best, expect: [{id: wanted, answered: {refused: x}}]}", "key"),
        ("  - {id: act, operate: read, expect: [{id: wanted, answered: yes}]}", "answer"),
        ("  - {id: act, operate: read, expect: [{id: wanted, answered: {at: /x}}]}", "equals"),
        ("  - {id: act, operate: read, expect: [{id: wanted, answered: {equals: x}}]}", "at:"),
        ("  - {id: act, operate: read, expect: [{id: wanted, received: {exchanges: 0, argument: x}}]}", "either"),
        ("  - {id: act, deliver: cursor, expect: [{id: wanted, answered: {refused: x}}]}", "codex"),
        ("  - {id: act, crash: mem1, expect: [{id: wanted, answered: {refused: x}}]}", "mem1"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_read(tmp_path: Path, step: str, said: str) -> None:
    with pytest.raises(LoadErrors) as refused:
        make_plan([], paths=[written(tmp_path, step)])
    assert said in str(refused.value)


GOOD: dict[Form, str] = {
    "codex": '[mcp_servers.gateway]\nurl = "http://127.0.0.1:1/mcp"\nhttp_headers = { Authorization = "Bearer t" }\n',
    "claude_code": '{"mcpServers": {"g": {"type": "http", "url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer t"}}}}',
    "gemini_cli": '{"mcpServers": {"g": {"httpUrl": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer t"}}}}',
    "generic": '{"mcpServers": {"g": {"type": "streamable-http", "url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer t"}}}}',
}


@pytest.mark.parametrize("form", list(GOOD))
def test_a_form_is_read_as_its_program_reads_it(form: Form) -> None:
    assert read_form(form, GOOD[form]) == ("http://127.0.0.1:1/mcp", {"Authorization": "Bearer t"})
    for other in GOOD:
        if other != form:  # what another program reads is not a configuration of this one
            with pytest.raises(ContractBroken):
                read_form(form, GOOD[other])
    for broken in ("", "{", "[]", "null", '{"mcpServers": {}}', '{"mcpServers": {"g": 7}}', '{"mcpServers": {"a": {}, "b": {}}}', "[mcp_servers]\n"):
        with pytest.raises(ContractBroken):
            read_form(form, broken)


def test_headers_under_a_name_that_the_program_does_not_know_are_no_headers() -> None:
    assert read_form("codex", GOOD["codex"].replace("http_headers", "headers")) == ("http://127.0.0.1:1/mcp", {})


def test_every_operation_is_one_of_the_operator_api() -> None:
    contract = (Path(__file__).parents[2] / "docs" / "operator-api.md").read_text(encoding="utf-8")
    for word, (method, path) in OPERATIONS.items():
        route = path.replace("/connections/{name}", "/connections/{c}").replace("/setups/{name}", "/setups/{c}")
        route = route.replace("/runs/{name}", "/runs/{r}").replace("/gallery/{name}", "/gallery/{connector}")
        for ours, written in (("/operators/{name}", "/operators/{o}"), ("/approvals/{name}", "/approvals/{id}"), ("?run={name}", "?run=&state=")):
            route = route.replace(ours, written)
        route = "/audit?run=&after=SEQ&limit=" if route == "/audit" else route
        assert f"`{method} /tenants/{{t}}{route}`" in contract, word
