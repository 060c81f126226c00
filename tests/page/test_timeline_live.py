"""The timeline of jobs that run, in a real browser: bars that grow, and marks of what happens."""

import re

from playwright.sync_api import Page, expect

from tests.page.drawn import CANVAS, COUNTS, HAPPENED, jobs_in_sight, wait_for, wait_for_timeline
from tests.page.site import Site
from tests.support.gate import Gate
from tests.support.limiting import BURN


def test_without_jobs_it_says_so(page: Page, site: Site) -> None:
    page.goto(f"{site.origin}/?view=timeline")
    wait_for_timeline(page)
    expect(page.locator(".timeline-empty")).to_have_text("No job yet. A job that is started appears here.")


def test_a_running_job_grows_and_ends_before_the_eyes(page: Page, site: Site, gate: Gate) -> None:
    job_id = site.server.execute(f"{gate.pause}; exit 3", name="grower")
    gate.wait_until_reached()
    page.goto(f"{site.origin}/?view=timeline&last=600")
    wait_for_timeline(page)
    find = f'const job = document.querySelector("{CANVAS}").drawn.find((each) => each.row.id === given.id);'
    wait_for(page, f"{find} return job?.way === 'running'", {"id": job_id})
    width = jobs_in_sight(page)[job_id]["to"] - jobs_in_sight(page)[job_id]["from"]
    wait_for(page, f"{find} return job.bar[1] - job.bar[0] > given.width + 2", {"id": job_id, "width": width})
    expect(page.locator(COUNTS)).to_have_text(re.compile("^1 job: 1 running; longest: grower, "))
    gate.open()
    wait_for(page, f"{find} return job?.way === 'failed'", {"id": job_id})
    expect(page.locator(f'{HAPPENED}[data-job="{job_id}"][data-kind=failed]')).to_contain_text(
        "failed with exit code 3 after"
    )


def test_questions_matches_limits_restarts_and_typing_are_marked(
    page: Page, site: Site, no_watcher_left: None
) -> None:
    server = site.server
    asking = server.execute("read -p 'Go on? [y/N] ' x; exec sleep 1000", name="asker", pty=True)
    watched = server.execute("echo it is ready; exec sleep 1000", name="printer", watch=["ready"])
    limited = server.execute(BURN, name="burner", limits={"cpu_s": 1})
    again = server.execute("exit 4", name="again", restart="on-failure", max_restarts=1, backoff_s=0.1)
    page.goto(f"{site.origin}/?view=timeline&last=600&lanes=each")
    wait_for_timeline(page)
    marked = {asking: "input", watched: "matched", limited: "limit_hit", again: "restarting"}
    for job_id, kind in marked.items():
        expect(page.locator(f'{HAPPENED}[data-job="{job_id}"][data-kind={kind}]')).to_have_count(1)
    assert server.command("send", asking, "y").returncode == 0
    expect(page.locator(f'{HAPPENED}[data-job="{asking}"][data-kind=typed]')).to_have_count(1)
    expect(page.locator(COUNTS)).to_contain_text("1 question, 1 match")
    expect(page.locator(f'{HAPPENED}[data-job="{asking}"][data-kind=input]')).to_contain_text("Go on? [y/N]")
    for job_id, kind in marked.items():
        wait_for(
            page,
            f"""const jobs = document.querySelector("{CANVAS}").drawn;
            return jobs.find((each) => each.row.id === given[0]).marks.some((each) => each.mark.kind === given[1])""",
            [job_id, kind],
        )


def test_it_goes_on_after_the_server_was_killed(page: Page, site: Site) -> None:
    """With the jobs that were started meanwhile, and with what happened to them."""
    page.goto(f"{site.origin}/?view=timeline&last=600&lanes=each")
    wait_for_timeline(page)
    site.kill()
    site.start_again()
    job_id = site.server.command("run", "--pty", "--name", "later", "read -p 'Go on? ' x").stdout.strip()
    assert job_id
    wait_for(
        page,
        f"""const job = document.querySelector("{CANVAS}").drawn.find((each) => each.row.id === given);
        return job?.marks.some((each) => each.mark.kind === "input")""",
        job_id,
    )
    expect(page.locator(COUNTS)).to_contain_text("1 job: 1 waiting for you; 1 question;")
