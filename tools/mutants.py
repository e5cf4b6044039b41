"""`make mutants`: break the reference gateway in small ways nobody thought of, and see who notices.

Each mutant is one change in one module of a private copy of `reference_gateway`; the package itself is never touched. Its unit tests
are run against it first, and if they let it live, a short run of scenarios on that gateway. What survives both is listed.
Mutants are sampled with a fixed seed, in an order that does not depend on the budget: more time tries more of the same list.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TextIO

import yaml

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "reference_gateway"
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.yaml")
TESTS: dict[str, tuple[str, ...]] = {
    "approval": ("test_gateway_approval.py",),
    "audit": ("test_gateway_audit.py",),
    "permission": ("test_control.py",),
    "classify": ("test_gateway_classify.py",),
    "decisions": ("test_control.py", "test_pipeline.py"),
    "pipeline": ("test_pipeline.py", "test_defects.py"),
}
SCENARIOS = ("MEM-1", "MEM-3", "scenarios/governance")
SHOWN = 80  # characters of code in a mutant's name
TEST_TIMEOUT_S, SCENARIO_TIMEOUT_S, BASELINE_TIMEOUT_S = 240.0, 300.0, 600.0
Fate = Literal["tests", "scenarios", "alive", "timeout"]
"""Killed by the one or the other, alive, or not told in time: a hang may be the mutant's, or a busy machine's, and counts for neither."""

FLIPS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """`name` is module, function, and the code before and after: it stays the same when lines move."""

    module: str
    line: int
    name: str
    source: str


class Spots(ast.NodeVisitor):
    """Every place where a mutation makes sense, with its function. Annotations, decorators, texts for people and logging are left out."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.AST, str]] = []
        self._scope: list[str] = []

    def _keep(self, node: ast.AST) -> None:
        self.found.append((node, ".".join(self._scope)))

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self._scope.append(node.name)
        for default in [] if isinstance(node, ast.ClassDef) else [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self._scope.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _function

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not (isinstance(node.value, ast.Name) and node.value.id in {"Literal", "Callable", "Mapping", "tuple", "dict", "list"}):
            self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if not isinstance(call, ast.Call) or ast.unparse(call.func).startswith("log."):
            return  # a docstring, or a line of log
        self._keep(node)
        self.visit(call)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._keep(node)  # what it says is for people; whether it is said is not

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._keep(node)
        self.generic_visit(node)

    def _any(self, node: ast.AST) -> None:
        self._keep(node)
        self.generic_visit(node)

    visit_BoolOp = visit_UnaryOp = _any

    def visit_Compare(self, node: ast.Compare) -> None:
        self._keep(node)
        for operand in (node.left, *node.comparators):
            if not isinstance(operand, ast.Constant):  # another word to compare with does what the flipped comparison does
                self.visit(operand)

    def _branch(self, node: ast.If | ast.IfExp) -> None:
        if not isinstance(node.test, (ast.Compare, ast.UnaryOp)):  # those are turned round by their own mutations
            self._keep(node)
        self.generic_visit(node)

    visit_If = visit_IfExp = _branch

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        return

    def visit_Constant(self, node: ast.Constant) -> None:
        people = isinstance(node.value, str) and (" " in node.value or not node.value)
        if node.value is not None and node.value is not Ellipsis and not people:
            self._keep(node)


def mutated(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the node's place."""
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            changed = deepcopy(node)
            changed.ops[at] = FLIPS[type(op)]()
            yield changed
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(op=ast.Or() if isinstance(node.op, ast.And) else ast.And(), values=node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, (ast.If, ast.IfExp)):
        changed_if = deepcopy(node)
        changed_if.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
        yield changed_if
    elif isinstance(node, ast.Constant):
        for other in _other(node.value):
            yield ast.Constant(other)
    elif isinstance(node, ast.Return):
        yield ast.Return(value=ast.Constant(None))
    elif isinstance(node, (ast.Expr, ast.Raise)):
        yield ast.Pass()


def _other(value: object) -> Iterator[bool | float | str]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield value + 1
    elif isinstance(value, str):
        yield f"{value}-mutated"


class Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else super().generic_visit(node)


def mutants_of(module: str) -> list[Mutant]:
    """All mutants of a module, in order of their place."""
    tree = ast.parse((ROOT / PACKAGE / f"{module}.py").read_text(encoding="utf-8"))
    spots = Spots()
    for statement in tree.body:
        spots.visit(statement)
    made, seen = [], Counter[str]()
    for node, scope in spots.found:
        for new in mutated(node):
            name = f"{module}.{scope}: {_shown(node)} -> {_shown(new)}"
            seen[name] += 1
            source = _source(tree, node, new)
            made.append(Mutant(module, getattr(node, "lineno", 0), name if seen[name] == 1 else f"{name} #{seen[name]}", source))
    return made


def _source(tree: ast.Module, node: ast.AST, new: ast.AST) -> str:
    changed = deepcopy(tree)
    twin = next(b for a, b in zip(ast.walk(tree), ast.walk(changed), strict=True) if a is node)
    return ast.unparse(ast.fix_missing_locations(Replace(twin, new).visit(changed)))


def _shown(node: ast.AST) -> str:
    text = ast.unparse(ast.fix_missing_locations(node.test if isinstance(node, (ast.If, ast.IfExp)) else deepcopy(node)))
    text = " ".join(text.split())
    text = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    return f"if {text}" if isinstance(node, (ast.If, ast.IfExp)) else text


# running


class Slot:
    """A private copy of everything that runs, where one mutant at a time is planted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in (PACKAGE, "harness", "tests", "scenarios", "providers", "inventories", "cassettes"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "conftest.py"):
            shutil.copy(ROOT / name, folder / name)
        self.log = folder / "output.txt"
        self.environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}

    def fate(self, mutant: Mutant, kinds: Sequence[str]) -> Fate:
        path = self.folder / PACKAGE / f"{mutant.module}.py"
        original = path.read_text(encoding="utf-8")
        path.write_text(mutant.source, encoding="utf-8")
        try:
            if "tests" in kinds and self.fails(self.unit_tests([mutant.module]), TEST_TIMEOUT_S):
                return "tests"
            if "scenarios" in kinds and self.fails(self.scenarios(), SCENARIO_TIMEOUT_S):
                return "scenarios"
            return "alive"
        except subprocess.TimeoutExpired:
            return "timeout"
        finally:
            path.write_text(original, encoding="utf-8")

    def unit_tests(self, modules: Sequence[str]) -> list[str]:
        names = dict.fromkeys(name for module in modules for name in TESTS[module])
        files = [str(self.folder / "tests" / PACKAGE / name) for name in names]
        return ["-m", "pytest", "-x", "-q", "-p", "no:xdist", "--rootdir", str(self.folder), *files]

    def scenarios(self) -> list[str]:
        return ["-m", "harness", "run", *SCENARIOS, "--protocol", "2026-07-28", "--report", "none", "--reports-dir", str(self.folder / "reports")]

    def said(self) -> str:
        """The end of what the last command wrote."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])

    def fails(self, arguments: Sequence[str], timeout: float) -> bool:
        """Whether the command ends with anything but success. Raises TimeoutExpired when it does not end in time."""
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            return process.wait(timeout) != 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def sound(slot: Slot, modules: Sequence[str], kinds: Sequence[str]) -> str:
    """Why this bench could not be believed, or "". The unchanged copy must pass, and one that cannot even be imported must not."""
    broken = Mutant(modules[0], 0, "", "raise SystemExit(3)\n")
    for kind in kinds:
        try:
            failed = slot.fails(slot.scenarios() if kind == "scenarios" else slot.unit_tests(modules), BASELINE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return f"the unchanged gateway's {kind} did not end within {BASELINE_TIMEOUT_S:g} s; is the machine busy?"
        if failed:
            return f"the unchanged gateway fails its own {kind}; mend that first:\n{slot.said()}"
        if slot.fate(broken, [kind]) != kind:
            return f"the {kind} do not run on the copy: a gateway that cannot be imported passed"
    return ""


def equivalents() -> dict[str, str]:
    """Name → why no test can tell it from the original."""
    return {row["mutant"]: row["why"] for row in yaml.safe_load(EQUIVALENT.read_text(encoding="utf-8")) or []}


def chosen(modules: Sequence[str], seed: int) -> tuple[list[Mutant], int]:
    """Mutants of all modules, shuffled each and dealt in turns, so that whatever is tried is spread evenly; and how many are left out."""
    known = equivalents()
    piles: list[list[Mutant]] = []
    names: set[str] = set()
    for module in modules:
        pile = mutants_of(module)
        names.update(mutant.name for mutant in pile)
        random.Random(f"{seed} {module}").shuffle(pile)
        piles.append([mutant for mutant in pile if mutant.name not in known])
    for name in known:
        if name not in names and name.split(".")[0] in modules:
            _say(f"warning: {EQUIVALENT.name} lists a mutant that does not exist any more: {name}")
    dealt = [pile[at] for at in range(max(map(len, piles))) for pile in piles if at < len(pile)]
    return dealt, sum(name in names for name in known)


def run(options: argparse.Namespace, folder: Path) -> int:
    modules = options.module or list(TESTS)
    kinds = ["tests", "scenarios"] if options.by == "both" else [options.by]
    mutants, left_out = chosen(modules, options.seed)
    slots = [Slot(folder / str(number)) for number in range(options.jobs)]
    if trouble := sound(slots[0], modules, kinds):
        _say(f"error: {trouble}")
        return 2
    deadline = time.monotonic() + options.budget
    fates: dict[str, Fate] = {}
    waiting = iter(mutants[: options.sample] if options.sample else mutants)

    def work(slot: Slot) -> None:
        for mutant in waiting:  # a list iterator hands out each item once, whoever asks
            if time.monotonic() > deadline:
                return
            fates[mutant.name] = slot.fate(mutant, kinds)
            _say(f"{fates[mutant.name]:9}  {mutant.module}.py:{mutant.line}  {mutant.name}", sys.stderr)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(work, slots))
    report(mutants, fates, left_out, options)
    return 0


def report(mutants: Sequence[Mutant], fates: dict[str, Fate], left_out: int, options: argparse.Namespace) -> None:
    tried = [mutant for mutant in mutants if mutant.name in fates]
    _say(f"{'module':12} {'mutants':>8} {'tried':>6} {'by tests':>9} {'by scenarios':>13} {'alive':>6} {'timeout':>8} {'killed':>7}")
    for module in [*dict.fromkeys(mutant.module for mutant in mutants), "all"]:
        mine = [mutant for mutant in tried if module in (mutant.module, "all")]
        count = Counter(fates[mutant.name] for mutant in mine)
        whole = sum(module in (mutant.module, "all") for mutant in mutants)
        killed = count["tests"] + count["scenarios"]
        told = killed + count["alive"]
        share = f"{100 * killed / told:.0f}%" if told else "-"
        numbers = f"{count['tests']:9} {count['scenarios']:13} {count['alive']:6} {count['timeout']:8} {share:>7}"
        _say(f"{module:12} {whole:8} {len(mine):6} {numbers}")
    survivors = [mutant for mutant in tried if fates[mutant.name] == "alive"]
    _say(f"seed {options.seed}, judged by {options.by}, {left_out} known equivalents left out" + ("; survivors:" if survivors else ""))
    for mutant in sorted(survivors, key=lambda m: (m.module, m.line)):
        _say(f"  {PACKAGE}/{mutant.module}.py:{mutant.line}: {mutant.name}")


def _say(line: str, stream: TextIO = sys.stdout) -> None:
    stream.write(line + "\n")
    stream.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/mutants.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", action="append", choices=list(TESTS), help="only this module; repeatable; default: all")
    parser.add_argument("--by", choices=("tests", "scenarios", "both"), default="both", help="who may kill (default: both)")
    parser.add_argument("--sample", type=int, default=0, help="at most so many mutants; default: as many as the budget allows")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=900.0, help="seconds after which no new mutant is tried (default 900)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        return run(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    sys.exit(main())
