"""100 planted secrets in 14 encodings, in every place of an exchange and of the evidence: none is in a cassette, the evidence or a report.

The control plants them the same way and switches redaction off: each encoding is found then.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from harness.cassette.format import Interaction
from harness.cassette.hunt import ENCODINGS, hunt, planted
from harness.cassette.redact import Redactor
from harness.cassette.seal import Draft, SecretLeft, seal
from harness.engine.evidence_log import EvidenceLog
from harness.model.evidence import EvidenceRecord, NoteRecord
from harness.model.finding import Finding
from harness.model.verdict import Results, Verdict
from harness.report.base import load_reports
from torture.figures import Figures, Scale

COUNT = {"short": 6, "full": 100}
SHAPES = ("sk-{}", "1/rt-{}~~?>Zq", "{}+/=", "p&{}<\"w'", "eyJ{}.eyJ{}.x-y_z", "user:{}@é測")
NOW = datetime(2026, 11, 30, tzinfo=UTC)


def secrets_of(count: int) -> list[str]:
    """Synthetic, all different, of the shapes that tokens have."""
    letters = [base64.b32encode(f"canary number {n:06d}".encode()).decode().rstrip("=") for n in range(count)]
    return [SHAPES[n % len(SHAPES)].replace("{}", letters[n]) for n in range(count)]


def interactions(secret: str) -> Iterator[tuple[str, Interaction]]:
    """(encoding, an exchange that shows the secret so, in its query, its headers, its body, an event and bytes that are no text)."""
    for encoding, raw in planted(secret).items():
        shown = raw.decode("latin-1") if encoding != "gzip" else base64.b64encode(raw).decode()
        text = json.dumps({"said": shown, "inner": json.dumps({"again": shown})}).encode()
        event = b"event: message\r\ndata: " + text + b"\r\n\r\n"
        raw_bytes = raw if encoding == "gzip" else b"\x00\xff" + raw
        header = shown if shown.isprintable() else "none"  # no header can hold a line end or a NUL
        for kind, body in (("application/json", text), ("text/event-stream", event), ("application/octet-stream", raw_bytes)):
            yield encoding, Interaction(
                method="POST",
                target="/mcp?note=" + shown.replace("\n", "%0A").replace("\r", "%0D").replace(" ", "%20").replace("#", "%23"),
                request_headers=(("content-type", "application/json"), ("x-note", header), ("last-event-id", header)),
                request_body=text,
                status=200,
                reason=header,
                response_headers=(("content-type", kind), ("www-authenticate", header), ("set-cookie", header)),
                response_body=body,
            )


def draft() -> Draft:
    return Draft(
        provider="canary", scenario="CANARY", connection="canary", recorder="torture", recorded_at="fake", now=NOW, endpoint="none", path="/mcp",
        agent_protocol="2025-11-25", pin="2025-11-25", schema_level="fake", memory_level="fake", inventory="", values={}, addresses=(),
        hash_prose=False,
    )  # fmt: skip


def redactor_of(secrets: Mapping[str, str]) -> Redactor:
    redactor = Redactor()
    redactor.know(secrets)
    return redactor


def evidence_and_reports(secret: str, redactor: Redactor, folder: Path) -> dict[str, bytes]:
    """A log with every spelling in it, and every report of a finding that quotes what the log holds."""
    path = folder / "evidence.jsonl"
    path.unlink(missing_ok=True)
    log = EvidenceLog(path, redactor)
    said: list[EvidenceRecord] = []
    for encoding, raw in planted(secret).items():
        shown = raw.decode("latin-1") if encoding != "gzip" else base64.b64encode(raw).decode()
        said.append(log.record(NoteRecord(text=f"{encoding}: {shown}", data={"body": shown, "raw": base64.b64encode(raw).decode()})))
    log.close()
    findings = tuple(Finding(id="result", message=note.text, where="x.yaml:1:1", actual=note.data) for note in said if isinstance(note, NoteRecord))
    results = Results(
        run="canary", started_at="", ended_at="", harness_version="", level_line="", exit_code=1, totals={},
        exit_reasons=tuple(f.message for f in findings),
        verdicts=(
            Verdict(
                item="CANARY[fake]", scenario="CANARY", title="canaries", area="x", level="fake", target="x", protocol="x", providers=(),
                outcome="fail", exit_code=1, findings=findings,
            ),
        ),
    )  # fmt: skip
    files = {name: content for report in load_reports().values() for name, content in report.files(results).items()}
    return {"evidence.jsonl": path.read_bytes(), **files}


def run(scale: Scale) -> list[Figures]:
    found, refused, tried, artifacts = 0, 0, 0, 0
    notes: list[str] = []
    for number, secret in enumerate(secrets_of(COUNT[scale])):
        known = {f"canary-{number}": secret}
        made = [one for _, one in interactions(secret)]
        tried += len(ENCODINGS)
        with tempfile.TemporaryDirectory() as place:
            streams = evidence_and_reports(secret, redactor_of(known), Path(place))
        try:
            streams["cassette.yaml"] = seal(draft(), tuple(made), redactor_of(known))
        except SecretLeft as left:
            refused += 1
            notes += [f"{secret!r}: {hit}" for hit in left.hits[:3]]
        artifacts += len(streams)
        hits = hunt(streams, known)
        found += len(hits)
        notes += [str(hit) for hit in hits[:3]]
    counted = f"{artifacts} artifacts: cassette, evidence and every report format; {refused} cassettes refused rather than written"
    return [Figures("no planted secret in any artifact", tried, found + refused, control(), (counted, *notes[:10]))]


def control() -> int:
    """In how many of the 14 encodings the same planting is found when nothing is redacted."""
    secret = secrets_of(1)[0]
    seen = set()
    for encoding, one in interactions(secret):
        body = one.response_body
        if hunt({"body": body}, {"canary": secret}):
            seen.add(encoding)
    assert len(seen) == len(ENCODINGS), f"blind for {sorted(set(ENCODINGS) - seen)}"
    return len(seen)
