"""A PostgreSQL of our own on loopback: Debian's programs, a cluster in a temporary folder, ended with the tests."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

USER = "postgres"
START_S = 60


class Missing(Exception):
    """There is no PostgreSQL on this machine. The tests are red for it."""


def programs() -> Path:
    """The newest installed version's folder of programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]) if path.parts[-3].isdigit() else 0)
    if found:
        return found[-1].parent
    if (path := shutil.which("initdb")) is not None:
        return Path(path).parent
    raise Missing("initdb is not installed; Debian's package is postgresql, and .ci/run installs it")


def unprivileged() -> dict[str, int | list[int]]:
    """As whom the server runs: it refuses to be root's."""
    if os.geteuid() != 0:
        return {}
    try:
        entry = pwd.getpwnam(USER)
    except KeyError as error:
        raise Missing(f"there is no user {USER}; Debian's package postgresql makes it") from error
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


@contextlib.contextmanager
def database() -> Iterator[str]:
    """The address of an empty database. Raises Missing."""
    bin_folder, whom = programs(), unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="gateway-postgres-"))
    try:
        if whom:
            os.chown(folder, int(str(whom["user"])), int(str(whom["group"])))
        data, word = folder / "data", secrets.token_hex(16)
        secret = folder / "password"
        secret.write_text(word)
        secret.chmod(0o644)
        setup = [str(bin_folder / "initdb"), "-D", str(data), "-U", "gateway", "-A", "scram-sha-256", f"--pwfile={secret}", "--no-sync", "-E", "UTF8"]
        run(setup, folder, whom)
        port = free_port()
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder} -c max_connections=60"
        control = [str(bin_folder / "pg_ctl"), "-D", str(data), "-w", "-t", str(START_S)]
        run([*control, "-l", str(folder / "log"), "-o", options, "start"], folder, whom)
        try:
            yield f"postgresql://gateway:{word}@127.0.0.1:{port}/postgres"
        finally:
            run([*control, "-m", "immediate", "stop"], folder, whom)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(command: list[str], folder: Path, whom: dict[str, int | list[int]]) -> None:
    # Standard output goes to a file: pg_ctl leaves it to the server, and a pipe would stay open for as long as that lives.
    with (folder / "out").open("ab") as out:
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder, env=environment, timeout=120, check=False, **whom
        )  # type: ignore[call-overload]
    if done.returncode:
        log = folder / "log"
        said = (folder / "out").read_text(errors="replace")[-2000:] + (log.read_text(errors="replace")[-2000:] if log.exists() else "")
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {said}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
