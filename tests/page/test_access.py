"""The way in: what an address with a key leaves behind, and what pages of others can do in a browser that is in."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from bgjob.api import Jobs
from bgjob.core.job import Running
from tests.page.conftest import PATIENCE_MS
from tests.page.foreign import EVIL, ForeignServer, journal_in, noted
from tests.page.site import Site
from tests.support.waiting import wait_until

OWN_PATH = "() => localStorage.getItem('bgjob-path')"
HURRIED = "from bgjob.web import replies; replies.KEEP_ALIVE_S = 0.2"

# Everything that a page can send to another server. It even knows the path of the login, which it cannot know.
ATTACK = """<!doctype html><meta charset=utf-8><title>attack</title><body><script>
const [to, own, job] = %s, body = JSON.stringify({jobs: [job]}), tries = {};
const loaded = (node, more) => new Promise((yes, no) => {
  Object.assign(node, {onload: () => yes("loaded"), onerror: () => no(new Error("refused")), ...more});
  document.body.append(node);
});
const make = (name) => document.createElement(name);
const posted = (more) => fetch(to + own + "kill", {method: "POST", credentials: "include", body, ...more});
tries["fetch"] = posted({mode: "no-cors"}).then((answer) => answer.type);
const headers = {"x-bgjob": "1", "content-type": "application/json"};
tries["fetch with our header"] = posted({headers}).then((answer) => answer.status);
const read = (more) => fetch(to + own + "store", {credentials: "include", ...more});
tries["fetch to read"] = read({}).then((answer) => answer.status);
tries["fetch to read, opaque"] = read({mode: "no-cors"}).then((answer) => answer.type);
tries["beacon"] = Promise.resolve(navigator.sendBeacon(to + own + "kill?beacon", body));
tries["beacon of JSON"] = Promise.resolve(
  navigator.sendBeacon(to + own + "kill?json", new Blob([body], {type: "application/json"})));
tries["image"] = loaded(make("img"), {src: to + own + "store?image"});
tries["script of data"] = loaded(make("script"), {src: to + own + "store?script"});
tries["script of the page"] = loaded(make("script"), {src: to + "/page/words.js"});
tries["style of the page"] = loaded(make("link"), {rel: "stylesheet", href: to + "/page/style.css"});
tries["events"] = new Promise((yes, no) => {
  const source = new EventSource(to + own + "stream", {withCredentials: true});
  source.onopen = yes;
  source.onerror = () => { source.close(); no(new Error("refused")); };
});
tries["websocket"] = new Promise((yes, no) => {
  const socket = new WebSocket(to.replace("http", "ws") + own + "socket");
  socket.onopen = yes;
  socket.onerror = () => no(new Error("refused"));
});
const form = (mark) => `<form method=post enctype=text/plain action="${to}${own}${mark}">` +
  `<input name='{"jobs":["${job}"],"x":"' value='"}'></form><script>document.forms[0].submit()<\\/script>`;
for (const [mark, sandbox] of [["kill", null], ["remove", "allow-scripts allow-forms"]]) {
  const frame = make("iframe");
  if (sandbox) frame.sandbox = sandbox;
  frame.srcdoc = form(mark);
  document.body.append(frame);
}
tries["frame of the page"] = loaded(make("iframe"), {src: to + "/", id: "framed"});
tries["frame of data"] = loaded(make("iframe"), {src: to + own + "store?frame"});
window.said = (async () => Object.fromEntries(await Promise.all(Object.entries(tries).map(
  ([name, promise]) => promise.then((value) => [name, String(value)], (problem) => [name, "refused"])))))();
