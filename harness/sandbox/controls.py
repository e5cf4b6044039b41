"""Planted controls: things of the host that must be found out here and must not be found in there, by the same probe."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import Untestable
from harness.sandbox.fresh import mark

VARIABLE = "PLANTED_CONTROL"
RUN_PROBE = """
import json, sys; sys.path.insert(0, sys.argv[1])
from harness.sandbox.probe import probe
print(json.dumps(probe(json.loads(sys.argv[2]))))
"""


@dataclass(frozen=True, slots=True)
class Controls:
    """`look` is what the probe is told, inside and out; `environment` is what stands in the environment of whoever starts the place."""

    value: str
    folder: Path
    look: Mapping[str, Any]

    @property
    def environment(self) -> dict[str, str]:
        return {VARIABLE: self.value}

    def inside(self) -> dict[str, Any]:
        """Inside, everything there is gets scanned."""
        return {**self.look, "roots": ["/"]}


@asynccontextmanager
async def planted(gateway: tuple[str, int]) -> AsyncIterator[Controls]:
    """A key file and a socket that anybody may open, an abstract socket, a variable; all of them gone afterwards."""
    value = f"planted-control-{mark()}"
    with tempfile.TemporaryDirectory(prefix="planted-") as name, closing(_listener()) as named, closing(_listener()) as abstract:
        folder = Path(name)
        folder.chmod(0o755)
        key = folder / "control.key"
        key.write_text(value, encoding="ascii")
        key.chmod(0o644)
        path = folder / "control.sock"
        named.bind(str(path))
        path.chmod(0o777)
        abstract_name = f"planted-{mark(8)}"
        abstract.bind("\0" + abstract_name)
        for sock in (named, abstract):
            sock.listen(8)
        look = {
            "roots": [str(folder)],
            "file": str(key),
            "socket": str(path),
            "abstract": abstract_name,
            "variable": VARIABLE,
            "gateway": list(gateway),
        }
        yield Controls(value, folder, look)


def _listener() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


async def probe_outside(controls: Controls) -> dict[str, Any]:
    """The probe in a process of the host that has what an unguarded agent would have: the same environment, files and network."""
    home = str(Path(__file__).resolve().parents[2])
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        "-c",
        RUN_PROBE,
        home,
        json.dumps(dict(controls.look)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=controls.environment,
    )
    out, err = await process.communicate()
    if process.returncode != 0:
        raise Untestable(f"the probe does not work out here: {err.decode(errors='replace')[-300:]}", where="probe")
    found: dict[str, Any] = json.loads(out)
    return found
