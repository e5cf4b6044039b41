"""Scenario files and their plan items as pytest sees them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.errors import HarnessError
from harness.model.plan import Plan, PlanItem
from harness.model.verdict import Verdict
from harness.report.reading import cause
from harness.report.text import verdict_lines

if TYPE_CHECKING:
    from _pytest._code.code import ExceptionInfo, TerminalRepr

    from harness.cli.pytest_run import PytestRun


class ScenarioFailed(AssertionError):
    """The judge found against the subject. An assertion to every listener: Allure calls it failed, not broken."""

    def __init__(self, verdict: Verdict) -> None:
        first = cause(verdict)
        super().__init__(f"{first.id}: {first.message}" if first else verdict.outcome)
        self.verdict = verdict


class CouldNotTell(Exception):
    """The verdict is error: raised while setting up, so that pytest and JUnit say error and not failure."""

    def __init__(self, verdict: Verdict) -> None:
        first = cause(verdict)
        super().__init__(f"{first.id}: {first.message}" if first else verdict.outcome)
        self.verdict = verdict


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line that a plan depends on."""

    level: str
    target: str
    protocol: str | None
    defects: tuple[str, ...]


def options_of(config: pytest.Config) -> Options:
    from harness.cli.session import refuse_defects

    option: Any = config.option
    found = Options(option.harness_level, option.harness_target, option.harness_protocol, tuple(option.harness_defect))
    refuse_defects(found.defects, found.target)
    return found


def plan_of(path: Path, options: Options) -> Plan:
    """The plan of one file. Raises HarnessError."""
    from harness.engine.plan import make_plan

    return make_plan((), level=options.level, target=options.target, protocol=options.protocol, paths=[shown_path(path)])


def shown_path(path: Path) -> Path:
    """As reports should name it: from where the user stands, when the file's folder (its area) is still in that name."""
    relative = Path(os.path.relpath(path))
    return relative if len(relative.parts) > 1 and relative.parts[0] != ".." else path


def named(path: Path, config: pytest.Config) -> bool:
    """Whether the command line names this file or its folder: what not every machine can run is run when it is asked for, like in SELECT."""
    asked = [Path(config.invocation_params.dir, arg.partition("::")[0]).resolve() for arg in config.args]
    return path.resolve() in asked or path.parent.resolve() in asked


class ScenarioFile(pytest.File):
    """One YAML file: one item for each protocol version that its plan holds."""

    def collect(self) -> Iterable[ScenarioItem]:
        try:
            plan = plan_of(self.path, options_of(self.config))
        except HarnessError as error:
            raise self.CollectError(str(error)) from None
        if any(i.scenario.place == "sandbox" for i in plan.items) and not named(self.path, self.config):
            return
        for plan_item in plan.items:
            item: ScenarioItem = ScenarioItem.from_parent(self, name=plan_item.id, plan_item=plan_item)
            yield item


class ScenarioItem(pytest.Item):
    """A plan item. It is run and judged while it is set up; the test itself is the judgement."""

    def __init__(self, *, plan_item: PlanItem, **given: Any) -> None:
        super().__init__(**given)
        self.plan_item = plan_item
        self.verdict: Verdict | None = None
        for tag in plan_item.scenario.tags:
            # Registered first: with --strict-markers an unknown one is an error.
            self.config.addinivalue_line("markers", f"{tag}: scenarios with this tag")
            self.add_marker(tag)

    def setup(self) -> None:
        from harness.pytest_plugin import RUN

        self.verdict = self.config.stash[RUN].carry_out(self.name)
        self.user_properties += properties_of(self.verdict)
        if self.verdict.outcome == "not_applicable":
            raise pytest.skip.Exception(self.plan_item.not_applicable, _use_item_location=True)
        if self.verdict.outcome == "error":
            raise CouldNotTell(self.verdict)

    def runtest(self) -> None:
        if self.verdict is not None and self.verdict.outcome != "pass":
            raise ScenarioFailed(self.verdict)

    def repr_failure(self, excinfo: ExceptionInfo[BaseException], style: Any = None) -> str | TerminalRepr:
        """What a user can act on; a traceback only for faults of the harness itself."""
        if isinstance(excinfo.value, ScenarioFailed | CouldNotTell):
            return "\n".join(verdict_lines(excinfo.value.verdict))
        if isinstance(excinfo.value, HarnessError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.plan_item.scenario.location.line - 1, self.name


def properties_of(verdict: Verdict) -> list[tuple[str, object]]:
    """For `--junitxml`: the same properties as in our own junit.xml."""
    return [
        ("level", verdict.level),
        ("target", verdict.target),
        ("protocol", verdict.protocol),
        ("providers", ",".join(verdict.providers)),
        ("findings", ",".join(dict.fromkeys(finding.id for finding in verdict.findings))),
    ]


def arrange(items: list[pytest.Item]) -> None:
    """Scenarios that need a bench of their own come last, so that each worker changes benches once at most."""
    first: dict[str, pytest.Item] = {}
    for item in items:
        if isinstance(item, ScenarioItem) and first.setdefault(item.name, item) is not item:
            other = first[item.name]
            raise pytest.UsageError(f"{item.path}: the scenario {item.name!r} is also in {other.path}; rename one of them")
    items.sort(key=lambda item: isinstance(item, ScenarioItem) and item.plan_item.scenario.private_bench)


def begin(config: pytest.Config, place: Mapping[str, str], items: Sequence[pytest.Item]) -> PytestRun:
    """What runs this process's scenarios. Starts nothing yet."""
    from harness.cli.place import RunPlace
    from harness.cli.pytest_run import PytestRun

    worker = config.workerinput["workerid"] if hasattr(config, "workerinput") else ""
    plan_items = tuple(item.plan_item for item in items if isinstance(item, ScenarioItem))
    return PytestRun(RunPlace(Path(place["reports"]), place["run"]), plan_items, options_of(config).defects, worker)
