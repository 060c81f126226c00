"""A page outlives its server, and a hidden one leaves its connection to others."""

from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from bgjob.api import Jobs
from bgjob.store.store import Store
from tests.page.shown import expect_selected, names, row
from tests.page.site import Site
from tests.support.gate import Gate
from tests.support.stores import ended_job

# Playwright hides no tab.
HIDEABLE = """
Object.defineProperty(Document.prototype, "hidden", { get: () => Boolean(window.isHidden) });
window.hide = (isHidden) => {
    window.isHidden = isHidden;
    document.dispatchEvent(new Event("visibilitychange"));
};
"""


def hide(page: Page, is_hidden: bool = True) -> None:
    page.evaluate("(is) => window.hide(is)", is_hidden)


def expect_connection(page: Page, state: str) -> None:
    expect(page.locator("body")).to_have_attribute("data-connection", state)


def test_the_list_goes_on_after_the_server_was_killed_and_nothing_is_missing_or_twice(
    page: Page, site: Site, jobs: Jobs, gate: Gate
) -> None:
    store = Store(str(jobs.home))
    ended_job(store, name="past")
    gone = ended_job(store, name="gone")
    jobs.execute(f"{gate.pause}; exit 5", name="ends")
    jobs.execute("exec sleep 1000", name="runs")
    expect(page.locator(".row")).to_have_count(4)
    gate.wait_until_reached()
    page.keyboard.press("g")
    page.keyboard.press("j")
    selected = page.locator(".row.selected .name").inner_text()

    site.kill()
    expect(page.locator("#connection")).to_contain_text("The server does not answer")
    assert sorted(names(page)) == ["ends", "gone", "past", "runs"]
    gate.open()
    jobs.execute("exec sleep 1000", name="new")
    assert site.server.command("rm", gone).returncode == 0
    site.start_again()

    expect(page.locator("#connection")).to_have_text("")
    expect(row(page, "new")).to_be_visible()
    expect(row(page, "ends").locator(".why")).to_have_text("exit code 5")
    expect(row(page, "gone")).to_have_count(0)
    assert sorted(names(page)) == ["ends", "new", "past", "runs"]
    expect_selected(page, selected)
    jobs.execute("exec sleep 1000", name="later")
    expect(row(page, "later")).to_be_visible()
    assert len(names(page)) == 5


def test_the_samples_go_on_after_the_server_was_killed(page: Page, site: Site, jobs: Jobs) -> None:
    jobs.execute("exec sleep 1000", name="runs")
    expect(row(page, "runs").locator(".value").nth(1)).not_to_have_text("")
    known = """async () => {
        const { Jobs } = await import("/page/jobs.js");
        const jobs = new Jobs();
        jobs.history({ a: [[1, 0, 5], [2, 0, 6]] });
        jobs.take({ at: 3, jobs: { a: [0, 7] } });
        jobs.history({ a: [[2, 0, 6], [3, 0, 7], [4, 0, 8]] });
        jobs.take({ at: 4, jobs: { a: [0, 8] } });
        return jobs.samples.get("a").memory;
    }"""
    assert page.evaluate(known) == [5, 6, 7, 8]


def test_a_page_whose_login_is_gone_says_so(page: Page, site: Site, home: Path) -> None:
    site.kill()
    expect_connection(page, "lost")
    (home / "logins.json").unlink()
    site.start_again()
    expect(page.locator(".note h2")).to_have_text("This browser is not logged in")


def test_hidden_tabs_give_their_connections_back(
    tab_of_browser: BrowserContext, site: Site, jobs: Jobs
) -> None:
    """A browser has six for a host. One hidden tab keeps its own, to count what waits in its title."""
    tab_of_browser.add_init_script(HIDEABLE)
    pages = [tab_of_browser.new_page() for _ in range(8)]
    pages[0].goto(site.new_address())
    expect_connection(pages[0], "open")
    for page in pages:
        page.goto(f"{site.origin}/")
        expect_connection(page, "open")
        hide(page)
        expect_connection(page, "open" if page is pages[0] else "closed")
    jobs.execute("printf 'Go on? [y/N] '; read answer", name="asks", pty=True)
    expect(pages[0]).to_have_title("(1) bgjob")
    expect(pages[-1]).to_have_title("bgjob")
    hide(pages[-1], False)
    expect(row(pages[-1], "asks")).to_be_visible()
    hide(pages[0], False)
    hide(pages[1], False)
    hide(pages[1])
    expect_connection(pages[1], "open")  # now this is the one
