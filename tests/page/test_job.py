"""The view of one job: how it stands, what can be done with it, its parts."""

import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from bgjob.api import Jobs
from bgjob.store.store import Store
from tests.page.shown import expect_part, expect_view, row
from tests.page.site import Site
from tests.page.staged import CLAUDE
from tests.support.gate import Gate
from tests.support.stores import ended_job
from tests.support.waiting import wait_until

WAITS = "exec sleep 1000"


def look_at(page: Page, site: Site, job: str, view: str = "") -> None:
    page.goto(f"{site.origin}/?job={job}{view and f'&view={view}'}")


def test_the_head_tells_how_the_job_stands_and_keeps_up(
    page: Page, site: Site, jobs: Jobs, gate: Gate, tmp_path: Path
) -> None:
    job = jobs.execute(f"{gate.pause}; exit 4", name="build", cwd=str(tmp_path), by=CLAUDE)
    look_at(page, site, job.id)
    head = page.locator(".head")
    expect(head.locator("h2")).to_have_text("build")
    expect(head.locator(".state")).to_have_text("running")
    expect(head.locator(".whole-command")).to_contain_text("exit 4")
    for words in ("by claude-code 7f3a90c1", str(tmp_path), "since "):
        expect(head.locator(".brief")).to_contain_text(words)
    expect(head.locator(".took")).to_have_text(re.compile(r"[1-9]\d*s"))
    assert page.title() == "build · bgjob"
    gate.wait_until_reached()
    gate.open()
    expect(head.locator(".state")).to_have_text("failed")
    expect(head.locator(".brief")).to_contain_text("exit code 4")
    expect(head.get_by_role("button", name="Kill")).to_have_count(0)
    expect(head.get_by_role("button", name="Run again")).to_be_visible()


def test_a_long_command_is_folded_and_whole(page: Page, site: Site, jobs: Jobs) -> None:
    command = "\n".join(["# a line"] * 100) + "\necho last"
    job = jobs.execute(command, name="long")
    look_at(page, site, job.id)
    whole = page.locator(".whole-command pre")
    expect(whole).to_be_hidden()
    page.locator(".whole-command summary").click()
    expect(whole).to_have_text(command)


def test_parts_have_addresses(page: Page, site: Site, jobs: Jobs) -> None:
    job = jobs.execute(WAITS, name="screen", pty=True)
    look_at(page, site, job.id)
    expect_part(page, "terminal")
    page.get_by_role("link", name="Facts").click()
    expect_part(page, "facts")
    assert page.url.endswith(f"/?job={job.id}&view=facts")
    page.reload()
    expect_part(page, "facts")
    page.get_by_role("link", name="Log").click()
    expect_part(page, "log")
    page.go_back()
    expect_part(page, "facts")
    expect(page.get_by_role("link", name="Facts")).to_have_attribute("aria-current", "page")


def test_a_job_without_a_terminal_has_its_log(page: Page, site: Site, jobs: Jobs) -> None:
    job = jobs.execute(WAITS, name="pipe")
    look_at(page, site, job.id, "terminal")
    expect_part(page, "log")
    expect(page.get_by_role("link", name="Terminal")).to_have_count(0)


def test_facts_stay_current(page: Page, site: Site, jobs: Jobs, gate: Gate) -> None:
    options = {"memory": "64MB"}
    job = jobs.execute(f"{gate.pause}; exit 4", name="build", options=options, timeout_s=90)
    look_at(page, site, job.id, "facts")

    def fact(name: str) -> Locator:
        return page.locator(f"[data-name={name}] dd")

    expect(fact("job_id")).to_have_text(job.id)
    expect(fact("status")).to_have_text("running")
    expect(fact("timeout_s")).to_have_text("1m30s")
    expect(fact("limits")).to_contain_text("memory: 64 MB")
    expect(page.locator(".tree")).to_contain_text("bash -c")
    gate.wait_until_reached()
    gate.open()
    expect(fact("status")).to_have_text("failed")
    expect(fact("exit_code")).to_have_text("4")
    expect(page.locator(".tree")).to_have_count(0)


def test_a_question_is_answered_below_the_log(page: Page, site: Site, jobs: Jobs) -> None:
    job = jobs.execute("printf 'Go on? [y/N] '; read answer; echo got $answer", name="asks", pty=True)
    look_at(page, site, job.id, "log")
    expect(page.locator(".typing .prompt")).to_have_text("Go on? [y/N] ")
    assert page.title() == "(1) asks · bgjob"
    page.locator(".typing .likely").first.click()
    expect(page.locator(".head .state")).to_have_text("completed")
    expect(page.locator(".typing .answer")).to_have_count(0)
    assert "got y" in jobs.output(job.id).stdout


