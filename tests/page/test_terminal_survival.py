"""A terminal in the browser goes on: after kill -9 of the shim or the server, in a flood; also a slow one."""

import os
import re
import shlex
import signal
import sys
from pathlib import Path

from playwright.sync_api import Page, TimeoutError

from bgjob.api import Jobs
from tests.page.site import Site
from tests.page.xterm import XTerm
from tests.support.process_table import wait_until_gone
from tests.support.shims import shim_pid
from tests.support.waiting import wait_until

FLOOD_BYTES = 50_000_000
MOST_HEAP_BYTES = 64_000_000
ECHO_MS = 2000
# While window.isSlow, xterm.js gets nothing to draw.
SLOW = """
import("/page/vendor/xterm.mjs").then(({ Terminal }) => {
  const write = Terminal.prototype.write, held = [];
  Terminal.prototype.write = function (data, done) {
    if (window.isSlow) held.push([data, done]);
    else write.call(this, data, done);
  };
  window.hurry = () => {
    window.isSlow = false;
    for (const [data, done] of held.splice(0)) write.call(window.term, data, done);
  };
}, () => {});
"""
# Not so fast that the server sends a new screen in place of it.
STEADY = """
import os, subprocess, sys, time
input("ready")
while not os.path.exists(sys.argv[1]):
    print(f"{'steady':>60}\\n" * 1000)
    time.sleep(0.03)
print("the end", flush=True)
subprocess.run("cat")
"""


def told_lines(terminal: XTerm) -> list[int]:
    return [int(number) for number in re.findall(r"^line (\d+)$", terminal.text, re.MULTILINE)]


def test_nothing_is_missing_or_twice_after_kill_9_of_the_server(
    terminal: XTerm, site: Site, tmp_path: Path
) -> None:
    fifo = tmp_path / "lines"
    os.mkfifo(fifo)
    job_id = site.server.execute(f"cat {fifo}; cat", pty=True)
    terminal.open(site.origin, job_id)
    with fifo.open("w", buffering=1) as lines:

        def print_until(end: int, start: int) -> None:
            for number in range(start, end):
                lines.write(f"line {number}\n")

        print_until(100, 0)
        terminal.wait_for("line 99\n")
        terminal.button("Take over").click()
        terminal.wait_for_state("holds")
        site.kill()
        terminal.wait_for_state("lost")
        terminal.wait_for_who("The connection is lost")
        terminal.type("not typed")
        print_until(200, 100)
        site.start_again()
        terminal.wait_for("line 199\n")
        print_until(300, 200)
    terminal.wait_for("line 299\n")
    terminal.wait_for_state("holds")
    terminal.type("typed\n")
    terminal.wait_for("typed\ntyped\n")
    assert told_lines(terminal) == list(range(300))
    assert "not typed" not in terminal.text


def test_typing_goes_on_after_kill_9_of_the_shim(terminal: XTerm, site: Site, jobs: Jobs) -> None:
    """What was typed at that moment may be lost; nothing is typed twice."""
    job_id = site.server.execute("stty -echo; echo ready; cat", pty=True)
    terminal.open(site.origin, job_id)
    terminal.wait_for("ready")
    terminal.type("line 0\n")
    terminal.wait_for("line 0\n")
    killed = shim_pid(jobs, job_id)
    os.kill(killed, signal.SIGKILL)
    last = type_until_one_arrives(terminal)
    wait_until_gone(killed)
    assert shim_pid(jobs, job_id) != killed
    terminal.wait_for_who("You hold this job")
    terminal.type(f"line {last + 1}\n")
    terminal.wait_for(f"line {last + 1}\n")
    seen = told_lines(terminal)
    assert seen == sorted(set(seen))


def type_until_one_arrives(terminal: XTerm) -> int:
    for number in range(1, 30):
        terminal.type(f"line {number}\n")
        try:
            terminal.page.wait_for_function(
                "(text) => JSON.stringify(Array.from({ length: window.term.buffer.active.length }, (_, y) =>"
                " window.term.buffer.active.getLine(y).translateToString(true))).includes(text)",
                arg=f"line {number}",
                timeout=ECHO_MS,
            )
        except TimeoutError:
            continue
        return number
    raise AssertionError("nothing arrives any more")


def test_a_flood_is_ended_by_ctrl_c(terminal: XTerm, site: Site, jobs: Jobs) -> None:
    """While it goes on, the page keeps little of it."""
    job_id = site.server.execute("yes 'all work and no play'", pty=True)
    terminal.open(site.origin, job_id)
    terminal.wait_for("all work")
    heaps: list[int] = []

    def is_enough() -> bool:
        heaps.append(heap_bytes(terminal.page))
        return jobs.status(job_id).output_bytes > FLOOD_BYTES

    wait_until(is_enough, "the flood", lambda: str(jobs.status(job_id)), within_s=100)
    terminal.press("Control+c")
    terminal.wait_for_state("over")
    terminal.wait_for_who("SIGINT")
    terminal.wait_for("^C")
    assert max(heaps) < MOST_HEAP_BYTES


def heap_bytes(page: Page) -> int:
    session = page.context.new_cdp_session(page)
    found = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return int(found)


def test_a_terminal_can_be_left_and_entered_in_a_flood(terminal: XTerm, site: Site) -> None:
    """The page has no error at its end: its fixture looks."""
    terminal.open(site.origin, site.server.execute("yes 'all work and no play'", pty=True))
    parts = terminal.page.get_by_role("navigation", name="Parts of this job")
    for _ in range(5):
        terminal.wait_for("all work")
        parts.get_by_role("link", name="Log").click()
        terminal.page.wait_for_selector(".job[data-part=log]")
        parts.get_by_role("link", name="Terminal").click()
        terminal.page.wait_for_selector(".job[data-part=terminal]")
        terminal.wait_for_state("looks")
    terminal.press("Control+c")
    terminal.wait_for_state("over")


def test_a_page_that_draws_too_slowly_begins_anew(terminal: XTerm, site: Site, tmp_path: Path) -> None:
    """What it could not draw is dropped; in the end it shows the job's screen, and still holds the job."""
    terminal.page.add_init_script(SLOW)
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(STEADY)} {tmp_path}/stop"
    terminal.open(site.origin, site.server.execute(command, pty=True))
    terminal.wait_for("ready")
    terminal.page.evaluate("() => { window.isSlow = true; }")
    with terminal.page.expect_request(re.compile("/stream")):
        terminal.press("Enter")
    (tmp_path / "stop").touch()
    terminal.page.evaluate("() => window.hurry()")
    terminal.wait_for("the end")
    terminal.wait_for_state("holds")
    terminal.type("typed\n")
    terminal.wait_for("typed\ntyped\n")