</script>
<a href="%s">a link to what the job printed</a>"""
HARMLESS = {
    "beacon": "true",
    "beacon of JSON": "true",
    "frame of the page": "loaded",  # an error of the browser's own
    "frame of data": "loaded",
}


SENT = Counter(
    {
        ("POST", "kill"): 3,  # fetch, beacon, form
        ("OPTIONS", "kill"): 2,  # fetch with our header, beacon of JSON
        ("POST", "remove"): 1,  # the form in a sandbox
        ("GET", "store"): 5,
        ("GET", "stream"): 1,
        ("GET", "socket"): 1,
    }
)


def count(journal: Path, own: str) -> Counter[tuple[str, str]]:
    return Counter((row.method, row.path.removeprefix(own)) for row in noted(journal))


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def watched(home: Path, journal: Path) -> Iterator[Site]:
    """A site that writes down who asks what."""
    with Site(home, first=journal_in(journal)) as site:
        yield site


def opened(context: BrowserContext, site: Site, address: str | None = None) -> Page:
    page = context.new_page()
    page.goto(address or site.new_address())
    page.wait_for_selector("body[data-view=list]")
    return page


def frames_of(page: Page) -> list[str]:
    return [frame.url for frame in page.frames if frame.parent_frame]


class TestPagesOfOthers:
    @pytest.mark.parametrize("host", [EVIL, "127.0.0.1"])
    def test_whatever_they_send_is_refused(
        self, tab_of_browser: BrowserContext, watched: Site, journal: Path, jobs: Jobs, host: str
    ) -> None:
        """Also those of another port of this machine, with which a browser sends the same cookies."""
        job_id = jobs.execute("sleep 1000").id
        own = opened(tab_of_browser, watched).evaluate(OWN_PATH)
        download = f"{watched.origin}{own}download?job={job_id}"
        with ForeignServer(ATTACK % (json.dumps([watched.origin, own, job_id]), download)) as foreign:
            attack = tab_of_browser.new_page()
            attack.goto(foreign.address(host))
            said = attack.evaluate("() => window.said")
            assert {name: word for name, word in said.items() if word != "refused"} == HARMLESS
            wait_until(lambda: count(journal, own) >= SENT, then=lambda: str(count(journal, own)))
            assert watched.origin not in " ".join(frames_of(attack))
            attack.click("a")
            wait_until(lambda: Counter({("GET", "download"): 1}) <= count(journal, own))
        others = {row.path: row.status for row in noted(journal) if not row.path.startswith(own)}
        assert set(others) == {"/", "/page/words.js", "/page/style.css"}
        of_api = [row for row in noted(journal) if row.path.startswith(own)]
        assert {row.status for row in of_api} == {403}
        # to the browser, another port is the same site: the cookie would have let it in
        assert any(row.has_cookie for row in of_api) == (host != EVIL)
        assert isinstance(jobs.status(job_id).job.state, Running)

    def test_one_that_is_led_here_by_its_own_name_is_refused(
        self, tab_of_browser: BrowserContext, site: Site
    ) -> None:
        """DNS rebinding."""
        answer = tab_of_browser.new_page().goto(f"http://{EVIL}:{site.port}/")
        assert answer is not None
        assert answer.status == 421

    def test_a_server_of_another_port_is_not_sent_the_login(
        self, tab_of_browser: BrowserContext, site: Site
    ) -> None:
        """Though a cookie knows no port: it is for a path that only pages of our port know."""
        own = opened(tab_of_browser, site).evaluate(OWN_PATH)
        with ForeignServer() as foreign:
            page = tab_of_browser.new_page()
            for path in ("/", "/api/", "/api/store", "/api/login"):
                page.goto(foreign.address("127.0.0.1", path))
            assert page.evaluate("() => localStorage.length") == 0
            assert foreign.cookies
            assert set(foreign.cookies) == {None}
            page.goto(foreign.address("127.0.0.1", own))
            assert [each for each in foreign.cookies if each]  # it would be, if the path were known


class TestTheAddress:
    def test_its_key_is_gone_from_the_address_bar_and_the_history(
        self, tab_of_browser: BrowserContext, site: Site
    ) -> None:
        page = opened(tab_of_browser, site)
        assert page.url == f"{site.origin}/"
        protocol = tab_of_browser.new_cdp_session(page)
        entries = protocol.send("Page.getNavigationHistory")["entries"]
        assert [entry["url"] for entry in entries] == ["about:blank", f"{site.origin}/"]

    def test_it_comes_to_the_browser_by_a_file(
        self, tab_of_browser: BrowserContext, site: Site, tmp_path: Path
    ) -> None:
        """As `bgjob page` hands it over: the browser gets only the file, which is gone afterwards."""
        noted = tmp_path / "noted"
        script = tmp_path / "browser"
        script.write_text(f'#!/bin/sh\necho "$1" > {noted}\n')
        script.chmod(0o755)
        person = {"BROWSER": str(script), "HOME": str(tmp_path)}
        assert site.server.command("page", **person).returncode == 0
        (file,) = tmp_path.glob("bgjob-page-*.html")
        page = opened(tab_of_browser, site, noted.read_text().strip())
        assert page.url == f"{site.origin}/"
        assert not file.exists()
        entries = tab_of_browser.new_cdp_session(page).send("Page.getNavigationHistory")["entries"]
        assert "key=" not in " ".join(entry["url"] for entry in entries)

    def test_the_login_is_out_of_reach_of_scripts(self, page: Page) -> None:
        (cookie,) = page.context.cookies()
        assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("bgjob", True, "Strict")
        assert page.evaluate("() => document.cookie") == ""
        assert cookie["value"] not in page.evaluate(
            "() => JSON.stringify({...localStorage, ...sessionStorage})"
        )

    def test_it_works_as_a_link_in_a_page_of_another_site(
        self, tab_of_browser: BrowserContext, site: Site
    ) -> None:
        """As in a mail that is read in the browser."""
        with ForeignServer(f'<a href="{site.new_address()}">open</a>') as foreign:
            page = tab_of_browser.new_page()
            page.goto(foreign.address(EVIL))
            page.click("a")
            page.wait_for_selector("body[data-view=list]")
            assert page.url == f"{site.origin}/"

    def test_a_used_one_opens_the_page_where_it_was_used_and_in_no_other_browser(
        self, tab_of_browser: BrowserContext, browser: Browser, site: Site
    ) -> None:
        address = site.new_address()
        for _ in range(2):
            opened(tab_of_browser, site, address)
        other = browser.new_context()
        try:
            page = other.new_page()
            page.goto(address)
            page.wait_for_selector("body[data-view=out]", timeout=PATIENCE_MS)
            assert other.cookies() == []
        finally:
            other.close()

    def test_the_browser_stays_logged_in(self, tab_of_browser: BrowserContext, site: Site) -> None:
        """Also when the server is killed and started again."""
        page = opened(tab_of_browser, site)
        site.kill()
        site.start_again()
        page.goto(f"{site.origin}/?view=timeline")
        page.wait_for_selector("body[data-view=timeline]")


class TestLoggingOut:
    def test_all_browsers_are_out_when_they_are_forgotten(
        self, tab_of_browser: BrowserContext, home: Path
    ) -> None:
        with Site(home, first=HURRIED) as site:
            page = opened(tab_of_browser, site)
            page.wait_for_selector("body[data-connection=open]")
            assert site.server.command("page", "--forget").stdout == "1 browser logged out\n"
            page.wait_for_selector("body[data-view=out]")
            assert "bgjob page" in page.inner_text("main")
