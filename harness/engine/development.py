"""What a gateway loosened for development while it was judged: said in the first line of every report, because it belongs to what was proven."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.model.verdict import Verdict


def phrases(health: Mapping[str, Any]) -> tuple[str, ...]:
    """From a gateway's health, as docs/operator-api.md has it; nothing where it says nothing. One phrase for each thing that was loosened."""
    settings = health.get("development")
    if not isinstance(settings, Mapping):
        return ()
    hosts, ports = settings.get("mapped_hosts") or [], settings.get("ports") or []
    found = [
        "loopback addresses allowed" if settings.get("allow_loopback") else "",
        *(f"{host} mapped" for host in hosts),
        *(f"port {port} allowed" for port in ports),
        "names scripted" if settings.get("lab") else "",
        "test clock" if health.get("clock") == "test" else "",
    ]
    return tuple(phrase for phrase in found if phrase)


def sentence(verdicts: Sequence[Verdict]) -> str:
    """To be added to the first line of a report; empty when nothing was loosened."""
    told = dict.fromkeys(phrase for verdict in verdicts for phrase in verdict.development)
    return f"; development settings of the gateway: {', '.join(told)}" if told else ""
