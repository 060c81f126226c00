"""The log of a job in a real browser, with 100 MB of output: frames while it is scrolled, jumps, memory.

    .venv-page/bin/python -m bench.page_log

Needs what tests/page needs: scripts/test page makes that environment.
"""

import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.page.site import Site
from tests.support.homes import end_all_jobs

LINES = 1_500_000
PRINT = f"""
import sys
for number in range({LINES}):
    served = f"served in {{number % 97:3d}} ms from cache {{number * 7919 % 1000}}"
    line = f"{{number:07d}} \\033[32mINFO\\033[0m request {{served}}\\n"
    (sys.stderr if number % 50 == 0 else sys.stdout).write(line)
"""
WHEELS, JUMPS = 150, 100
REMEMBER_FRAMES = """() => { window.drawn = []; let last = performance.now();
    const tick = (now) => { window.drawn.push(now - last); last = now; if (window.drawn) requestAnimationFrame(tick); };
    requestAnimationFrame(tick); }"""
JUMP = """(share) => new Promise((done) => {
    const slider = document.querySelector(".place input"), first = () => document.querySelector(".logline");
    const began = performance.now(), before = first();
    slider.value = share;
    slider.dispatchEvent(new Event("input"));
    const look = () => (first() !== before ? done(performance.now() - began) : requestAnimationFrame(look));
    requestAnimationFrame(look); })"""


def figures(samples: Sequence[float], unit: str = "ms") -> str:
    ordered = sorted(samples)
    p95 = ordered[int(0.95 * (len(ordered) - 1))]
    return f"p50 {statistics.median(ordered):.1f}, p95 {p95:.1f}, worst {ordered[-1]:.1f} {unit}"


def log(browser: Browser, home: Path, tell: Callable[[str], None] = print) -> None:
    """Tells the figures, one a line."""
    try:
        with Site(home, MCP_BG_MAX_OUTPUT_SIZE="1GB") as site:
            _measure(browser, site, tell)
    finally:
        end_all_jobs(home)


def _measure(browser: Browser, site: Site, tell: Callable[[str], None]) -> None:
    program = site.home.parent / "print.py"
    program.write_text(PRINT)
    job_id = site.server.execute(f"python3 {program}")
    while site.server.call("get_job_status", job_id=job_id)["status"] == "running":
        time.sleep(0.1)
    page = browser.new_context(viewport={"width": 1200, "height": 800}).new_page()
    read: list[float] = []
    page.on(
        "requestfinished",
        lambda request: read.append(request.timing["responseEnd"]) if "/lines?" in request.url else None,
    )
    page.goto(site.new_address(f"/?job={job_id}&view=log"))
    page.wait_for_selector(".logline")
    tell(f"scrolled by {WHEELS} wheels, a frame: {figures(_scrolled(page))}")
    jumps = [page.evaluate(JUMP, random.randrange(1000)) for _ in range(JUMPS)]
    tell(f"a jump until its lines are drawn: {figures(jumps)}")
    tell(f"200 lines read, as the browser sees it: {figures(read)}")
    tell(
        f"a search that counts all: {figures([_searched(page, text) for text in ('cache 9', '12 ms', '0750000')])}"
    )
    nodes = page.evaluate("() => document.querySelectorAll('*').length")
    tell(f"after that: {_heap_bytes(page) / 1e6:.1f} MB of heap, {nodes} nodes")


def _scrolled(page: Page) -> list[float]:
    page.locator("[role=log]").hover()
    page.evaluate(REMEMBER_FRAMES)
    for _ in range(WHEELS):
        page.mouse.wheel(0, -900)
        page.wait_for_timeout(20)
    frames: list[float] = page.evaluate(
        "() => { const { drawn } = window; window.drawn = null; return drawn; }"
    )
    return frames


def _searched(page: Page, text: str) -> float:
    field = page.get_by_role("searchbox")
    field.fill("")
    page.wait_for_function("() => document.querySelector('.found').textContent === ''")
    began = time.perf_counter()
    field.fill(text)
    page.wait_for_function("() => / of /.test(document.querySelector('.found').textContent)")
    return 1000 * (time.perf_counter() - began)


def _heap_bytes(page: Page) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    return used


def main() -> None:
    options = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.getuid() == 0 else [])]
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=options)
        log(browser, Path(directory) / "home")
        browser.close()


if __name__ == "__main__":
    main()
