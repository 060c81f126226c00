"""Markup, links and escape sequences as output, name, command, prompt and directory: nothing of it runs or leaves."""

import contextlib
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode

import pytest
from playwright.sync_api import BrowserContext, Dialog, Page, Request, expect

from bgjob.api import Jobs, open_jobs
from tests.page.site import Site
from tests.page.xterm import XTerm
from tests.support.escapes import ESCAPES, as_text
from tests.support.gate import Gate
from tests.support.homes import end_all_jobs
from tests.support.stores import job_with

EVIL = "http://evil.test"
# Each would set window.pwned, or ask another server, if it were anything but text.
MARKS = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    f"<img src={EVIL}/image>",
    "<svg onload=window.pwned=1>",
    "<details open ontoggle=window.pwned=1>",
    "<input autofocus onfocus=window.pwned=1>",
    "</code></div></main><script>window.pwned=1</script>",
    "<!--><script>window.pwned=1</script>-->",
    "<iframe srcdoc='<script>parent.pwned=1</script>'></iframe>",
    f"<object data={EVIL}/object></object>",
    f"<link rel=stylesheet href={EVIL}/style.css>",
    f"<style>@import '{EVIL}/import.css'; body {{display: none}}</style>",
    f"<base href={EVIL}/>",
    f"<meta http-equiv=refresh content='0;url={EVIL}/refresh'>",
    f"<form action={EVIL}/form><button autofocus>",
    "<a href=javascript:window.pwned=1>link</a>",
    "javascript:window.pwned=1",
    'x" onmouseover="window.pwned=1" autofocus onfocus="window.pwned=1',
    "x' style='background: url(http://evil.test/url)'",
    "{{constructor.constructor('window.pwned=1')()}}",
    "${window.pwned=1}",
    "&lt;script&gt;window.pwned=1&lt;/script&gt;",
    "__proto__",
    "constructor",
    f"{EVIL}/printed",
)
# Those that an address may be made to show, or to look up.
REFLECTED = (MARKS[0], MARKS[1], *(mark for mark in MARKS if mark.startswith(("x", "java", "__", "con"))))
LINKS = {
    "JSLINK": "javascript:window.pwned=1",
    "DATALINK": "data:text/html,<script>window.pwned=1</script>",
    "FILELINK": "file:///etc/passwd",
    "BLOBLINK": "blob:null/x",
}
# Runs before the page's own scripts.
SPIES = """
window.spied = [];
for (const name of ["writeText", "write", "readText", "read"]) {
  navigator.clipboard[name] = () => { window.spied.push(`clipboard ${name}`); return Promise.reject(new Error("no")); };
}
window.open = (address) => { window.spied.push(`open ${address}`); return null; };
window.Notification = class { constructor(text) { window.spied.push(`notification ${text}`); } };
"""


class Observed(contextlib.AbstractContextManager["Observed"]):
    """A browser that is logged in, and in which nothing may happen but what the page itself does."""

    def __init__(self, context: BrowserContext, site: Site) -> None:
        self.site, self.happened = site, list[str]()
        context.add_init_script(SPIES)
        self.page = context.new_page()
        context.on("request", self._note_request)
        context.on("page", lambda page: self.happened.append(f"a window: {page.url}"))
        self.page.on("dialog", self._note_dialog)
        self.page.on("pageerror", lambda error: self.happened.append(f"an error: {error}"))
        self.page.goto(site.new_address())
        self.page.wait_for_selector("body[data-view=list]")

    def __exit__(self, *_: object) -> None:
        self.page.close()

    def _note_request(self, request: Request) -> None:
        if not request.url.startswith(f"{self.site.origin}/"):
            self.happened.append(f"a request: {request.url}")

    def _note_dialog(self, dialog: Dialog) -> None:
        self.happened.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, **query: str) -> Page:
        self.page.goto(f"{self.site.origin}/?{urlencode(query, quote_via=quote)}")
        return self.page

    def check(self) -> None:
        """What was refused, and what ran, is known once a frame has been drawn and its tasks are done."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        assert self.page.evaluate("() => [window.violations, window.spied, window.pwned]") == [[], [], None]
        assert (
            self.page.locator("main").locator("script, iframe, object, form[action], base, link").count() == 0
        )
        assert self.page.title().endswith("bgjob")
        assert self.happened == []


@pytest.fixture
def observed(tab_of_browser: BrowserContext, hostile: "Hostile") -> Iterator[Observed]:
    with Observed(tab_of_browser, hostile.site) as observed:
        observed.page.set_viewport_size({"width": 1400, "height": 9000})  # all rows, and all lines, are drawn
        yield observed
        observed.check()


class Hostile(NamedTuple):
    site: Site
    jobs: Jobs
    ended: list[str]
    """Each has a mark as name, command, directory, and client that has started it."""
    printed: str
    """Has printed all marks and escape sequences, on stdout and stderr."""
    asking: list[str]
    """Each has a mark as prompt."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    root = tmp_path_factory.mktemp("hostile")
    home, corpus = root / "home", root / "corpus"
    corpus.write_bytes(all_printed())
    environment = {**os.environ, "BGJOB_HOME": str(home), "MCP_BG_MAX_JOBS": "100"}
    with contextlib.closing(open_jobs(environment)) as jobs, Site(home, MCP_BG_MAX_JOBS="100") as site:
        printing = jobs.execute(f"cat {corpus}; cat {corpus} >&2", name=MARKS[0])
        for _ in jobs.follow(printing.id, wait=True):
            pass
        asking = [asks(jobs, root, mark) for mark in MARKS if len(mark) < 60]
        for escape in ESCAPES.values():
            with_mark(home, as_text(escape))
        yield Hostile(site, jobs, [with_mark(home, mark) for mark in MARKS], printing.id, asking)
    end_all_jobs(home)


