"""`drift/v1`: everything, for machines."""

from __future__ import annotations

from harness.model.drift_result import DriftResult
from harness.report.drift.document import document
from harness.report.drift.reading import json_bytes


class Json:
    id = "json"
    summary = "everything, for machines: drift/v1, see docs/drift.schema.json"

    def render(self, result: DriftResult) -> bytes:
        return json_bytes(document(result))


FORMAT = Json()
