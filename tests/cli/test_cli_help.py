"""The command line as a function: help, versions, misspellings, exit codes; nothing heavy is loaded for it."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args

import pytest
from typer.main import get_command

from harness.cli.main import app, main
from harness.cli.run import LevelWord
from harness.errors import Exit
from harness.model.scenario import LEVELS
from harness.report.reading import MEANING

COMMANDS = (
    "run", "record", "list", "discover", "drift", "judge", "gate", "claims", "merge", "bundle", "gateway", "nightly", "doctor", "login", "sweep",
    "history", "serve", "spans", "transparency", "inventory", "audit",
)  # fmt: skip


def test_help_names_every_command_and_the_order_of_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for command in COMMANDS:
        assert f"\n  {command} " in text
    assert tuple(get_command(app).commands) == COMMANDS  # type: ignore[attr-defined]  # a group, since it has several commands
    assert "2, then 3, 4, 1, 5, 6" in " ".join(text.split())
    for code in Exit:
        assert f"    {code.value}  " in text
    assert "Examples:" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Examples:" in text
    assert f"harness {command}" in text


def test_no_arguments_is_help_and_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == Exit.USAGE
    assert "Commands:" in "".join(capsys.readouterr())


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("harness ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["rn"],
        ["run", "--levl", "fake"],
        ["run", "--level", "imaginary"],
        ["run", "--jobs", "0"],
        ["run", "--jobs", "many"],
        ["judge"],
        ["run", "--report", "markdwn"],
        ["run", "--report", "none", "--report", "junit"],
        ["run", "--target", "streamable_http", "--defect", "drop-audit"],
    ],
)
def test_a_bad_command_line_is_exit_2_with_a_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == Exit.USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert "rror" in said.err
    assert "Traceback" not in said.err


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from harness.cli.main import main; main(['--help']);"
        "print(sorted({'pydantic', 'mcp', 'rich', 'jinja2', 'yaml', 'asyncio', 'httpx2', 'pytest'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


def test_module_is_the_program() -> None:
    done = subprocess.run([sys.executable, "-m", "harness", "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("harness ")


def test_words_repeated_for_speed_are_the_models() -> None:
    assert get_args(LevelWord) == LEVELS
    assert set(MEANING) == set(Exit)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion_can_be_shown(shell: str) -> None:
    environment = {"_HARNESS_COMPLETE": f"source_{shell}", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([sys.executable, "-m", "harness"], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert "_HARNESS_COMPLETE" in done.stdout
