"""The list of the page with 10,000 jobs, in chromium without a window. `.venv-page/bin/python -m bench.page_list`

From the address to the first rows, from a key of the filter to what it draws, frames while it is scrolled, from the
start of a job to its row, and what it takes of memory. Needs what tests/page needs: scripts/test page makes that
environment.
"""

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, sync_playwright

from bench.lab import BenchError
from bench.report import Result, Row, Samples, exit_status, markdown, ours_at_most, p95_at_most
from bgjob.api import Jobs, open_jobs
from tests.page.past import Past
from tests.page.site import Site
from tests.support.homes import end_all_jobs

JOBS, RUNNING = 10_000, 20
SETTINGS = {"MCP_BG_MAX_JOBS": "100", "MCP_BG_KEEP_JOBS": "1000000"}
FRAME_MS, FIRST_MS, ALL_MS, START_MS, HEAP_MB = 34.0, 1000.0, 10_000.0, 200.0, 64.0
TYPED = "part12"
WHEELS, WHEEL_PX = 150, 2000
PATIENCE_MS = 60_000
# Before the page's own scripts: when there was a row, and when all were known.
WATCH_ROWS = """
const look = () => {
  window.firstRow ??= document.querySelector(".row") ? performance.now() : undefined;
  const counts = document.querySelector(".counts")?.textContent ?? "";
  if (counts && !counts.includes("reading")) window.allRows = performance.now();
  else requestAnimationFrame(look);
};
requestAnimationFrame(look);
"""
# What a letter has changed is painted when a message that was posted in its frame arrives.
WATCH_FILTER = """() => {
  window.painted = [];
  document.querySelector("#filter").addEventListener("input", ({ timeStamp }) => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => window.painted.push(performance.now() - timeStamp);
    port2.postMessage(null);
  }));
}"""
WATCH_FRAMES = """() => {
  window.drawn = [];
  let before = performance.now();
  const next = (now) => {
    window.drawn?.push(now - before);
    before = now;
    if (window.drawn) requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}"""
WATCH_NEW = """() => {
  window.seen = {};
  new MutationObserver(() => {
    for (const { textContent } of document.querySelectorAll(".row .name")) window.seen[textContent] ??= Date.now();
  }).observe(document.querySelector(".rows"), { childList: true, subtree: true, characterData: true });
}"""


def page_list(rounds: int, ended: int) -> Result:
    with tempfile.TemporaryDirectory(prefix="bgjob-bench-") as directory:
        home = Path(directory) / "home"
        _make_jobs(home, ended)
        try:
            return _measured(home, rounds, f"{ended:,} jobs")
        finally:
            end_all_jobs(home)


def _make_jobs(home: Path, ended: int) -> None:
    past, now = Past(home), time.time()
    for number in range(ended):
        way = "completed" if number % 7 else "failed"
        past.job(way, now - 10 * number - 20, name=f"job{number % 40}", command=f"pytest -x part{number}")


def _measured(home: Path, rounds: int, jobs_words: str) -> Result:
    rows = list[Row]()
    settings = {**os.environ, "BGJOB_HOME": str(home), **SETTINGS}
    with contextlib.closing(open_jobs(settings)) as jobs, _chromium() as context:
        for number in range(RUNNING):
            jobs.execute("exec sleep 1000", name=f"live{number}")
        first, every = list[float](), list[float]()
        for _ in range(max(1, rounds // 20)):
            with Site(home, **SETTINGS) as site:  # a server that has read nothing yet
                page = _opened(context, site)
                first.append(page.evaluate("() => window.firstRow"))
                every.append(page.evaluate("() => window.allRows"))
                page.close()
        rows.append(Row(f"{jobs_words}: first rows", "ms", first, [], "", ours_at_most(FIRST_MS, "ms")))
        rows.append(Row(f"{jobs_words}: all rows", "ms", every, [], "", ours_at_most(ALL_MS, "ms")))
        with Site(home, **SETTINGS) as site:
            page = _opened(context, site)
            for name, samples in (
                ("a letter of the filter to what it draws", _filtered(page, rounds)),
                ("a frame while it is scrolled", _scrolled(page)),
            ):
                rows.append(Row(name, "ms", samples, [], "", p95_at_most(FRAME_MS, "ms")))
            started = _started(page, jobs, rounds)
            rows.append(Row("start of a job to its row", "ms", started, [], "", p95_at_most(START_MS, "ms")))
            rows.append(Row("heap", "MB", [_heap_mb(page)], [], "", ours_at_most(HEAP_MB, "MB")))
            nodes = page.evaluate("() => document.querySelectorAll('*').length")
    return Result(rows, [f"{nodes} nodes in the page"])


@contextlib.contextmanager
def _chromium() -> Iterator[BrowserContext]:
    path = shutil.which("chromium")
    if path is None:
        raise BenchError("chromium is not on PATH. On Debian: apt-get install chromium")
    options = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.getuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        context = browser.new_context(viewport={"width": 1200, "height": 800})
        context.set_default_timeout(PATIENCE_MS)
        context.add_init_script(WATCH_ROWS)
        yield context
        browser.close()


def _opened(context: BrowserContext, site: Site) -> Page:
    page = context.new_page()
    page.goto(site.new_address())
    page.wait_for_function("() => window.firstRow && window.allRows")
    return page


def _filtered(page: Page, rounds: int) -> Samples:
    page.evaluate(WATCH_FILTER)
    field = page.locator("#filter")
    for number in range(rounds):
        if number % len(TYPED) == 0:
            field.fill("")
        field.press(TYPED[number % len(TYPED)])
    wanted = rounds + -(-rounds // len(TYPED)) - 1  # a field that is empty already is not cleared
    page.wait_for_function("(count) => window.painted.length >= count", arg=wanted)
    field.fill("")
    samples: Samples = page.evaluate("() => window.painted")
    return samples


def _scrolled(page: Page) -> Samples:
    page.locator(".scroll").hover()
    page.evaluate(WATCH_FRAMES)
    for _ in range(WHEELS):
        page.mouse.wheel(0, WHEEL_PX)
    samples: Samples = page.evaluate("() => { const { drawn } = window; window.drawn = null; return drawn; }")
    page.locator(".scroll").evaluate("(node) => { node.scrollTop = 0; }")
    return samples


def _started(page: Page, jobs: Jobs, rounds: int) -> Samples:
    page.evaluate(WATCH_NEW)
    samples = list[float]()
    for number in range(max(1, rounds // 4)):
        name, began = f"new{number}", time.time()
        jobs.execute("exec sleep 1", name=name)
        page.wait_for_function("(name) => window.seen[name]", arg=name)
        samples.append(page.evaluate("(name) => window.seen[name]", name) - 1000 * began)
    return samples


def _heap_mb(page: Page) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    return used / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.page_list", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds and jobs: a look, not a result")
    is_quick = parser.parse_args().quick
    try:
        result = page_list(12 if is_quick else 120, JOBS // 10 if is_quick else JOBS)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    print(markdown(result, []))
    return exit_status(result)


if __name__ == "__main__":
    sys.exit(main())
