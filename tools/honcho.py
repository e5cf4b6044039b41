"""`make honcho SRC=CHECKOUT`: everything that Honcho's own stack needs on this machine, made from a checkout of plastic-labs/honcho.

Nothing is written into the checkout, and nothing of it outside `.real/honcho`, which no commit holds. Packages come by hash: Honcho's from its
own uv.lock, ours from the locks beside harness/local and in real/npm.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from harness.local.honcho import LOCAL, SETTINGS  # noqa: E402  # the checkout is run from, not installed
from harness.local.installation import HERE  # noqa: E402

TABLES = ("fb374d419588a4632f3f557e76b4b70aebbca790", "9b5ad71b2ce5302211f9c61530b329a4922fc6a4")
"""Under which names tiktoken keeps the tables o200k_base and cl100k_base that it fetched."""


def run(*words: str | Path, cwd: Path = ROOT, **env: str) -> None:
    shown = " ".join(str(word) for word in words)
    sys.stdout.write(f"$ {shown}\n")
    sys.stdout.flush()
    subprocess.run([str(word) for word in words], check=True, cwd=cwd, env={**os.environ, **env})


def main(checkout: str) -> int:
    source, home = Path(checkout).resolve(), LOCAL.home.root
    for part in ("src/main.py", "uv.lock", "mcp/src/server.ts", "mcp/instructions.md"):
        if not (source / part).is_file():
            sys.stderr.write(f"error: {source}: no checkout of plastic-labs/honcho ({part} is missing)\n  fix: make honcho SRC=CHECKOUT\n")
            return 2
    uv = ROOT / "build" / "uv" / "bin" / "uv"
    shutil.rmtree(home, ignore_errors=True)
    run(sys.executable, "-m", "venv", home)
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        asked = work / "honcho.txt"
        run(uv, "export", "--frozen", "--no-dev", "--no-emit-workspace", "--quiet", "--format", "requirements-txt", "-o", asked, cwd=source)
        locks = (asked, HERE / "honcho-requirements.txt")
        for lock in locks:
            run(uv, "pip", "install", "--quiet", "--python", home / "bin" / "python", "--no-deps", "--require-hashes", "-r", lock)
        tokenizers(work, home / "tokenizers")
    mcp_server(source, home / "mcp")
    database = home / "database"
    settings = {**SETTINGS, "TIKTOKEN_CACHE_DIR": str(home / "tokenizers"), "XDG_RUNTIME_DIR": str(home)}
    run(home / "bin" / "python", HERE / "launch" / "honcho_api.py", "provision", source, database, **settings)
    (home / ".source").write_text(f"{source}\n", encoding="utf-8")
    shutil.copy(HERE / "honcho-requirements.txt", home / ".locked")  # last, so that a torn one has none
    return 0


def tokenizers(work: Path, target: Path) -> None:
    lock = HERE / "honcho-tokenizers.txt"
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--dest", work, "-r", lock)
    target.mkdir()
    (wheel,) = work.glob("litellm-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for table in TABLES:
            (target / table).write_bytes(archive.read(f"litellm/litellm_core_utils/tokenizers/{table}"))


def mcp_server(source: Path, target: Path) -> None:
    target.mkdir()
    shutil.copytree(source / "mcp" / "src", target / "src")
    shutil.copy(source / "mcp" / "instructions.md", target)
    for ours in ("honcho_mcp.mts", "honcho_hooks.mjs"):
        shutil.copy(HERE / "launch" / ours, target)
    (target / "package.json").write_text('{"type": "module"}\n', encoding="utf-8")
    for part in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / "real" / "npm" / "honcho" / part, target / part)
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", cwd=target)
    (target / "package.json").write_text('{"type": "module"}\n', encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:2]) if len(sys.argv) == 2 else 2)
