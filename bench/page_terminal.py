"""The terminal in the browser: from a key to its echo, and a flood. `.venv-page/bin/python -m bench.page_terminal`

Beside nothing else: no other terminal in a browser shows jobs of bgjob. The browser is chromium without a window.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from bench.lab import BenchError
from bench.report import Result, Row, exit_status, markdown, ours_at_most, p95_at_most
from bgjob.api import open_jobs
from tests.page.site import Site
from tests.page.xterm import XTerm
from tests.support.homes import end_all_jobs

# Two frames at 60 a second: what comes sooner is felt as one with the key.
ECHO_MS, SLOW_ECHO_MS = 17.0, 50.0
FLOOD_BYTES = 150_000_000
HEAP_MB = 64.0
VIM = "vim -u NONE -i NONE -n -c 'syntax on' -c 'set nomore'"
PROGRAMS = {"cat": ("echo ready; exec cat", "ready"), "vim": (f"{VIM} -c start", "~")}
# A key is pressed, then its echo is parsed, then xterm.js has drawn it and the browser has painted the frame.
WATCH_KEYS = """() => {
  const waits = [];
  window.parsed = []; window.painted = [];
  window.term.textarea.addEventListener("keydown", ({ timeStamp }) => waits.push(timeStamp), true);
  window.term.onWriteParsed(() => {
    if (waits.length > window.parsed.length) window.parsed.push(performance.now() - waits[window.parsed.length]);
  });
  window.term.onRender(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      while (window.painted.length < window.parsed.length) {
        window.painted.push(performance.now() - waits[window.painted.length]);
      }
    };
    port2.postMessage(null);
  });
}"""
WATCH_FRAMES = """() => {
  window.frames_ms = [];
  let before = performance.now();
  const next = (now) => { window.frames_ms.push(now - before); before = now; requestAnimationFrame(next); };
  requestAnimationFrame(next);
}"""


def terminal(rounds: int) -> Result:
    result = Result()
    with _browser() as (site, new_page):
        for name, (command, ready) in PROGRAMS.items():
            parsed, painted = _echoes(XTerm(new_page()), site, command, ready, rounds)
            result.rows.append(
                Row(f"key to echo parsed, {name}", "ms", parsed, [], "", ours_at_most(ECHO_MS, "ms"))
            )
            result.rows.append(
                Row(f"key to echo painted, {name}", "ms", painted, [], "", p95_at_most(SLOW_ECHO_MS, "ms"))
            )
        frames, heap_mb, ended_ms = _flood(XTerm(new_page()), site)
    result.rows.append(
        Row("frame in a flood of 150 MB", "ms", frames, [], "", p95_at_most(SLOW_ECHO_MS, "ms"))
    )
    result.rows.append(Row("most heap in a flood", "MB", [heap_mb], [], "", ours_at_most(HEAP_MB, "MB")))
    result.rows.append(
        Row("ctrl-c to the end of a flood", "ms", [ended_ms], [], "", ours_at_most(1000, "ms"))
    )
    return result


@contextmanager
def _browser() -> Iterator[tuple[Site, Callable[[], Page]]]:
    path = shutil.which("chromium")
    if path is None:
        raise BenchError("chromium is not on PATH. On Debian: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="bgjob-bench-") as directory, sync_playwright() as playwright:
        home = Path(directory) / "home"
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        try:
            with Site(home) as site:
                context = browser.new_context(viewport={"width": 1000, "height": 700})
                context.new_page().goto(site.new_address())
                yield site, context.new_page
        finally:
            browser.close()
            end_all_jobs(home)


def _echoes(
    terminal: XTerm, site: Site, command: str, ready: str, rounds: int
) -> tuple[list[float], list[float]]:
    terminal.open(site.origin, site.server.execute(command, pty=True, env={"TERM": "xterm-256color"}))
    terminal.wait_for(ready)
    terminal.press("x")
    terminal.wait_for_state("holds")
    terminal.wait_for("x")
    terminal.page.evaluate(WATCH_KEYS)
    for pressed in range(1, rounds + 1):
        terminal.page.keyboard.press("x")
        terminal.page.wait_for_function("(count) => window.painted.length >= count", arg=pressed)
    parsed, painted = terminal.page.evaluate("() => [window.parsed, window.painted]")
    terminal.page.close()
    return parsed, painted


def _flood(terminal: XTerm, site: Site) -> tuple[list[float], float, float]:
    """Frames, the largest heap in MB, and from ctrl-c until the page tells the end, in ms."""
    jobs = open_jobs({"BGJOB_HOME": str(site.home)})
    try:
        job_id = site.server.execute("yes 'all work and no play makes Jack a dull boy'", pty=True)
        terminal.open(site.origin, job_id)
        terminal.wait_for("all work")
        terminal.page.evaluate(WATCH_FRAMES)
        session, heap_bytes = terminal.page.context.new_cdp_session(terminal.page), 0.0
        while jobs.status(job_id).output_bytes < FLOOD_BYTES:
            heap_bytes = max(heap_bytes, session.send("Runtime.getHeapUsage")["usedSize"])
        began = time.perf_counter()
        terminal.press("Control+c")
        terminal.wait_for_state("over")
        return (
            terminal.page.evaluate("() => window.frames_ms"),
            heap_bytes / 1e6,
            1000 * (time.perf_counter() - began),
        )
    finally:
        jobs.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.page_terminal", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds: a look, not a result")
    try:
        result = terminal(20 if parser.parse_args().quick else 200)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(markdown(result, []))
    return exit_status(result)


if __name__ == "__main__":
    sys.exit(main())
