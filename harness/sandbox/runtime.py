"""What an interpreter needs to run the agent and nothing more: asked of the interpreter itself, never guessed."""

from __future__ import annotations

import asyncio
import json
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from harness.errors import Untestable
from harness.sandbox.agent import RUNNER

PYTHON = "/usr/bin/python3"
RUNNER_HOME = "/runner/harness/sandbox"
ASK = """
import sys; sys.path.insert(0, sys.argv[1])
import harness.sandbox.agent, traceback, linecache, tokenize, os, json, encodings.ascii, encodings.latin_1, encodings.idna, stringprep
own = [m.__file__ for n, m in list(sys.modules.items()) if getattr(m, "__file__", None) and not n.startswith("harness")]
lines = [line.split(None, 5) for line in open("/proc/self/maps")]
mapped = sorted({line[5].strip() for line in lines if len(line) > 5 and line[5].startswith("/")})
version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
stdlib = next(p for p in sys.path if p.endswith("/" + version))
told = {"modules": sorted(set(own)), "mapped": mapped, "stdlib": stdlib, "version": version}
print(json.dumps({**told, "executable": os.path.realpath(sys.executable)}))
"""


@dataclass(frozen=True, slots=True)
class Runtime:
    """`files`: (host path, path inside). `argv` starts the agent."""

    files: tuple[tuple[str, str], ...]
    folders: tuple[str, ...]
    argv: tuple[str, ...]
    interpreter: str


async def runtime() -> Runtime:
    """Raises Untestable when the interpreter cannot be taken along."""
    home = Path(__file__).resolve().parent
    process = await asyncio.create_subprocess_exec(
        _base(), "-I", "-S", "-c", ASK, str(home.parents[1]), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={}
    )
    out, err = await process.communicate()
    if process.returncode != 0:
        raise Untestable(f"the interpreter does not say what it needs: {err.decode(errors='replace')[-300:]}", where=_base())
    told = json.loads(out)
    executable, lib = str(told["executable"]), f"/usr/lib/{told['version']}"
    files = [(executable, PYTHON), *((str(home / name), f"{RUNNER_HOME}/{name}") for name in (*RUNNER, "__init__.py"))]
    files.append((str(home / "__init__.py"), "/runner/harness/__init__.py"))
    stdlib = str(told["stdlib"])
    files += [(module, module.replace(stdlib, lib, 1)) for module in {*told["modules"], f"{stdlib}/os.py"}]
    files += _libraries(told["mapped"], executable)
    start = "import sys; sys.path.insert(0, '/runner'); from harness.sandbox.agent import main; main()"
    argv = (PYTHON, "-I", "-S", "-B", "-c", start)
    return Runtime(tuple(sorted(files)), (f"{lib}/lib-dynload",), argv, executable)


def _base() -> str:
    """The interpreter itself, not a virtual environment's name for it."""
    return str(getattr(sys, "_base_executable", "") or sys.executable)


def _libraries(mapped: list[str], executable: str) -> list[tuple[str, str]]:
    """Shared libraries where the loader looks without being told (beside libc), and the loader where the executable names it."""
    libc = next((path for path in mapped if Path(path).name.startswith(("libc.so", "libc-", "ld-musl"))), "")
    if not libc:
        raise Untestable("the interpreter uses no C library that is known here", where=executable)
    beside = str(Path(libc).parent)
    loader = interpreter_of(Path(executable).read_bytes())
    found = []
    for path in mapped:
        name = Path(path).name
        if ".so" not in name or "/lib-dynload/" in path:
            continue
        if name.startswith("ld-"):
            found.append((path, loader))
        found.append((path, f"{beside}/{name}"))
    return found


def interpreter_of(elf: bytes) -> str:
    """PT_INTERP of a 64-bit little-endian ELF file: the path of its dynamic loader."""
    if elf[:6] != b"\x7fELF\x02\x01":
        raise Untestable("the interpreter is no 64-bit ELF program")
    offset, size, count = struct.unpack_from("<Q", elf, 32)[0], *struct.unpack_from("<HH", elf, 54)
    for number in range(count):
        kind, _flags, at, _va, _pa, length = struct.unpack_from("<IIQQQQ", elf, offset + number * size)
        if kind == 3:
            return elf[at : at + length].rstrip(b"\0").decode()
    raise Untestable("the interpreter names no dynamic loader")
