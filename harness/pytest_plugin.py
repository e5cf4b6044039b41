"""`pytest scenarios/`: the scenario files as test items over the same plan, run and judge as `harness run`.

Inert until a scenario file is met: this module imports nothing but pytest, and everything else where it is needed.

A scenario is claimed by making its evidence file, which only one process can do, so that none is ever run twice: not on the worker
that replaces a crashed one, not by a plug-in that reruns failures. A write that was under way may have happened.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from harness.cli.pytest_items import ScenarioFile
    from harness.cli.pytest_run import PytestRun

RUN: pytest.StashKey[PytestRun] = pytest.StashKey()
PLACE: pytest.StashKey[dict[str, str]] = pytest.StashKey()
LOST: pytest.StashKey[dict[str, str]] = pytest.StashKey()
SAID: pytest.StashKey[str] = pytest.StashKey()

_SCENARIO = re.compile(rb"^scenario[ \t]*:", re.MULTILINE)
_HEAD = 65_536


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("harness", "acceptance scenarios")
    group.addoption("--harness-level", default="fake", metavar="LEVEL", help="evidence level: fake, replayed, local or live")
    group.addoption("--harness-target", default="reference", metavar="TARGET", help="the gateway adapter to drive")
    group.addoption("--harness-protocol", default=None, metavar="VERSION", help="MCP version, or all; default: as each scenario asks")
    group.addoption(
        "--harness-defect", action="append", default=[], metavar="NAME[=VALUE]", help="break the reference gateway on purpose; repeatable"
    )
    group.addoption("--harness-reports", default="reports", metavar="FOLDER", help="where runs keep evidence and reports")
    parser.addini("harness_folders", "names of folders whose YAML files may be scenarios (others only when named outright)", "args", ["scenarios"])


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> ScenarioFile | None:
    """YAML with a top-level `scenario:`, below a folder named scenarios or named outright on the command line."""
    if file_path.suffix not in (".yaml", ".yml") or not _wanted(file_path, parent) or not _is_scenario(file_path):
        return None
    from harness.cli.pytest_items import ScenarioFile

    made: ScenarioFile = ScenarioFile.from_parent(parent, path=file_path)
    return made


def _wanted(path: Path, parent: pytest.Collector) -> bool:
    if set(parent.config.getini("harness_folders")) & {folder.name for folder in path.parents}:
        return True
    return parent.session.isinitpath(path)


def _is_scenario(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _SCENARIO.search(file.read(_HEAD)) is not None
    except OSError:
        return False


def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    if any(_is_ours(item) for item in items):
        from harness.cli.pytest_items import arrange

        arrange(items)


def pytest_collection_finish(session: pytest.Session) -> None:
    mine = [item for item in session.items if _is_ours(item)]
    if mine:
        from harness.cli.pytest_items import begin

        session.config.stash[RUN] = begin(session.config, _place(session.config), mine)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A scenario that another process has begun is over: its one result is the crash. It is gone through for other listeners, unreported."""
    if not _is_ours(item) or not item.config.stash[RUN].begun_elsewhere(item.name):
        return None
    from _pytest.runner import runtestprotocol

    item.config.stash[RUN].mark_again(item.name)
    runtestprotocol(item, log=False, nextitem=nextitem)
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """All workers share the controller's run."""
    node.workerinput["harness_place"] = _place(node.config)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport) -> None:
    """A worker died in the middle of a scenario: remember it for the results, and say in the report what that means."""
    if "::" not in crashitem or not crashitem.partition("::")[0].endswith((".yaml", ".yml")):
        return
    worker = getattr(getattr(getattr(report, "node", None), "gateway", None), "id", "a worker")
    config: pytest.Config = report.node.config  # set by xdist
    what = f"worker {worker} crashed while this scenario ran: what it had begun is unknown, and it is not run again"
    config.stash.setdefault(LOST, {})[crashitem] = what
    report.longrepr = f"{report.longrepr}\n{what}"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    run = config.stash.get(RUN, None)
    if run is not None:
        run.close()
    if hasattr(config, "workerinput") or PLACE not in config.stash or config.option.collectonly:
        return
    from harness.cli.pytest_merge import conclude

    lost = config.stash.get(LOST, None) or {}
    config.stash[SAID], session.exitstatus = conclude(config, _place(config), lost, int(session.exitstatus))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    said = config.stash.get(SAID, "")
    if said:
        terminalreporter.section("acceptance")
        terminalreporter.write_line(said)


def _is_ours(item: pytest.Item) -> bool:
    return type(item).__module__ == "harness.cli.pytest_items"


def _place(config: pytest.Config) -> dict[str, str]:
    """Run id, reports folder and start of this session's run: the controller's, also on its workers."""
    if hasattr(config, "workerinput"):
        given: dict[str, str] = config.workerinput["harness_place"]
        return given
    if PLACE not in config.stash:
        from harness.cli.place import new_run_id
        from harness.clock import SystemClock

        clock = SystemClock()
        reports = config.invocation_params.dir / config.getoption("--harness-reports")
        config.stash[PLACE] = {"run": new_run_id(clock), "reports": str(reports), "started_at": clock.now().isoformat()}
    return config.stash[PLACE]
