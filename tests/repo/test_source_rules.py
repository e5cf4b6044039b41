"""Rules of the sources that no linter knows: where time, chance and broad handlers may be, and how tests may behave."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

Rule = Callable[[ast.Module], Iterator[tuple[int, str]]]

PORTS: Mapping[str, str] = {
    "harness/clock.py": "the clock",
    "harness/cli/place.py": "ids of runs",
    "harness/cli/pytest_merge.py": "Allure's own id of a result",
    "harness/engine/bench.py": "Names, the port for synthetic values",
    "harness/engine/item.py": "how long an item really took, which is reported and never judged, also while its bench's clock stands still",
    "harness/live/home.py": "the key of a vault that outlives its gateway",
    "harness/nightly/login.py": "the session that binds a browser to the sign-in it began",
    "harness/local/mem0.py": "the key that a vendor's server is started with",
    "harness/local/papr_mcp.py": "as above",
    "harness/sandbox/agent.py": "a program inside a sandbox, which nobody can hand a clock; how long it ran is compared with the outside",
    "harness/sandbox/fresh.py": "values that nobody had before",
    "harness/target/reference.py": "the operator token of a gateway that it starts",
    "reference_gateway/clock.py": "the clock",
    "reference_gateway/ids.py": "ids and tokens",
    "reference_gateway/vault.py": "nonces of encryption",
    "reference_gateway/vault_key.py": "the key of a process that was given none",
    "harness/target/outer.py": "the key of the vault of a gateway that it starts",
}
"""Modules that may ask for the time or for chance."""

BROAD: Mapping[str, str] = {
    "harness/cli/main.py": "the program's edge: a fault of ours is said without a traceback",
    "harness/engine/item.py": "the step boundary: a fault of ours breaks off one scenario, not the run",
}
"""Modules that may handle every exception without raising it again."""


def names_of(tree: ast.Module) -> dict[str, str]:
    """Local name → dotted origin, for everything imported anywhere in the module."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {(a.asname or a.name.partition(".")[0]): (a.name if a.asname else a.name.partition(".")[0]) for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {(a.asname or a.name): f"{node.module}.{a.name}" for a in node.names}
    return found


def uses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, dotted origin) of each use of something imported."""
    known = names_of(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute | ast.Name):
            continue
        root, _, rest = ast.unparse(node).partition(".")
        if root in known:
            yield node.lineno, f"{known[root]}.{rest}" if rest else known[root]


TIME = {
    *(f"time.{name}{ns}" for name in ("time", "monotonic", "perf_counter", "process_time") for ns in ("", "_ns")),
    *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
    "datetime.date.today",
}
CHANCE = ("random.", "secrets.token", "secrets.choice", "secrets.rand", "os.urandom", "uuid.uuid1", "uuid.uuid4")


def time_and_chance(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for line, origin in uses(tree):
        if origin in TIME or origin.startswith(CHANCE):
            yield line, f"{origin} outside a port"


def sleeping(tree: ast.Module) -> Iterator[tuple[int, str]]:
    yield from ((line, "time.sleep") for line, origin in uses(tree) if origin == "time.sleep")


def broad_handlers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Handlers of everything, unless their last statement raises it again: cleaning up is not handling."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        last = node.body[-1]
        again = isinstance(last, ast.Raise) and last.exc is None
        if any(kind is None or ast.unparse(kind) in ("Exception", "BaseException") for kind in kinds) and not again:
            yield node.lineno, "a broad except"
    yield from _suppressions(tree)


def _suppressions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) not in ("suppress", "contextlib.suppress"):
            continue
        if any(ast.unparse(a) in ("Exception", "BaseException") for a in node.args):
            yield node.lineno, "a broad suppress"


def unreliable_tests(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """No test is skipped, expected to fail, or settled by waiting."""
    for line, origin in uses(tree):
        if origin in ("pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail", "pytest.skip", "pytest.xfail", "pytest.importorskip"):
            yield line, origin
        if origin == "time.sleep":
            yield line, origin


def broken(root: Path, folders: tuple[str, ...], rule: Rule, excused: Mapping[str, str]) -> tuple[list[str], set[str]]:
    """What breaks the rule, and which excuses are needed."""
    found, needed = [], set()
    for path in sorted(p for folder in folders for p in (root / folder).rglob("*.py")):
        name = path.relative_to(root).as_posix()
        for line, what in rule(ast.parse(path.read_text(encoding="utf-8"))):
            if name in excused:
                needed.add(name)
            else:
                found.append(f"{name}:{line}: {what}")
    return found, needed


SOURCES = ("harness", "reference_gateway")


def test_time_and_chance_come_through_ports(root: Path) -> None:
    found, _ = broken(root, SOURCES, time_and_chance, PORTS)
    assert found == []


def test_nothing_sleeps_by_the_wall_clock(root: Path) -> None:
    assert broken(root, SOURCES, sleeping, {})[0] == []


def test_broad_handlers_are_at_the_two_edges(root: Path) -> None:
    found, _ = broken(root, SOURCES, broad_handlers, BROAD)
    assert found == []


def test_no_test_is_skipped_or_waits(root: Path) -> None:
    assert broken(root, ("tests",), unreliable_tests, {})[0] == []


@pytest.mark.parametrize("path", sorted({*PORTS, *BROAD}))
def test_every_excused_module_exists(root: Path, path: str) -> None:
    assert (root / path).is_file()


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (time_and_chance, "import time\nstarted = time.monotonic()"),
        (time_and_chance, "from time import perf_counter as now\nnow()"),
        (time_and_chance, "from datetime import datetime\ndatetime.now()"),
        (time_and_chance, "import datetime as d\nd.datetime.now(d.UTC)"),
        (time_and_chance, "def f():\n    from uuid import uuid4\n    return uuid4()"),
        (time_and_chance, "import random\nrandom.Random(1)"),
        (time_and_chance, "import secrets\nsecrets.token_hex(4)"),
        (sleeping, "from time import sleep\nsleep(1)"),
        (broad_handlers, "try:\n    pass\nexcept Exception:\n    pass"),
        (broad_handlers, "try:\n    pass\nexcept:\n    pass"),
        (broad_handlers, "try:\n    pass\nexcept (OSError, BaseException) as e:\n    raise ValueError from e"),
        (broad_handlers, "from contextlib import suppress\nwith suppress(Exception):\n    pass"),
        (unreliable_tests, "import pytest\n@pytest.mark.skip\ndef test(): ..."),
        (unreliable_tests, "import pytest\n@pytest.mark.xfail(strict=True)\ndef test(): ..."),
    ],
)
def test_what_breaks_a_rule_is_found(rule: Rule, source: str) -> None:
    assert list(rule(ast.parse(source)))


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (time_and_chance, "from datetime import UTC, datetime\ndatetime.fromisoformat('x')\nclock.monotonic()\nsecrets = {}\nsecrets.get(1)"),
        (broad_handlers, "try:\n    pass\nexcept BaseException:\n    close()\n    raise"),
        (broad_handlers, "try:\n    pass\nexcept OSError:\n    pass"),
        (sleeping, "import asyncio\nasyncio.sleep(0)"),
    ],
)
def test_what_keeps_a_rule_passes(rule: Rule, source: str) -> None:
    assert not list(rule(ast.parse(source)))
