#!/usr/bin/env bash
# Builds the wheel, installs it into a new environment outside the checkout, and runs a scenario there.
# Usage: tools/wheel_check.sh, after `make setup`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

checkout=$PWD
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT

rm -rf build/wheel
.venv/bin/python -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheel .
wheel=$(ls build/wheel/*.whl)

# What a user reads by name must be inside: a file of the checkout that the wheel lacks is an error.
.venv/bin/python - "$wheel" <<'PYTHON'
import sys, zipfile
from pathlib import Path

inside = set(zipfile.ZipFile(sys.argv[1]).namelist())
wanted = {f"harness/_data/{p.as_posix()}" for folder in ("scenarios", "inventories", "providers") for p in Path(folder).rglob("*.yaml")}
wanted |= {p.as_posix() for package in ("harness", "reference_gateway") for p in Path(package).rglob("*") if p.suffix in (".py", ".j2", ".css")}
missing, strange = wanted - inside, {n for n in inside if n.split("/")[0] in ("tests", "tools", "docs", "scenarios")}
if missing or strange:
    sys.exit(f"error: the wheel lacks {sorted(missing)} and should not hold {sorted(strange)}")
print(f"{Path(sys.argv[1]).name}: {len(inside)} files, {len(wanted)} of them expected and found")
PYTHON

"${PYTHON:-python3}" -m venv "$away/venv"
# The dependencies are those that the lock put into .venv, seen through a path file, which does not show the checkout itself.
"$away/venv/bin/python" - "$PWD" <<'PYTHON'
import sys, sysconfig
from pathlib import Path

site = Path(sysconfig.get_path("purelib"))
(site / "locked.pth").write_text(str(Path(sys.argv[1], ".venv") / site.relative_to(sys.prefix)) + "\n", encoding="utf-8")
PYTHON
"$away/venv/bin/python" -m pip --disable-pip-version-check install --quiet --no-deps "$wheel"

cd "$away"
found=$("$away/venv/bin/python" -c 'import harness, reference_gateway; print(harness.__file__, reference_gateway.__file__)')
case $found in
*"$checkout"*) echo "error: this is the checkout, not the wheel: $found" >&2; exit 1 ;;
esac
"$away/venv/bin/harness" run MEM-1 </dev/null
test -s reports/latest/results.json || { echo "error: no results were written beside the caller" >&2; exit 1; }
