"""A run as traces: three witnesses under one trace id, in the form that OpenTelemetry's own schema reads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from harness.cli.main import main
from harness.engine.plan import make_plan
from harness.engine.run import run_plan


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    plan = make_plan(("MEM-1", "MEM-3"), protocol="2026-07-28")
    asyncio.run(run_plan(plan, jobs=1, evidence=folder / "evidence.jsonl", run_id="traced"))
    return folder


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    taken: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200 if self.path == "/v1/traces" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", taken
    server.shutdown()
    thread.join()
    server.server_close()


def test_three_witnesses_share_the_trace_of_each_call(run: Path, tmp_path: Path) -> None:
    written = tmp_path / "spans.json"
    assert main(["spans", str(run), "-o", str(written)]) == 0
    request = Parse(written.read_bytes(), ExportTraceServiceRequest())  # refuses unknown fields and wrong types
    services = {}
    for resource in request.resource_spans:
        name = next(a.value.string_value for a in resource.resource.attributes if a.key == "service.name")
        services[name] = [span for scope in resource.scope_spans for span in scope.spans]
    assert set(services) == {"harness", "gateway", "provider"}
    roots = {span.trace_id: span for span in services["harness"]}
    assert len(roots) == len(services["harness"]) >= 5
    assert {span.trace_id for span in services["gateway"]} == set(roots)
    for span in [*services["gateway"], *services["provider"]]:
        assert span.parent_span_id == roots[span.trace_id].span_id
        assert span.end_time_unix_nano >= span.start_time_unix_nano
    ids = [span.span_id for spans in services.values() for span in spans]
    assert len(set(ids)) == len(ids)
    failed = [span for span in services["harness"] if span.status.code == 2]
    assert failed, "MEM-3 holds a refusal"


def test_the_same_evidence_gives_the_same_spans_and_no_argument(run: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        main(["spans", str(run), "-o", str(tmp_path / name)])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    evidence = [json.loads(line) for line in (run / "evidence.jsonl").read_text().splitlines()]
    texts = {value for record in evidence for value in (record.get("arguments") or {}).values() if isinstance(value, str) and len(value) > 12}
    assert texts
    assert not any(json.dumps(text)[1:-1] in (tmp_path / "a").read_text() for text in texts)


def test_a_collector_takes_them(run: Path, collector: tuple[str, list[bytes]], tmp_path: Path) -> None:
    address, taken = collector
    assert main(["spans", str(run), "--endpoint", address]) == 0
    main(["spans", str(run), "-o", str(tmp_path / "same")])
    assert taken == [(tmp_path / "same").read_bytes()]


@pytest.mark.parametrize(("endpoint", "code"), [("not-an-address", 2), ("http://127.0.0.1:1", 4)])
def test_a_collector_that_is_none_is_told(run: Path, endpoint: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spans", str(run), "--endpoint", endpoint]) == code
    assert "collector" in capsys.readouterr().err


def test_a_collector_that_refuses_is_told(run: Path, collector: tuple[str, list[bytes]], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spans", str(run), "--endpoint", f"{collector[0]}/elsewhere"]) == 4
    assert "404" in capsys.readouterr().err
