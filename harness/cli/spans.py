"""`harness spans`: a run as OpenTelemetry traces."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HELP = """Write the calls of a run as OpenTelemetry spans (OTLP/JSON), or send them to a collector.

One trace per call: what the agent's side saw, what the gateway's audit says, what reached the provider. No arguments, no results.

\b
Examples:
  harness spans reports/latest -o spans.json
  harness spans reports/latest --endpoint http://127.0.0.1:4318
"""

EPILOG = "Exit codes: 0 written or taken, 2 no such run, 4 the collector cannot be reached or refused."
TIMEOUT_S = 30.0


def spans(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or its evidence.jsonl.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where they go; default: standard output.")] = None,
    endpoint: Annotated[str | None, typer.Option(metavar="URL", help="Base address of an OTLP/HTTP collector.")] = None,
) -> int:
    import harness
    from harness.cli.console import say_json, warn
    from harness.cli.place import EVIDENCE
    from harness.engine.evidence_log import read_evidence
    from harness.model.evidence import RunRecord
    from harness.otel import otlp
    from harness.otel.spans import spans as spans_of
    from harness.report.write import write_bytes

    records = read_evidence(run / EVIDENCE if run.is_dir() else run)
    name = next((record.run for record in records if isinstance(record, RunRecord)), "")
    found = spans_of(records)
    content = otlp.document(found, name, harness.__version__)
    if endpoint is not None:
        _send(endpoint, content)
        warn(f"{len(found)} spans taken by {endpoint}")
    if output is not None:
        write_bytes(output, content)
        warn(f"{len(found)} spans: {output}")
    if endpoint is None and output is None:
        say_json(content.decode())
    return 0


def _send(endpoint: str, content: bytes) -> None:
    import httpx2

    from harness.errors import Unreachable, UsageError

    fix = "name the base address of an OTLP/HTTP collector, such as http://127.0.0.1:4318"
    if not endpoint.startswith(("http://", "https://")):
        raise UsageError("not an http address", where="--endpoint", fix=fix)
    try:
        with httpx2.Client(trust_env=False, timeout=TIMEOUT_S) as client:
            answer = client.post(f"{endpoint.rstrip('/')}/v1/traces", content=content, headers={"content-type": "application/json"})
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise Unreachable(f"the collector cannot be reached: {type(error).__name__}", where=endpoint, fix=fix) from error
    if not answer.is_success:
        raise Unreachable(f"the collector answered {answer.status_code}", where=endpoint, fix=fix)


def register(app: typer.Typer) -> None:
    app.command("spans", help=HELP, epilog=EPILOG)(spans)
