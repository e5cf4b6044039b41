"""The preflight: which provider can run at which level, and what is missing for the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.errors import Exit, fold_exit
from harness.fake.kit import providers as stand_ins
from harness.live.endpoint import is_hosted, wants
from harness.live.options import LiveOptions
from harness.local.by_manifest import server_of
from harness.model.manifest import Manifest
from harness.model.scenario import LEVELS, Level
from harness.nightly.probe import Probe

Recorded = Callable[[str], str]
"""Provider → why nothing recorded can be replayed for it, or ""."""


@dataclass(frozen=True, slots=True)
class Checkup:
    """One provider. `lacks`: level → what is missing for it, "" where nothing is. `probe` when it was asked for."""

    provider: str
    lacks: Mapping[Level, str]
    probe: Probe | None = None
    rehearsed: bool = False
    hosted: bool = True
    """False: there is no level live for it at all, so nothing is missing."""

    @property
    def best(self) -> Level | None:
        """The strongest level that can be had."""
        return next((level for level in reversed(LEVELS) if not self.lacks[level] and not (level == "live" and self.down)), None)

    @property
    def down(self) -> str:
        """Why a look at the live endpoint showed that it cannot be used now, or ""."""
        return "" if self.probe is None or self.probe.state in ("answers", "not-tried") else f"{self.probe.state}: {self.probe.detail}"


def checkup(manifest: Manifest, options: LiveOptions, recorded: Recorded, probe: Probe | None = None) -> Checkup:
    name = manifest.id
    server = server_of(manifest)
    local = server.missing() if server is not None else "there is no server software of its vendor that runs here"
    return Checkup(
        provider=name,
        lacks={
            "fake": "" if name in stand_ins() else "there is no stand-in",
            "replayed": recorded(name),
            "local": local,
            "live": wants(manifest, options),
        },
        probe=probe,
        rehearsed=options.rehearsed,
        hosted=is_hosted(manifest),
    )


def exit_of(checkups: Sequence[Checkup], wanted: Sequence[str]) -> Exit:
    """3 when a wanted provider lacks credentials or refuses them, 4 when it does not answer, 5 when something else is in the way."""
    codes: set[Exit] = set()
    for found in checkups:
        if found.provider not in wanted if wanted else not found.hosted:
            continue
        state = found.probe.state if found.probe else ""
        if found.lacks["live"].startswith("credentials") or state == "refused":
            codes.add(Exit.CREDENTIALS)
        elif found.lacks["live"] or state == "incomplete":
            codes.add(Exit.INCOMPLETE)
        elif state in ("unreachable", "limited", "changed"):
            codes.add(Exit.UNREACHABLE)
    return fold_exit(codes)


def text(checkups: Sequence[Checkup]) -> str:
    """A table for people: one provider a block, worst said first."""
    lines = []
    for found in checkups:
        state = "none" if not found.hosted else "MISSING" if found.lacks["live"] else "DOWN" if found.down else "ready"
        state += " (rehearsed, so all is fake)" if found.rehearsed and state in ("DOWN", "ready") else ""
        lines.append(f"{found.provider:12} live: {state}   highest level here: {found.best or 'none'}")
        if found.lacks["live"]:
            lines.append(f"{'':14}{found.lacks['live']}")
        if found.probe is not None and found.probe.state != "not-tried":
            lines.append(f"{'':14}asked: {found.probe.state}, {found.probe.detail}")
        lines += [f"{'':14}{level}: {found.lacks[level]}" for level in ("local", "replayed") if found.lacks[level]]
    return "\n".join(lines)


def document(checkups: Sequence[Checkup]) -> dict[str, object]:
    return {
        "schema": "doctor/v1",
        "providers": [
            {
                "provider": c.provider,
                "best": c.best,
                "missing": {level: why for level, why in c.lacks.items() if why},
                "probe": None if c.probe is None else {"state": c.probe.state, "detail": c.probe.detail},
            }
            for c in checkups
        ],
    }
