"""Logs: one JSON object per line on standard error. No argument, result or secret is ever passed to a logger."""

from __future__ import annotations

import logging
import sys

import structlog


def configure() -> None:
    """For the process entry only: our own events from `info`, everybody else's from `warning`."""
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    shared: list[structlog.typing.Processor] = [structlog.stdlib.add_log_level, structlog.stdlib.add_logger_name, stamp]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("gateway").setLevel(logging.INFO)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """The logger `gateway.<name>`."""
    bound: structlog.stdlib.BoundLogger = structlog.get_logger(f"gateway.{name}")
    return bound
