"""10,000 jobs: all are there, few of them are nodes."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from bgjob.api import Jobs, open_jobs
from bgjob.api.remove import remove_jobs
from tests.page.conftest import PATIENCE_MS
from tests.page.past import Past
from tests.page.shown import expect_selected, names, row
from tests.page.site import Site
from tests.page.staged import CLAUDE, CODEX
from tests.support.homes import end_all_jobs

pytestmark = [pytest.mark.timeout(600)]

COUNT = 10_000
SETTINGS = {"MCP_BG_MAX_JOBS": "100", "MCP_BG_KEEP_JOBS": "1000000"}
# Of a page of 800 pixels: some thirty rows in sight, and as many around them.
MOST_NODES = 1500
NODES = "() => document.querySelectorAll('*').length"
COMMANDS = "() => [...document.querySelectorAll('.row .command')].map((node) => node.textContent)"


def is_failed(number: int) -> bool:
    return number % 7 == 0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The newest is number 0."""
    home = tmp_path_factory.mktemp("many") / "home"
    past, now = Past(home), time.time()
    for number in range(COUNT):
        past.job(
            "failed" if is_failed(number) else "completed",
            now - 10 * number - 20,
            name=f"job{number % 40}",
            command=f"pytest -x part{number}",
            by=CODEX if number % 3 else CLAUDE,
        )
    yield home
    end_all_jobs(home)


@pytest.fixture(scope="module")
def site(home: Path) -> Iterator[Site]:
    with Site(home, **SETTINGS) as site:
        yield site


@pytest.fixture
def jobs(home: Path) -> Iterator[Jobs]:
    with contextlib.closing(open_jobs({**os.environ, "BGJOB_HOME": str(home), **SETTINGS})) as jobs:
        yield jobs


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(site.new_address())
    expect(page.locator(".counts")).to_have_text("10,000 ended")
    yield page
    context.close()


def expect_commands(page: Page, first: int, last: int) -> None:
    """The rows from number `first` to `last` are drawn, in their order; around them there may be more."""
    wanted = [f"pytest -x part{number}" for number in range(first, last + 1)]
    page.wait_for_function(
        """(wanted) => {
            const drawn = [...document.querySelectorAll(".row .command")].map((node) => node.textContent);
            const at = drawn.indexOf(wanted[0]);
            return at >= 0 && wanted.every((command, index) => drawn[at + index] === command);
        }""",
        arg=wanted,
    )


def test_only_what_is_in_sight_is_a_node(page: Page) -> None:
    expect_commands(page, 0, 15)
    assert page.evaluate(NODES) < MOST_NODES
    box = page.locator(".scroll")
    height = box.evaluate("(node) => node.scrollHeight")
    for share in (0.5, 0.99, 0.1):
        top = round(share * height)
        box.evaluate("(node, top) => { node.scrollTop = top; }", top)
        first = (top - 38) // 34 + 1
        expect_commands(page, first, first + 15)
        assert page.evaluate(NODES) < MOST_NODES
    page.keyboard.press("G")
    expect_commands(page, COUNT - 15, COUNT - 1)
    expect_selected(page, f"job{(COUNT - 1) % 40}")
    expect(page.locator(".row.selected")).to_be_in_viewport()
    page.keyboard.press("g")
    expect_commands(page, 0, 15)


def test_the_row_that_has_the_focus_stays_when_it_is_scrolled_away(page: Page) -> None:
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.locator(".row.selected .command")).to_have_text("pytest -x part1")
    page.locator(".scroll").evaluate("(node) => { node.scrollTop = 200_000; }")
    expect_commands(page, 5882, 5890)
    expect(page.locator(".row.selected .name")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator(".row.selected .command")).to_have_text("pytest -x part2")
    expect(page.locator(".row.selected")).to_be_in_viewport()


def test_a_filter_finds_all_and_only_what_fits(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("part1234")
    expect(page.locator(".counts")).to_have_text("1 of 10,000 jobs")
    expect(page.locator(".row .command")).to_have_text(["pytest -x part1234"])
    fits = [number for number in range(COUNT) if number % 40 == 7 and is_failed(number)]
    page.locator("#filter").fill("name=job7 status=failed")
    expect(page.locator(".counts")).to_have_text(f"{len(fits)} of 10,000 jobs")
    drawn = page.evaluate(COMMANDS)
    assert drawn == [f"pytest -x part{number}" for number in fits[: len(drawn)]]
    page.locator("#filter").fill("")
    expect(page.locator(".counts")).to_have_text("10,000 ended")
    assert page.evaluate(NODES) < MOST_NODES


def test_groups_have_all_of_theirs(page: Page) -> None:
    page.get_by_role("button", name="Agent").click()
    first = page.locator(".heading h3").first
    of_claude = len(range(0, COUNT, 3))
    expect(first).to_have_text(f"claude-code 7f3a90c1 {of_claude:,} ended")
    page.get_by_role("button", name="claude-code 7f3a90c1").click()
    expect(page.locator(".heading")).to_have_count(2)
    expect(page.locator(".row .command").first).to_have_text("pytest -x part1")
    assert page.evaluate(NODES) < MOST_NODES


def test_what_is_read_stays_in_its_place_while_jobs_come_above_it(page: Page, jobs: Jobs) -> None:
    page.locator(".scroll").evaluate("(node) => { node.scrollTop = 100_007; }")
    expect_commands(page, 2941, 2950)
    place = page.locator(".row", has_text="part2945").bounding_box()
    job = jobs.execute("exec sleep 1000", name="above")
    expect(page.locator(".counts")).to_have_text("1 running, 10,000 ended")
    expect_commands(page, 2941, 2950)
    assert page.locator(".row", has_text="part2945").bounding_box() == place
    jobs.kill(job.id, grace_s=0)
    expect(page.locator(".counts")).to_have_text("10,001 ended")
    assert [removed for removed, _ in remove_jobs(jobs.context, [job.id])] == [job.id]
    expect(page.locator(".counts")).to_have_text("10,000 ended")
    assert page.locator(".row", has_text="part2945").bounding_box() == place


def test_a_new_job_is_on_top_at_once(page: Page, jobs: Jobs) -> None:
    job = jobs.execute("exec sleep 1000", name="newest")
    expect(row(page, "newest")).to_be_visible()
    assert names(page)[0] == "newest"
    jobs.kill(job.id, grace_s=0)
    expect(row(page, "newest").locator(".state")).to_have_text("killed")
    expect(page.locator(".counts")).to_have_text("10,001 ended")
    assert [removed for removed, _ in remove_jobs(jobs.context, [job.id])] == [job.id]
    expect(page.locator(".counts")).to_have_text("10,000 ended")
