"""Two gateways that take minutes: IBM ContextForge and LiteLLM, unchanged. Run by `make gateways`, with the light ones, and by nothing else.

`python gateways/test_heavy.py TARGET...` writes a reviewed change down.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.timeout(3000)

HEAVY = ("contextforge", "litellm")


def light() -> ModuleType:
    """What both files do; a file beside a test cannot be imported by its name."""
    spec = importlib.util.spec_from_file_location("gateways_light", Path(__file__).with_name("test_light.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gateways_light"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("target", HEAVY)
def test_a_gateway_shows_what_is_written_down_of_it(target: str, tmp_path: Path) -> None:
    light().shows_what_is_written_down(target, tmp_path)


@pytest.mark.parametrize("target", HEAVY)
def test_a_gateway_changes_on_the_way_what_is_written_down_of_it(target: str, tmp_path: Path) -> None:
    light().changes_what_is_written_down(target, tmp_path)


if __name__ == "__main__":
    light().write_down(sys.argv[1:] or HEAVY)
