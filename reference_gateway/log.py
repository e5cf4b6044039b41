"""Logs: one JSON object per line on standard error. No argument, result or secret is ever passed to a logger.

On the standard library alone: the structured-logging library that would do it brings a terminal renderer with it, 8 MB of a process that is
to stay below 90.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

_FIELDS = "gateway_fields"


def configure() -> None:
    """For the process entry only: our own events from `info`, everybody else's from `warning`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("gateway").setLevel(logging.INFO)


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "event": record.getMessage(),
            **getattr(record, _FIELDS, {}),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
        }
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said, default=repr)


class Logger:
    """One line per event: its name, and fields beside it."""

    def __init__(self, name: str) -> None:
        self._inner = logging.getLogger(name)

    def info(self, event: str, **fields: object) -> None:
        self._say(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._say(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._say(logging.ERROR, event, fields)

    def _say(self, level: int, event: str, fields: dict[str, object]) -> None:
        self._inner.log(level, "%s", event, extra={_FIELDS: fields})


def logger(name: str) -> Logger:
    """The logger `gateway.<name>`."""
    return Logger(f"gateway.{name}")
