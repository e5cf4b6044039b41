"""What is written down of a gateway, without what differs from run to run: for comparing a new measurement with the last reviewed one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from harness.errors import LoadError
from harness.transparency.facts import Report


def stable(report: Report) -> dict[str, Any]:
    """Which facts differ and what they count as, catalog, audit and cases; no figures, dates, random names or ids."""
    return {
        "gateway": report.gateway,
        "protocol": report.protocol,
        "news": list(report.news),
        "incomplete": report.incomplete,
        "differences": {one.fact.key: one.counts for one in report.judged if one.fact.differs},
        "catalog": [{key: value for key, value in each.model_dump().items() if key != "asked"} for each in report.catalog],
        "audit": [each.model_dump() for each in report.audit],
        "cases": [each.model_dump(exclude={"what"}) for each in report.cases],
    }


def read_report(path: Path) -> Report:
    """A `transparency/v1` file. Raises LoadError."""
    try:
        return Report.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise LoadError(f"cannot be read: {error.strerror}", where=str(path), fix="measure it with `harness transparency`") from None
    except (ValueError, ValidationError) as error:
        raise LoadError(f"this is no transparency report: {str(error).splitlines()[0]}", where=str(path), fix="measure it again") from None