def test_a_line_is_typed_into_a_job_that_does_not_read_yet(
    page: Page, site: Site, jobs: Jobs, gate: Gate
) -> None:
    job = jobs.execute(f'{gate.pause}; read -r line; echo "<$line>"', name="pipe")
    gate.wait_until_reached()
    look_at(page, site, job.id)
    line = page.get_by_role("textbox", name="A line to type for pipe")
    line.fill("early")
    line.press("Enter")
    expect(page.locator("#said")).to_have_text("Sent to pipe.")
    gate.open()
    expect(page.locator(".head .state")).to_have_text("completed")
    assert jobs.output(job.id).stdout == "<early>\n"


def test_lines_are_typed_and_the_input_is_ended(page: Page, site: Site, jobs: Jobs) -> None:
    job = jobs.execute('while read -r line; do echo "<$line>"; done; echo over', name="pipe")
    look_at(page, site, job.id)
    line = page.get_by_role("textbox", name="for pipe")
    for text in ("one", "two  words"):
        line.fill(text)
        line.press("Enter")
        expect(line).to_have_value("")
        expect(line).to_be_focused()
    page.get_by_role("button", name="End the input").click()
    expect(page.locator(".head .state")).to_have_text("completed")
    expect(line).to_have_count(0)
    assert jobs.output(job.id).stdout == "<one>\n<two  words>\nover\n"


def test_a_job_is_paused_signalled_and_killed(page: Page, site: Site, jobs: Jobs, gate: Gate) -> None:
    trap = "trap 'echo hup' HUP"
    job = jobs.execute(f"{trap}; {gate.reach}; while :; do sleep 0.01; done", name="works")
    gate.wait_until_reached()
    look_at(page, site, job.id)
    actions = page.locator(".head .actions")
    actions.get_by_role("button", name="Pause").click()
    expect(page.locator(".head .state")).to_have_text("paused")
    actions.get_by_role("button", name="Resume").click()
    expect(page.locator(".head .state")).to_have_text("running")
    actions.get_by_role("button", name="Signal").click()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menuitem", name="SIGHUP")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#said")).to_have_text("SIGHUP was sent to works.")
    wait_until(lambda: jobs.output(job.id).stdout == "hup\n")
    actions.get_by_role("button", name="Kill").click()
    page.get_by_role("dialog", name="Kill works?").get_by_role("button", name="Kill").click()
    expect(page.locator(".head .state")).to_have_text("killed")


def test_a_job_is_run_again(page: Page, site: Site, jobs: Jobs) -> None:
    first = jobs.execute("true", name="build")
    look_at(page, site, first.id)
    page.get_by_role("button", name="Run again").click()
    page.get_by_role("link", name="runs an earlier job again").click()
    expect(page).to_have_url(re.compile(first.id))
    assert len(jobs.list().jobs) == 2


def test_a_job_that_is_removed_meanwhile_is_told(page: Page, site: Site, jobs: Jobs) -> None:
    job = ended_job(Store(str(jobs.home)), name="past")
    look_at(page, site, job)
    page.locator(".actions").get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Remove …").click()
    page.get_by_role("dialog", name="Remove past?").get_by_role("button", name="Remove").click()
    expect(page.locator(".note h2")).to_have_text("This job was removed")
    page.get_by_role("link", name="All jobs").click()
    expect_view(page, "list")


def test_a_job_that_never_was_is_told(page: Page, site: Site) -> None:
    look_at(page, site, "00000000-0000-4000-8000-000000000000")
    expect(page.locator(".note h2")).to_have_text("There is no such job")


def test_the_output_is_downloaded(page: Page, site: Site, jobs: Jobs, tmp_path: Path) -> None:
    job = jobs.execute("printf 'one\\ntwo'", name="print")
    look_at(page, site, job.id)
    expect(page.locator(".head .state")).to_have_text("completed")
    with page.expect_download() as started:
        page.get_by_role("link", name="Download").click()
    started.value.save_as(tmp_path / "output")
    assert (tmp_path / "output").read_bytes() == b"one\ntwo"


def test_the_list_is_where_it_was_left(page: Page, jobs: Jobs) -> None:
    for number in range(60):
        ended_job(Store(str(jobs.home)), name=f"job{number}")
    expect(page.locator(".counts")).to_have_text("60 ended")
    page.keyboard.press("G")
    last = page.locator(".row.selected .name").inner_text()
    page.keyboard.press("Enter")
    expect(page.locator(".head h2")).to_have_text(last)
    page.keyboard.press("Escape")
    expect(page.locator(".row.selected .name")).to_have_text(last)
    expect(row(page, last)).to_be_in_viewport()
