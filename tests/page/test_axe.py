"""axe-core finds nothing to complain about: in every view, light and dark, on a desk and on a phone."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect

from bgjob.api import Jobs
from tests.page import axe
from tests.page.conftest import PATIENCE_MS
from tests.page.shown import expect_part, expect_view, row
from tests.page.site import Site
from tests.page.staged import stage
from tests.support.npm_packages import installing_takes_long

pytestmark = [installing_takes_long]

DESK: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 360, "height": 740}
SIZES = {"desk": DESK, "phone": PHONE}
Show = Callable[[Page, str, dict[str, str]], None]


@pytest.fixture(scope="module", autouse=True)
def axe_is_there() -> None:
    axe.PACKAGES.install_or_skip()


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=SIZES)
def seen(request: pytest.FixtureRequest, browser: Browser, scheme: str, site: Site) -> Iterator[Page]:
    context = browser.new_context(
        viewport=SIZES[request.param], color_scheme="dark" if scheme == "dark" else "light"
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(site.new_address())
    expect_view(page, "list")
    yield page
    context.close()


def test_every_view(seen: Page, site: Site, jobs: Jobs, tmp_path: Path) -> None:
    found = {"empty list": axe.violations(seen)}
    ids = stage(jobs, tmp_path / "work")
    for name, show in SHOWN.items():
        show(seen, site.origin, ids)
        found[name] = axe.violations(seen)
    assert "\n".join(f"{name}: {each}" for name, broken in found.items() for each in broken) == ""


def test_a_browser_that_is_not_logged_in(browser: Browser, site: Site, scheme: str) -> None:
    context = browser.new_context(color_scheme="dark" if scheme == "dark" else "light")
    page = context.new_page()
    page.goto(f"{site.origin}/")
    expect_view(page, "out")
    assert axe.violations(page) == []
    context.close()


def show_list(page: Page, origin: str, ids: dict[str, str]) -> None:
    page.goto(f"{origin}/")
    expect(row(page, "migrate").locator(".likely")).to_have_count(2)
    expect(row(page, "push").get_by_label("Password for push")).to_be_visible()
    page.keyboard.press("G")


def show_projects(page: Page, origin: str, ids: dict[str, str]) -> None:
    page.goto(f"{origin}/?by=project")
    expect(row(page, "migrate")).to_be_visible()


def show_no_match(page: Page, origin: str, ids: dict[str, str]) -> None:
    page.goto(f"{origin}/?filter=nothing")
    expect(page.locator(".note h2")).to_have_text("No job fits")


def show_menu(page: Page, origin: str, ids: dict[str, str]) -> None:
    show_projects(page, origin, ids)
    row(page, "migrate").locator(".menu-button").click()


def show_help(page: Page, origin: str, ids: dict[str, str]) -> None:
    show_projects(page, origin, ids)
    page.keyboard.press("?")


def show_start(page: Page, origin: str, ids: dict[str, str]) -> None:
    show_projects(page, origin, ids)
    page.keyboard.press("n")
    form = page.get_by_role("dialog")
    form.get_by_text("More options").click()
    form.get_by_role("button", name="Add a variable").click()
    form.get_by_label("Command").fill(" ")
    form.get_by_role("button", name="Start").click()
    expect(form.get_by_role("alert")).not_to_be_empty()


def show_kill(page: Page, origin: str, ids: dict[str, str]) -> None:
    page.goto(f"{origin}/?job={ids['train']}&view=facts")
    expect_part(page, "facts")
    page.keyboard.press("x")
    expect(page.get_by_role("dialog", name="Kill train?")).to_be_visible()


def show_facts(page: Page, origin: str, ids: dict[str, str]) -> None:
    page.goto(f"{origin}/?job={ids['train']}&view=facts")
    expect(page.locator(".tree")).to_be_visible()


def show_log(page: Page, origin: str, ids: dict[str, str]) -> None:
    page.goto(f"{origin}/?job={ids['train']}&view=log")
    expect(page.locator(".logline", has_text="loss ").first).to_be_visible()


def show_question(page: Page, origin: str, ids: dict[str, str]) -> None:
    page.goto(f"{origin}/?job={ids['migrate']}&view=log")
    expect(page.locator(".typing .likely")).to_have_count(2)


def show_terminal(page: Page, origin: str, ids: dict[str, str]) -> None:
    page.goto(f"{origin}/?job={ids['tests']}&view=terminal")
    expect_part(page, "terminal")


def show_no_job(page: Page, origin: str, ids: dict[str, str]) -> None:
    page.goto(f"{origin}/?job=00000000-0000-4000-8000-000000000000")
    expect(page.locator(".note h2")).to_have_text("There is no such job")


def show_timeline(page: Page, origin: str, ids: dict[str, str]) -> None:
    page.goto(f"{origin}/?view=timeline")
    expect_view(page, "timeline")


def show_resources(page: Page, origin: str, ids: dict[str, str]) -> None:
    page.goto(f"{origin}/?view=resources")
    expect_view(page, "resources")


SHOWN: dict[str, Show] = {
    "list": show_list,
    "by project": show_projects,
    "no match": show_no_match,
    "menu": show_menu,
    "help": show_help,
    "start": show_start,
    "kill": show_kill,
    "facts": show_facts,
    "log": show_log,
    "question": show_question,
    "terminal": show_terminal,
    "no job": show_no_job,
    "timeline": show_timeline,
    "resources": show_resources,
}
