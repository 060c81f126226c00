"""The form that starts a job: made from the schema of execute_command."""

from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from bgjob.api import Jobs, JobStatus
from bgjob.core.options import ALL_OPTIONS, TARGET
from bgjob.mcp.tools import TOOLS
from tests.page.shown import choose, expect_view, row
from tests.page.staged import CLAUDE
from tests.support.waiting import wait_until

# How long a caller waits and how much it is answered; another name for `options`; what ends with a task.
OF_CALLERS = {"wait_s", "until", "max_tokens", "limits", "kill_on_cancel"}


@pytest.fixture
def form(page: Page) -> Locator:
    page.keyboard.press("n")
    return page.get_by_role("dialog", name="New job")


def only_job(jobs: Jobs) -> JobStatus:
    found = jobs.list().jobs
    assert len(found) == 1
    return jobs.status(found[0].id)


def start(page: Page, form: Locator) -> None:
    form.get_by_role("button", name="Start").click()
    expect_view(page, "job")
    expect(form).to_have_count(0)


def test_a_command_is_started_and_its_job_shown(page: Page, jobs: Jobs, form: Locator) -> None:
    page.keyboard.type("echo 'x'; exit 3")
    page.keyboard.press("Control+Enter")
    expect_view(page, "job")
    job = only_job(jobs).job
    assert f"job={job.id}" in page.url
    assert job.spec.command == "echo 'x'; exit 3"
    expect(page.locator(".head .state")).to_have_text("failed")
    expect(page.locator(".brief")).to_contain_text("exit code 3")
    assert job.spec.by["client"] == "page"


def test_the_form_has_every_option(page: Page, form: Locator) -> None:
    """Without targets, none about them."""
    arguments = set(TOOLS.schemas["accepts"]["execute_command"]["properties"]) - {"options", "target"}
    wanted = arguments | (set(ALL_OPTIONS) - set(TARGET))
    form.get_by_text("More options").click()
    ids = form.locator("[id^=start-]:is(input, select, textarea, button)")
    found = {str(each.get_attribute("id")).removeprefix("start-") for each in ids.all()}
    assert found == wanted - OF_CALLERS
    for field in ids.all():
        expect(field).to_be_visible()
    # no option is among those that the form does not know by name
    assert "More" not in form.locator("legend").all_text_contents()


def test_options_of_each_kind_arrive_as_they_were_given(
    page: Page, jobs: Jobs, form: Locator, tmp_path: Path
) -> None:
    form.get_by_label("Command").fill("cat")
    form.get_by_label("Name", exact=True).fill("everything")
    form.get_by_label("Directory").fill(str(tmp_path))
    form.get_by_label("On a terminal").check()
    form.get_by_text("More options").click()
    form.get_by_label("Rows of the terminal").fill("30")
    form.get_by_label("Columns of the terminal").fill("90")
    form.get_by_label("Input", exact=True).select_option("open")
    for name, value in (("COLOUR", "green = blue"), ("EMPTY", "")):
        form.get_by_role("button", name="Add a variable").click()
        page.keyboard.type(name)
        form.get_by_label("Variables: value").last.fill(value)
    for pattern in ("^ready", "a, b"):
        form.get_by_role("group", name="Watch for lines").get_by_role("button", name="Add a line").click()
        page.keyboard.type(pattern)
    form.get_by_label("Time, in seconds", exact=True).fill("600.5")
    form.get_by_label("Memory").fill("512MB")
    form.get_by_label("Run again when it ends").select_option("on-failure")
    form.get_by_label("At most so often").fill("2")
    start(page, form)
    spec = only_job(jobs).job.spec
    assert (spec.name, spec.cwd, spec.pty, spec.rows, spec.cols) == (
        "everything",
        str(tmp_path),
        True,
        30,
        90,
    )
    assert (spec.timeout_s, spec.watch, spec.stdin) == (600.5, ["^ready", "a, b"], "open")
    assert spec.limits["memory_bytes"] == 512 << 20
    assert spec.restart == {"policy": "on-failure", "max": 2, "backoff_s": 1.0}


def test_variables_reach_the_job(page: Page, jobs: Jobs, form: Locator) -> None:
    form.get_by_label("Command").fill('test "$COLOUR" = "green = blue"')
    form.get_by_text("More options").click()
    form.get_by_role("button", name="Add a variable").click()
    page.keyboard.type("COLOUR")
    form.get_by_label("Variables: value").fill("green = blue")
    form.get_by_role("button", name="Add a variable").click()
    form.get_by_label("Remove this line of Variables").last.click()
    start(page, form)
    expect(page.locator(".head .state")).to_have_text("completed")


@pytest.mark.parametrize(
    ("label", "value", "told", "marked"),
    [
        ("Memory", "much", "memory='much' is not valid. Accepted: a size such as 512MB", "#start-memory"),
        ("Directory", "/no/such/directory", "/no/such/directory", "#start-cwd"),
        ("Command", "   ", "command", "#start-command"),
    ],
)
def test_what_the_server_refuses_is_told_beside_the_field(
    page: Page, jobs: Jobs, form: Locator, label: str, value: str, told: str, marked: str
) -> None:
    form.get_by_label("Command").fill("true")
    form.get_by_text("More options").click()
    form.get_by_label(label, exact=True).fill(value)
    form.get_by_text("More options").click()
    form.get_by_role("button", name="Start").click()
    expect(form.get_by_role("alert")).to_contain_text(told)
    expect(form.locator(marked)).to_have_attribute("aria-invalid", "true")
    expect(form.locator(marked)).to_be_focused()
    assert jobs.list().jobs == []
    form.get_by_label(label, exact=True).fill("true" if label == "Command" else "")
    start(page, form)


def test_the_last_directory_is_remembered(page: Page, jobs: Jobs, form: Locator, tmp_path: Path) -> None:
    form.get_by_label("Command").fill("true")
    form.get_by_label("Directory").fill(str(tmp_path))
    start(page, form)
    page.reload()
    page.get_by_role("button", name="New job").click()
    expect(form.get_by_label("Directory")).to_have_value(str(tmp_path))


def test_a_job_is_run_again_with_changes(page: Page, jobs: Jobs, tmp_path: Path) -> None:
    options = {"memory": "64MB", "restart": "on-failure", "max_restarts": 7}
    first = jobs.execute(
        "printf one\ntrue",
        name="one",
        cwd=str(tmp_path),
        options=options,
        watch=["x"],
        timeout_s=60,
        by=CLAUDE,
    )
    expect(row(page, "one").locator(".state")).to_have_text("completed")
    choose(page, "one", "Run again with changes …")
    form = page.get_by_role("dialog", name="Run one again")
    expect(form.get_by_label("Command")).to_have_value("printf one\ntrue")
    expect(form.get_by_label("At most so often")).to_have_value("7")
    form.get_by_label("Name", exact=True).fill("two")
    start(page, form)
    wait_until(lambda: len(jobs.list().jobs) == 2)
    second = next(job for job in jobs.list().jobs if job.id != first.id)
    same = ("command", "cwd", "limits", "restart", "watch", "timeout_s", "pty", "shell", "stdin")
    assert {name: getattr(second.spec, name) for name in same} == {
        name: getattr(first.spec, name) for name in same
    }
    assert second.spec.name == "two"


def test_a_form_that_is_left_starts_nothing(page: Page, jobs: Jobs, form: Locator) -> None:
    form.get_by_label("Command").fill("true")
    form.get_by_role("button", name="Cancel").click()
    expect(form).to_have_count(0)
    assert jobs.list().jobs == []
