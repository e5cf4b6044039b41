"""One Chromium for all tests: the system's own, driven through Playwright. Where it is missing the tests are red, not skipped."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parents[1]
AXE = ROOT / ".real" / "npm" / "axe" / "node_modules" / "axe-core" / "axe.min.js"
SHOTS = ROOT / "build" / "screenshots"
WIDTHS = (320, 768, 1440)
THEMES = ("light", "dark")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        pytest.fail("there is no chromium on this machine; Debian's package is chromium, and .ci/run installs it")
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


class Watched:
    """A page, and everything it did that a quiet page does not do."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda said: self.complaints.append(f"{said.type}: {said.text}") if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._dialog)

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Watched]]:
    """Opens a page in a context of its own: `opened(width=320, theme="dark")`."""
    contexts = []

    def make(width: int = 1440, theme: str = "light", **more: Any) -> Watched:
        # `bypass_csp` only where axe is injected: the policy itself is under test everywhere else.
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme, **more)  # type: ignore[arg-type]
        contexts.append(context)
        return Watched(context.new_page())

    yield make
    for context in contexts:
        context.close()


@pytest.fixture
def shot() -> Callable[[Page, str], None]:
    SHOTS.mkdir(parents=True, exist_ok=True)

    def take(page: Page, name: str) -> None:
        page.screenshot(path=str(SHOTS / f"{re.sub('[^a-z0-9-]+', '-', name.lower())}.png"))

    return take


@pytest.fixture(scope="session")
def serious() -> Callable[[Page], list[str]]:
    """What axe finds that is serious or worse: "rule: target"."""
    source = AXE.read_text(encoding="utf-8")

    def check(page: Page) -> list[str]:
        page.evaluate(source)
        found = page.evaluate("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa']})")
        return [
            f"{rule['id']}: {node['target']} {node.get('failureSummary', '')}"
            for rule in found["violations"]
            if rule["impact"] in ("serious", "critical")
            for node in rule["nodes"]
        ]

    return check


def overflows(page: Page) -> bool:
    """Whether the page itself scrolls sideways."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))