def all_printed() -> bytes:
    """What an escape sequence would do to those behind it is ended: a string, and modes."""
    end = b"\x1b\\\x1b[0m\x0f"
    return (
        b"".join(line + end + b"\n" for line in (*map(str.encode, MARKS), *ESCAPES.values())) + b"THE END\n"
    )


def asks(jobs: Jobs, root: Path, mark: str) -> str:
    directory = root / mark.replace("/", "_")
    directory.mkdir()
    command = f"printf %s {shlex.quote(f'{mark}? ')}; read answer"
    return jobs.execute(command, name=f"asks {mark}", cwd=str(directory), pty=True).id


def with_mark(home: Path, mark: str) -> str:
    by = {"client": mark, "session": mark, "user": mark}
    return job_with(home, name=mark, command=f": {mark}", cwd=f"/{mark}", by=by, group=mark)


def expect_marks(page: Page, place: str = "main", marks: tuple[str, ...] = MARKS) -> None:
    """As text, and as they are."""
    for mark in marks:
        expect(page.locator(place)).to_contain_text(mark)


@pytest.mark.parametrize("by", ["state", "agent", "project"])
def test_the_list(observed: Observed, by: str) -> None:
    page = observed.open(by=by)
    expect_marks(page)
    expect(page.locator(".row").filter(has_text="asks __proto__")).to_contain_text("__proto__?")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.get_by_role("dialog")).to_contain_text(
        "asks "
    )  # whether the job that is named so is to be killed
    page.keyboard.press("Escape")


def test_the_facts_of_a_job(observed: Observed, hostile: Hostile) -> None:
    for mark, job_id in zip(MARKS, hostile.ended, strict=True):
        expect_marks(observed.open(job=job_id, view="facts"), marks=(mark,))
        observed.check()


def test_the_log(observed: Observed, hostile: Hostile) -> None:
    page = observed.open(job=hostile.printed, view="log", at="0")
    expect_marks(page, "[role=log]")
    page.keyboard.press("End")
    expect(page.locator("[role=log]")).to_contain_text("THE END")
    page.get_by_role("searchbox").fill(MARKS[1])
    page.get_by_role("searchbox").press("Enter")
    expect(page.locator("[role=log] mark").first).to_be_visible()


def test_the_timeline(observed: Observed) -> None:
    page = observed.open(view="timeline")
    expect_marks(page, ".happened")
    page.get_by_role("application").focus()
    for _ in range(3):
        page.keyboard.press("ArrowDown")  # names each job


def test_the_resources(observed: Observed) -> None:
    expect_marks(observed.open(view="resources"), marks=("asks __proto__", f"asks {MARKS[1]}"))


def test_the_address(observed: Observed, hostile: Hostile) -> None:
    observed.page.set_viewport_size({"width": 1000, "height": 700})
    for mark in REFLECTED:
        for view, query in (
            ("job", {"job": mark}),
            ("list", {"view": mark}),
            ("list", {"filter": mark, "by": mark}),
            ("timeline", {"view": "timeline", "filter": mark, "from": mark, "to": mark, "lanes": mark}),
            ("job", {"job": hostile.printed, "view": mark, "at": mark, "type": mark}),
        ):
            expect(observed.open(**query).locator("body")).to_have_attribute("data-view", view)
            observed.check()


class TestATerminal:
    def test_what_is_printed(self, observed: Observed, hostile: Hostile, gate: Gate, tmp_path: Path) -> None:
        """Live, as the page sees it come; at its end the terminal is reset, and the marks stay."""
        corpus = tmp_path / "corpus"
        corpus.write_bytes(
            all_printed() + b"\x1bc" + b"".join(f"{mark}\n".encode() for mark in MARKS) + b"THE END"
        )
        job = hostile.jobs.execute(f"stty -echo; {gate.pause}; cat {corpus}; exec sleep 1000", pty=True)
        terminal = XTerm(observed.page)
        terminal.open(hostile.site.origin, job.id)
        gate.wait_until_reached()
        gate.open()
        terminal.wait_for("THE END")
        assert [mark for mark in MARKS if mark not in terminal.text] == []

    def test_links(self, observed: Observed, hostile: Hostile, gate: Gate) -> None:
        """None is followed; an address of the web is asked about first."""
        links = {**LINKS, "WEBLINK": f"{EVIL}/link"}
        printed = "".join(f"\x1b]8;;{address}\x1b\\{word}\x1b]8;;\x1b\\\n" for word, address in links.items())
        command = f"stty -echo; {gate.pause}; printf %s {shlex.quote(printed)}; exec sleep 1000"
        job = hostile.jobs.execute(command, pty=True)
        observed.page.set_viewport_size({"width": 1000, "height": 700})
        terminal = XTerm(observed.page)
        terminal.open(hostile.site.origin, job.id)
        gate.wait_until_reached()
        gate.open()
        terminal.wait_for("WEBLINK")
        for row in range(len(LINKS)):
            terminal.click(2, row)
            observed.check()
            expect(observed.page.get_by_role("dialog")).not_to_be_visible()
        terminal.click_link(2, len(LINKS))
        expect(observed.page.get_by_role("dialog")).to_contain_text(f"{EVIL}/link")
        observed.page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
