"""The page in a real browser: Debian's chromium, without a window."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.page.foreign import RESOLVER
from tests.page.site import Site
from tests.page.xterm import XTerm

PATIENCE_MS = 60_000
# Runs before the page's own scripts: what the browser refused is remembered.
REMEMBER_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));
"""

# The browser keeps files of its own there, below a HOME that it is given.
os.environ.pop("XDG_CONFIG_HOME", None)

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        assert not os.environ.get("CI"), "chromium is not on PATH"
        pytest.skip("chromium is not on PATH. On Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        options = ["--disable-dev-shm-usage", RESOLVER, *(["--no-sandbox"] if os.getuid() == 0 else [])]
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


@pytest.fixture
def site(home: Path) -> Iterator[Site]:
    with Site(home, MCP_BG_MAX_JOBS="100") as site:
        yield site


@pytest.fixture
def tab_of_browser(browser: Browser) -> Iterator[BrowserContext]:
    """A browser with cookies of its own."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(REMEMBER_VIOLATIONS)
    yield context
    context.close()


@pytest.fixture
def page(tab_of_browser: BrowserContext, site: Site) -> Iterator[Page]:
    """Logged in, at the list. At its end: no script of it failed, and it broke no rule of its content policy."""
    page = tab_of_browser.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(f"{error.name}: {error.message}\n{error.stack}"))
    page.goto(site.new_address())
    page.wait_for_selector("body[data-view=list]")
    yield page
    violations = page.evaluate("() => window.violations")
    assert (problems, violations) == ([], [])


@pytest.fixture
def terminal(page: Page) -> XTerm:
    """Where the page shows the terminal of a job, once it was opened."""
    return XTerm(page)
