"""The list of all jobs: what it shows, and what can be done in it."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from bgjob.api import Jobs
from bgjob.api.filter import job_filter
from bgjob.cli.amounts import duration
from bgjob.core.job import Running
from bgjob.store.store import Store
from tests.page.shown import choose, expect_part, expect_selected, expect_view, headings, names, row
from tests.page.site import Site
from tests.page.staged import CLAUDE, CODEX, PERSON, past_job
from tests.support.gate import Gate
from tests.support.page_login import PageLogin
from tests.support.page_stream import PageStream
from tests.support.stores import ended_job
from tests.support.waiting import wait_until

ASKS = "printf 'Go on? [y/N] '; read answer; echo \"answered $answer\""
WAITS = "exec sleep 1000"


# -- what is shown ------------------------------------------------------------------------------------


def test_an_empty_list_says_what_to_do(page: Page) -> None:
    expect(page.locator(".note h2")).to_have_text("No jobs yet")
    expect(page.locator(".note")).to_contain_text("execute_command")
    page.get_by_role("button", name="Start a job").click()
    expect(page.get_by_role("dialog")).to_be_visible()


def test_a_job_comes_runs_and_ends_with_its_cause(page: Page, jobs: Jobs, gate: Gate) -> None:
    jobs.execute(f"{gate.pause}; exit 3", name="build")
    expect(row(page, "build").locator(".state")).to_have_text("running")
    assert headings(page) == ["Running 1"]
    gate.wait_until_reached()
    gate.open()
    expect(row(page, "build").locator(".state")).to_have_text("failed")
    expect(row(page, "build").locator(".why")).to_have_text("exit code 3")
    assert headings(page) == ["Ended 1"]
    expect(page.locator(".counts")).to_have_text("1 ended")


def test_what_waits_is_on_top_then_what_runs_is_queued_and_ended(page: Page, jobs: Jobs) -> None:
    ended_job(Store(str(jobs.home)), name="past")
    first = jobs.execute(WAITS, name="works")
    jobs.execute("true", name="later", after=[first.id])
    jobs.execute(ASKS, name="asks", pty=True)
    expect(row(page, "asks").locator(".prompt")).to_have_text("Go on? [y/N] ")
    expect(page.locator(".counts")).to_have_text("1 waits for you, 1 running, 1 queued, 1 ended")
    assert names(page) == ["asks", "works", "later", "past"]
    expect(row(page, "later").locator(".why")).to_contain_text("works")
    assert page.title() == "(1) bgjob"


def test_a_job_that_runs_has_its_time_its_use_and_its_ports(page: Page, jobs: Jobs) -> None:
    server = "import http.server as h; h.ThreadingHTTPServer(('127.0.0.1', 0), h.BaseHTTPRequestHandler)"
    jobs.execute(f'exec python3 -c "{server}.serve_forever()"', name="dev")
    port = row(page, "dev").locator(".port")
    expect(port).to_have_text(re.compile(r":\d+"))
    number = port.inner_text().removeprefix(":")
    assert port.get_attribute("href") == f"http://127.0.0.1:{number}/"
    assert port.get_attribute("rel") == "noopener noreferrer"
    expect(row(page, "dev").locator(".use .value").nth(0)).to_have_text(re.compile(r"\d+%"))
    expect(row(page, "dev").locator(".use .value").nth(1)).to_have_text(re.compile(r"[\d.]+ [KM]B"))
    expect(row(page, "dev").locator(".took")).to_have_text(re.compile(r"[1-9]\d*s"))  # it goes on by itself
    painted = """canvas => new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height)
        .data.buffer).some(pixel => pixel !== 0)"""
    memory = row(page, "dev").locator("canvas").nth(1)
    wait_until(lambda: bool(memory.evaluate(painted)), "a line is drawn")


def test_who_holds_a_job_is_shown(page: Page, jobs: Jobs, site: Site) -> None:
    """Another page of the same user has taken it over."""
    job = jobs.execute(WAITS, name="held", pty=True)
    other = PageLogin(site.server)
    with PageStream(other, job=job.id, view="terminal", viewer="another page", size="24x80") as stream:
        stream.wait_for("view")
        assert stream.hold(True).status == 204
        expect(row(page, "held").locator(".held")).to_contain_text("held by ")
    expect(row(page, "held").locator(".held")).to_have_count(0)


def test_causes_are_in_words(page: Page, jobs: Jobs) -> None:
    store = Store(str(jobs.home))
    past_job(store, "a", 10, 5, {"cause": "timed_out"}, name="slow")
    past_job(store, "b", 20, 5, {"cause": "over_limit", "limit": "memory"}, name="fat")
    past_job(store, "c", 30, 5, {"cause": "signaled", "signal": 11, "exit_code": None}, name="crash")
    past_job(store, "d", 40, 5, {"cause": "never_started", "reason": "no such directory"}, name="never")
    past_job(store, "e", 50, 5, {}, name="fine")
    expect(page.locator(".row")).to_have_count(5)
    assert page.locator(".row .why").all_text_contents() == [
        "timed out",
        "went over its memory limit",
        "killed by SIGSEGV",
        "did not start: no such directory",
        "",
    ]


def test_a_removed_job_leaves_the_list(page: Page, jobs: Jobs) -> None:
    for name in ("one", "two"):
        ended_job(Store(str(jobs.home)), name=name)
    expect(page.locator(".row")).to_have_count(2)
    choose(page, "one", "Remove …")
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator("#said")).to_have_text("one was removed.")
    assert names(page) == ["two"]


def test_a_store_that_cannot_be_read_is_told_and_the_list_goes_on_after_it(page: Page, jobs: Jobs) -> None:
    ended_job(Store(str(jobs.home)), name="past")
    expect(page.locator(".row")).to_have_count(1)
    home, aside = Path(jobs.home), Path(f"{jobs.home}.aside")
    home.rename(aside)
    try:
        expect(page.locator(".note h2")).to_have_text("The jobs cannot be read")
        assert names(page) == ["past"]
    finally:
        aside.rename(home)
    expect(page.locator(".note")).to_be_hidden()


def test_a_list_that_is_not_read_yet_says_so(page: Page) -> None:
    """Never an empty list that is not one."""
    told = page.evaluate(
        """async () => {
            const { Jobs } = await import("/page/jobs.js"), { open } = await import("/page/list.js");
            const place = document.createElement("div"), jobs = new Jobs();
            const view = open(place, { jobs, may: () => true }, {});
            const frame = () => new Promise(requestAnimationFrame);
            const told = [];
            const tell = async (message) => {
                if (message) jobs.list({ whole: false, removed: [], problem: null, ...message });
                await frame();
                await frame();
                told.push([place.querySelector(".counts").textContent, place.querySelector(".note").textContent]);
            };
            const row = (id) => ({ id, command: id, status: "completed", group: "ended", created: 1, ended: 2 });
            await tell(null);
            await tell({ whole: true, complete: false, rows: [row("a")] });
            await tell({ complete: true, rows: [row("b")] });
            view.close();
            return told;
        }"""
    )
    assert told == [["reading jobs …", ""], ["1 ended, reading older jobs …", ""], ["2 ended", ""]]


# -- answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pty", [True, False])
def test_a_prompt_is_answered_by_a_button(page: Page, jobs: Jobs, pty: bool) -> None:
    job = jobs.execute(ASKS, name="asks", pty=pty)
    buttons = row(page, "asks").locator(".likely")
    expect(buttons).to_have_text(["y", "n"])
    buttons.first.click()
    expect(row(page, "asks").locator(".state")).to_have_text("completed")
    assert "answered y" in jobs.output(job.id).stdout
    assert page.title() == "bgjob"


def test_a_prompt_is_answered_by_a_text(page: Page, jobs: Jobs) -> None:
    job = jobs.execute("printf 'Your name: '; read name; echo hello $name", name="asks", pty=True)
    field = row(page, "asks").get_by_role("textbox")
    field.fill("Anna <b>&")
    field.press("Enter")
    expect(row(page, "asks").locator(".state")).to_have_text("completed")
    assert "hello Anna <b>&" in jobs.output(job.id).stdout


def test_a_password_is_not_shown(page: Page, jobs: Jobs) -> None:
    command = "stty -echo; printf 'Password for anna: '; read secret; echo ${#secret} characters"
    job = jobs.execute(command, name="login", pty=True)
    field = row(page, "login").get_by_label("Password for login")
    assert field.get_attribute("type") == "password"
    expect(row(page, "login").locator(".likely")).to_have_count(0)
    field.fill("open sesame")
    row(page, "login").get_by_role("button", name="Send").click()
    expect(row(page, "login").locator(".state")).to_have_text("completed")
    assert "11 characters" in jobs.output(job.id).stdout


def test_what_is_typed_stays_while_the_list_changes(page: Page, jobs: Jobs) -> None:
    """Also the focus, when rows come and go above it."""
    jobs.execute("printf 'First: '; read a", name="first", pty=True)
    field = row(page, "first").get_by_role("textbox")
    field.fill("half a th")
    jobs.execute("printf 'Second: '; read a", name="second", pty=True)
    expect(row(page, "second").get_by_role("textbox")).to_be_visible()
    assert names(page) == ["second", "first"]
    page.keyboard.type("ought")
    expect(field).to_have_value("half a thought")


PROMPTS = {
    "Continue? [y/N] ": ["y", "n"],
    "Do you want to continue? [Y/n] ": ["y", "n"],
    "Are you sure you want to continue connecting (yes/no/[fingerprint])? ": ["yes", "no", "fingerprint"],
    "(2/7) Stage this hunk [y,n,q,a,d,e,?]? ": ["y", "n", "q", "a", "d", "e", "?"],
    "Ok to proceed? (y) ": ["y", "n"],
    "Overwrite? (A/R/I) ": ["A", "R", "I"],
    "Enter a number (1-3): ": ["1", "2", "3"],
    "Press Enter to continue...": ["Enter"],
    "package name: (shop) ": ["Enter: shop"],
    "Username: ": [],
    "Password [y/n]: ": [],
    "Downloading (3/10) ... ": [],
    ">>> ": [],
}


def test_likely_answers_are_read_from_the_prompt(page: Page) -> None:
    read = """async (prompts) => {
        const { likelyAnswers } = await import("/page/answer.js");
        return prompts.map((prompt) => likelyAnswers(prompt).map((answer) => answer.label));
    }"""
    assert dict(zip(PROMPTS, page.evaluate(read, list(PROMPTS)), strict=True)) == PROMPTS


# -- groups and filter --------------------------------------------------------------------------------


def test_jobs_are_grouped_by_agent_and_by_project_and_groups_are_folded(
    page: Page, jobs: Jobs, tmp_path: Path
) -> None:
    store, shop = Store(str(jobs.home)), str(tmp_path / "shop")
    past_job(store, "a", 30, 1, {}, name="a", by=CLAUDE, cwd=shop)
    past_job(store, "b", 20, 1, {}, name="b", by=CODEX, cwd=shop)
    past_job(store, "c", 10, 1, {}, name="c", by=CLAUDE, cwd="/srv")
    jobs.execute(ASKS, name="asks", pty=True, by=CODEX)
    expect(page.locator(".row")).to_have_count(4)
    page.get_by_role("button", name="Agent").click()
    expect(page.locator(".heading")).to_have_count(3)
    assert headings(page) == ["Waits for you 1", "claude-code 7f3a90c1 2 ended", "codex 0198c2ee 1 ended"]
    page.get_by_role("button", name="Project").click()
    expect(page.locator(".heading h3").nth(1)).to_contain_text("/srv")
    assert headings(page) == ["Waits for you 1", "/srv 1 ended", f"{shop} 2 ended"]
    page.get_by_role("button", name=shop).click()
    expect(page.locator(".row")).to_have_count(2)
    page.reload()
    expect(page.locator(".row")).to_have_count(2)
    page.get_by_role("button", name=shop).click()
    expect(page.locator(".row")).to_have_count(4)


def test_a_filter_that_nothing_fits_says_so(page: Page, jobs: Jobs) -> None:
    ended_job(Store(str(jobs.home)), name="past")
    expect(page.locator(".row")).to_have_count(1)
    page.keyboard.press("/")
    page.keyboard.type("nothing")
    expect(page.locator(".note h2")).to_have_text("No job fits")
    expect(page.locator(".counts")).to_have_text("0 of 1 job")
    page.keyboard.press("Escape")
    expect(page.locator(".row")).to_have_count(1)
    page.keyboard.type("status=done")
    expect(page.locator(".note")).to_contain_text("There is no status “done”")


FILTERS = [
    "build",
    "BUILD web",
    "name=build",
    "name=",
    "command=pytest -x",
    "cwd=/srv/shop",
    "cwd=/srv/shop/",
    "cwd=/SRV/shop",
    "cwd=/",
    "cwd=shop",
    "by=claude",
    "session=7f3a90c1-52",
    "group=gpu",
    "status=failed",
    "status=completed codex",
    "unknown=1",
    "a=b",
    "=",
    "ÜBER",
    "nothing-fits",
]


def test_the_filter_finds_what_the_command_line_finds(page: Page, jobs: Jobs) -> None:
    store, shop = Store(str(jobs.home)), "/srv/shop"
    fine, failed = {"exit_code": 0}, {"exit_code": 1}
    past_job(store, "npm run build", 10, 1, fine, name="build", cwd=shop, by=CLAUDE)
    past_job(store, "npm run build:web", 11, 1, failed, name="build", cwd=f"{shop}/web", by=CODEX)
    past_job(store, "pytest -x", 12, 1, fine, name="unit", cwd=f"{shop}2", by=CODEX)
    past_job(store, "pytest --lf", 13, 1, failed, cwd="/", group="gpu")
    past_job(store, "A=B make unknown=1", 14, 1, fine, name="über", cwd="/home/Shop", by=PERSON)
    past_job(store, "true", 15, 1, fine, name="gpu")
    jobs.execute(WAITS, name="works", by=CLAUDE)
    expect(page.locator(".row")).to_have_count(7)
    known = [jobs.status(job.id).job for job in jobs.list(limit=100).jobs]
    ids = "() => [...document.querySelectorAll('.row')].map((row) => row.dataset.id)"
    for text in FILTERS:
        fits = job_filter(text.split())
        expected = {job.id for job in known if fits(job)}
        page.locator("#filter").fill(text)
        expect(page.locator(".counts")).to_have_text(f"{len(expected)} of 7 jobs")
        wait_until(lambda: set(page.evaluate(ids)) == expected, text)  # noqa: B023


def test_the_filter_is_in_the_address(page: Page, jobs: Jobs) -> None:
    for name in ("one", "two"):
        ended_job(Store(str(jobs.home)), name=name)
    page.locator("#filter").fill("name=two")
    expect(page.locator(".row")).to_have_count(1)
    page.reload()
    expect(page.locator(".row")).to_have_count(1)
    row(page, "two").locator(".name").click()
    expect_view(page, "job")
    page.go_back()
    expect_view(page, "list")
    expect(page.locator("#filter")).to_have_value("name=two")


# -- keys ---------------------------------------------------------------------------------------------


def test_keys_move_and_open(page: Page, jobs: Jobs) -> None:
    for name in ("three", "two", "one"):
        ended_job(Store(str(jobs.home)), name=name)
        expect(row(page, name)).to_be_visible()
    assert names(page) == ["one", "two", "three"]
    page.keyboard.press("g")
    expect_selected(page, "one")
    page.keyboard.press("j")
    expect_selected(page, "two")
    expect(row(page, "two").locator(".name")).to_be_focused()
    page.keyboard.press("G")
    expect_selected(page, "three")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect_selected(page, "two")
    page.keyboard.press("Enter")
    expect(page.locator(".head h2")).to_have_text("two")
    page.keyboard.press("Escape")
    expect_selected(page, "two")
    page.keyboard.press("l")
    expect_part(page, "log")
    page.go_back()
    expect_selected(page, "two")


def test_enter_on_a_link_follows_that_link(page: Page, jobs: Jobs) -> None:
    ended_job(Store(str(jobs.home)), name="past")
    expect(row(page, "past")).to_be_visible()
    page.get_by_role("link", name="Timeline").focus()
    page.keyboard.press("Enter")
    expect_view(page, "timeline")


def test_the_tab_key_reaches_the_controls_of_the_selected_row_alone(page: Page, jobs: Jobs) -> None:
    for name in ("two", "one"):
        ended_job(Store(str(jobs.home)), name=name)
        expect(row(page, name)).to_be_visible()
    page.keyboard.press("j")
    expect_selected(page, "two")
    page.keyboard.press("Tab")
    expect(row(page, "two").locator(".menu-button")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name="Ended")).to_be_focused()


def test_keys_show_help_other_views_and_the_form(page: Page) -> None:
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("n")
    expect(page.get_by_role("dialog", name="New job")).to_be_visible()
    page.keyboard.type("t")
    expect(page.get_by_label("Command")).to_have_value("t")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("t")
    expect_view(page, "timeline")
    page.keyboard.press("r")
    expect_view(page, "resources")
    page.keyboard.press("Escape")
    expect_view(page, "list")


def test_x_asks_with_the_name_of_the_job_before_it_kills(page: Page, jobs: Jobs) -> None:
    job = jobs.execute(WAITS, name="works")
    expect(row(page, "works")).to_be_visible()
    page.keyboard.press("x")
    dialog = page.get_by_role("dialog", name="Kill works?")
    expect(dialog).to_contain_text(WAITS)
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    assert isinstance(jobs.status(job.id).job.state, Running)
    page.keyboard.press("x")
    dialog.get_by_role("button", name="Kill").click()
    expect(row(page, "works").locator(".state")).to_have_text("killed")
    page.keyboard.press("x")
    expect(page.locator("#said")).to_have_text("This job has ended already.")


def test_a_attaches_to_the_terminal_or_to_a_line(page: Page, jobs: Jobs) -> None:
    jobs.execute(WAITS, name="screen", pty=True)
    expect(row(page, "screen")).to_be_visible()
    page.keyboard.press("a")
    expect_part(page, "terminal")
    jobs.execute("cat", name="pipe")
    page.goto(page.url.partition("?")[0])
    expect(row(page, "pipe")).to_be_visible()
    page.keyboard.press("g")
    expect_selected(page, "pipe")
    page.keyboard.press("a")
    expect_part(page, "log")
    expect(page.get_by_role("textbox", name="for pipe")).to_be_focused()


def test_a_job_is_paused_goes_on_and_is_run_again_from_its_menu(page: Page, jobs: Jobs) -> None:
    jobs.execute(WAITS, name="works")
    expect(row(page, "works")).to_be_visible()
    page.keyboard.press("m")
    expect(page.get_by_role("menuitem").first).to_be_focused()
    page.keyboard.press("Escape")
    choose(page, "works", "Pause")
    expect(row(page, "works").locator(".state")).to_have_text("paused")
    choose(page, "works", "Resume")
    expect(row(page, "works").locator(".state")).to_have_text("running")
    choose(page, "works", "Run again")
    expect_view(page, "job")
    page.get_by_role("link", name="Jobs").click()
    expect(row(page, "works")).to_have_count(2)


# -- who looks, and on what ---------------------------------------------------------------------------


def test_a_login_that_may_only_read_is_offered_nothing_else(
    tab_of_browser: BrowserContext, site: Site, jobs: Jobs
) -> None:
    jobs.execute(ASKS, name="asks", pty=True)
    page = tab_of_browser.new_page()
    page.goto(site.new_address(scopes=["read"]))
    expect(row(page, "asks")).to_contain_text("This login may not answer.")
    expect(page.get_by_role("button", name="New job")).to_have_count(0)
    page.keyboard.press("n")
    page.keyboard.press("x")
    expect(page.locator("#said")).to_have_text("This login may not kill jobs.")
    expect(page.get_by_role("dialog")).to_have_count(0)
    row(page, "asks").locator(".menu-button").click()
    assert page.get_by_role("menuitem").all_text_contents() == [
        "Logl",
        "Terminala",
        "Facts",
        "Download the output",
    ]


def test_a_browser_that_is_not_logged_in_is_told_how(tab_of_browser: BrowserContext, site: Site) -> None:
    page = tab_of_browser.new_page()
    page.goto(f"{site.origin}/")
    expect(page.locator(".note h2")).to_have_text("This browser is not logged in")
    expect(page.locator(".note")).to_contain_text("bgjob page")


def test_a_phone_shows_all_without_scrolling_sideways(page: Page, jobs: Jobs) -> None:
    long = "x" * 150
    past_job(Store(str(jobs.home)), long, 10, 5, {"exit_code": 2}, name=long, cwd=f"/{long}")
    jobs.execute(f"printf '{long}? [y/n]'; read a; # {long}", name="asks", pty=True)
    page.set_viewport_size({"width": 360, "height": 740})
    expect(row(page, "asks").locator(".likely")).to_have_count(2)
    for way in ("State", "Agent", "Project"):
        page.get_by_role("button", name=way).click()
        assert page.evaluate("() => document.documentElement.scrollWidth") == 360
        assert page.evaluate("() => document.querySelector('.scroll').scrollWidth") == 360
    expect(row(page, "asks").get_by_role("button", name="Send")).to_be_in_viewport()


def test_times_are_the_words_of_the_command_line(page: Page) -> None:
    seconds = [0, 0.44, 9.9, 9.96, 59.9, 60, 125, 3599, 3600, 12_000, 86_399, 86_400, 450_000]
    told = page.evaluate(
        """async (all) => { const { duration } = await import("/page/words.js"); return all.map(duration); }""",
        seconds,
    )
    assert told == [duration(each) for each in seconds]
