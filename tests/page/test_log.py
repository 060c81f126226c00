"""The log of a job in the page: live, searched, shared, of any size."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from bgjob.api import Jobs, Typed
from bgjob.output.text import plain_line
from tests.page.site import Site
from tests.support.escapes import ESCAPES
from tests.support.gate import Gate
from tests.support.waiting import wait_until

ECHOES = "exec cat"
MOST_LINES = 800
HUGE_LINE = "%08d INFO a request was served from the cache in 12 ms, as most of them are, by worker %08d\n"
HUGE_LINES = 1_100_000
HUGE_BYTES = HUGE_LINES * len(HUGE_LINE % (0, 0))
HUGE = f"""\
import sys
for start in range(0, {HUGE_LINES}, 10_000):
    sys.stdout.write("".join({HUGE_LINE!r} % (number, number) for number in range(start, start + 10_000)))
"""


def open_log(page: Page, site: Site, job_id: str, *, at: int | None = None) -> None:
    place = "" if at is None else f"&at={at}"
    page.goto(f"{site.origin}/?job={job_id}&view=log{place}")
    expect(page.locator(".view.job")).to_have_attribute("data-part", "log")


def say(jobs: Jobs, job_id: str, text: str) -> None:
    """To a job that prints what it reads."""
    jobs.interact(job_id, Typed(text), wait_s=0)


def texts(page: Page) -> list[str]:
    """Of the lines that the page holds, as a person would copy them."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll(".logline")].map((line) => [...line.childNodes]
            .filter((node) => !node.matches?.(".at, .stream")).map((node) => node.textContent).join(""))"""
    )
    return found


def line(page: Page, text: str) -> Locator:
    """The line that ends so."""
    return page.locator(".logline").filter(has_text=re.compile(f"{re.escape(text)}$"))


def box(page: Page) -> Locator:
    return page.locator("[role=log]")


def expect_following(page: Page, follows: bool) -> None:
    expect(box(page)).to_have_attribute("data-follows", "true" if follows else "false")


def scroll_up(page: Page) -> None:
    """By less than the window has."""
    expect_following(page, True)
    box(page).hover()
    page.mouse.wheel(0, -600)
    expect_following(page, False)


def in_sight(page: Page) -> list[str]:
    found: list[str] = page.evaluate(
        """() => { const { top, bottom } = document.querySelector("[role=log]").getBoundingClientRect();
            return [...document.querySelectorAll(".logline")].filter((line) => {
                const place = line.getBoundingClientRect(); return place.top >= top && place.bottom <= bottom; })
                .map((line) => line.lastChild.textContent); }"""
    )
    return found


def ended(jobs: Jobs, job_id: str) -> str:
    for _ in jobs.follow(job_id, wait=True):
        pass
    return job_id


def open_printed(page: Page, site: Site, jobs: Jobs, command: str, lines: list[str]) -> str:
    """The log of a job that has ended, with these lines."""
    job_id = ended(jobs, jobs.execute(command).id)
    open_log(page, site, job_id)
    wait_until(lambda: texts(page) == lines)
    return job_id


# -- live ---------------------------------------------------------------------------------------------


def test_it_shows_what_the_job_prints_as_it_comes(page: Page, site: Site, jobs: Jobs) -> None:
    job_id = jobs.execute(ECHOES).id
    open_log(page, site, job_id)
    expect(page.locator(".view.log .note")).to_have_text("Nothing was printed yet.")
    for word in ("one", "two"):
        say(jobs, job_id, word)
        expect(line(page, word)).to_be_visible()
    assert texts(page) == ["one", "two"]
    expect(page.locator(".view.log .note")).to_be_hidden()


def test_a_line_without_an_end_grows_where_it_is(page: Page, site: Site, jobs: Jobs, gate: Gate) -> None:
    """Also when the other stream has printed lines behind its beginning."""
    job_id = jobs.execute(f"printf 'Name: ' >&2; seq 3; {gate.pause}; echo Anna >&2; echo 4").id
    gate.wait_until_reached()
    open_log(page, site, job_id)
    expect(line(page, "Name: ")).to_be_visible()
    gate.open()
    expect(line(page, "4")).to_be_visible()
    expect(line(page, "Name: Anna")).to_be_visible()
    assert sorted(texts(page)) == ["1", "2", "3", "4", "Name: Anna"]


def test_it_stays_where_the_user_has_scrolled_to(page: Page, site: Site, jobs: Jobs) -> None:
    job_id = jobs.execute(f"seq 300; {ECHOES}").id
    open_log(page, site, job_id)
    expect(line(page, "300")).to_be_in_viewport()
    expect(page.get_by_role("button", name="Follow")).to_be_hidden()
    scroll_up(page)
    seen, size = in_sight(page), page.locator(".where").inner_text()
    assert "300" not in seen
    say(jobs, job_id, "x" * 2000)
    expect(page.locator(".where")).not_to_have_text(size)
    assert in_sight(page) == seen
    page.get_by_role("button", name="Follow").click()
    expect(line(page, "x" * 2000)).to_be_in_viewport()
    expect_following(page, True)


def test_the_key_end_brings_it_back_and_home_goes_to_the_beginning(
    page: Page, site: Site, jobs: Jobs
) -> None:
    job_id = jobs.execute(f"seq 3000; {ECHOES}").id
    open_log(page, site, job_id)
    expect(line(page, "3000")).to_be_in_viewport()
    page.keyboard.press("Home")
    expect(page.locator(".logline").first).to_be_in_viewport()
    assert in_sight(page)[:2] == ["1", "2"]
    expect_following(page, False)
    page.keyboard.press("End")
    expect(line(page, "3000")).to_be_in_viewport()
    say(jobs, job_id, "more")
    expect(line(page, "more")).to_be_in_viewport()


def test_what_lies_above_is_read_when_it_is_scrolled_to(page: Page, site: Site, jobs: Jobs) -> None:
    """Each line is there once, in its order, also beyond what the window holds."""
    job_id = ended(jobs, jobs.execute("seq 2000").id)
    open_log(page, site, job_id)
    expect(line(page, "2000")).to_be_in_viewport()
    box(page).hover()
    seen = set[int]()
    for _ in range(2000):
        numbers = list(map(int, texts(page)))
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert len(numbers) <= MOST_LINES
        seen.update(numbers)
        if in_sight(page)[:1] == ["1"]:
            break
        page.mouse.wheel(0, -1000)
    assert seen == set(range(1, 2001))


def test_it_follows_a_job_that_prints_faster_than_can_be_read(
    page: Page, site: Site, jobs: Jobs, gate: Gate
) -> None:
    job_id = jobs.execute(f"{gate.pause}; seq 300000").id
    gate.wait_until_reached()
    open_log(page, site, job_id)
    expect(page.locator(".view.log .note")).to_be_visible()
    gate.open()
    expect(line(page, "300000")).to_be_in_viewport()
    numbers = list(map(int, texts(page)))
    assert numbers == list(range(numbers[0], 300_001))
    assert len(numbers) <= MOST_LINES
    expect_following(page, True)


def test_stderr_is_marked_by_a_word(page: Page, site: Site, jobs: Jobs) -> None:
    open_log(page, site, ended(jobs, jobs.execute("echo fine; echo broken >&2").id))
    expect(line(page, "broken").locator(".stream")).to_have_text("err")
    expect(line(page, "fine").locator(".stream")).to_have_count(0)


def test_dropped_output_is_told_in_words(page: Page, site: Site, jobs: Jobs) -> None:
    job_id = ended(jobs, jobs.execute("seq 100000", options={"output": 20_000}).id)
    open_log(page, site, job_id)
    expect(line(page, "100000")).to_be_in_viewport()
    page.keyboard.press("Home")
    expect(line(page, "1").first).to_be_in_viewport()
    for _ in range(200):
        if page.locator(".gap").count():
            break
        page.keyboard.press("PageDown")
    expect(page.locator(".gap")).to_have_text(re.compile(r"^[\d,]+ bytes of stdout dropped here: "))


def test_a_job_that_printed_nothing_says_so(page: Page, site: Site, jobs: Jobs) -> None:
    open_log(page, site, ended(jobs, jobs.execute("true").id))
    expect(page.locator(".view.log .note")).to_have_text("It printed nothing.")


def test_a_job_that_is_queued_says_so(page: Page, site: Site, jobs: Jobs, gate: Gate) -> None:
    first = jobs.execute(gate.pause).id
    gate.wait_until_reached()
    open_log(page, site, jobs.execute("echo started", after=[first]).id)
    expect(page.locator(".view.log .note")).to_have_text("It is queued: it prints nothing before it starts.")
    gate.open()
    expect(line(page, "started")).to_be_visible()


def test_a_server_that_was_killed_and_started_again_loses_no_line(page: Page, site: Site, jobs: Jobs) -> None:
    job_id = jobs.execute(ECHOES).id
    open_log(page, site, job_id)
    say(jobs, job_id, "before")
    expect(line(page, "before")).to_be_visible()
    site.kill()
    expect(page.locator("body")).to_have_attribute("data-connection", "lost")
    for number in range(100):
        say(jobs, job_id, f"meanwhile {number}")
    site.start_again()
    expect(line(page, "meanwhile 99")).to_be_visible()
    say(jobs, job_id, "after")
    expect(line(page, "after")).to_be_visible()
    assert texts(page) == ["before", *(f"meanwhile {number}" for number in range(100)), "after"]


# -- drawing ------------------------------------------------------------------------------------------


def style(node: Locator, name: str) -> str:
    found: str = node.evaluate(f"(node) => getComputedStyle(node).getPropertyValue({name!r})")
    return found


def test_colours_and_styles_are_drawn(page: Page, site: Site, jobs: Jobs) -> None:
    styles = {"1;3;4": "strong", "38;2;200;0;0": "red", "48;5;21": "blue", "7": "inverse", "31": "first"}
    text = " ".join(rf"\033[{style}m{word}\033[0m" for style, word in styles.items())
    open_printed(page, site, jobs, f"printf '{text}\\n'", ["strong red blue inverse first"])
    part = {
        word: page.locator(".logline span", has_text=word)
        for word in ("strong", "red", "blue", "inverse", "first")
    }
    assert style(part["strong"], "font-weight") == "700"
    assert style(part["strong"], "font-style") == "italic"
    assert "underline" in style(part["strong"], "text-decoration")
    red = part["red"].evaluate("(node) => getComputedStyle(node).color")
    assert red not in (style(box(page), "color"), "rgb(0, 0, 0)")
    assert style(part["blue"], "background-color") == "rgb(0, 0, 255)"
    assert style(part["inverse"], "background-color") == style(page.locator("body"), "color")
    assert style(part["first"], "color") != style(box(page), "color")


def test_nothing_else_of_an_escape_sequence_acts_and_what_is_hidden_is_seen(
    page: Page, site: Site, jobs: Jobs
) -> None:
    lines = {
        r"10%%\r 50%%\r100%%": "100%",
        r"abc\b\bX": "aXc",
        r"whole\033[2K\rnew": "new",
        r"\033]0;title\007a \033]8;;https://evil.example\033\\link\033]8;;\033\\ b": "a link b",
        r"\033[2J\033[H\033[?1049hscreen": "screen",
        r"one\342\200\256two": "one\ufffdtwo",
        r"<b>bold</b><img src=x onerror=alert(1)>": "<b>bold</b><img src=x onerror=alert(1)>",
        r"\033[8mconcealed\033[0m": "concealed",
    }
    command = "; ".join(f"printf '{printed}\\n'" for printed in lines)
    open_printed(page, site, jobs, command, list(lines.values()))
    assert page.locator(".logline img, .logline b, .logline a:not(.at)").count() == 0
    assert page.title() != "title"


def test_a_line_is_shown_as_the_other_faces_show_it(page: Page) -> None:
    """Whatever is in it. Only places on a screen are told otherwise: here a line stays one."""
    printed = {name: b"before " + data + b" after" for name, data in ESCAPES.items()}
    shown: dict[str, str] = page.evaluate(
        """async (lines) => { const { styled } = await import("/page/ansi.js");
            const text = (line) => styled(line).map((part) => part.text).join("");
            return Object.fromEntries(Object.entries(lines).map(([name, line]) => [name, text(line)])); }""",
        {name: data.decode("utf-8", "replace") for name, data in printed.items()},
    )
    told = {name: plain_line(data).replace("\n", "").rstrip() for name, data in printed.items()}
    assert {name: text.rstrip() for name, text in shown.items()} == told


def test_a_long_line_says_how_long_it_is(page: Page, site: Site, jobs: Jobs) -> None:
    open_log(page, site, ended(jobs, jobs.execute("head -c 300000 /dev/zero | tr '\\0' x").id))
    expect(page.locator(".logline .cut")).to_have_text("… of a line of 293 KB")
    assert len(texts(page)[0]) < 5000


def test_lines_are_wrapped_if_the_user_wants(page: Page, site: Site, jobs: Jobs) -> None:
    job_id = open_printed(page, site, jobs, "head -c 4000 /dev/zero | tr '\\0' x", ["x" * 4000])
    is_wide = "(box) => box.scrollWidth > box.clientWidth"
    assert box(page).evaluate(is_wide)
    page.get_by_label("Wrap").check()
    assert not box(page).evaluate(is_wide)
    open_log(page, site, job_id)
    expect(page.get_by_label("Wrap")).to_be_checked()


# -- searching ----------------------------------------------------------------------------------------


@pytest.fixture
def numbers(page: Page, site: Site, jobs: Jobs) -> Page:
    """The log of a job that has printed 1 to 5000."""
    open_log(page, site, ended(jobs, jobs.execute("seq 5000").id))
    expect(line(page, "5000")).to_be_in_viewport()
    return page


def search(page: Page, text: str) -> None:
    page.keyboard.press("/")
    field = page.get_by_role("searchbox", name="Search this log")
    expect(field).to_be_focused()
    field.fill(text)


def found(page: Page) -> Locator:
    return page.locator(".found")


def test_matches_are_counted_marked_and_gone_through(numbers: Page) -> None:
    search(numbers, "77")
    expect(found(numbers)).to_have_text("95 of 95")
    current = numbers.locator(".logline.current")
    expect(current.locator("mark")).to_have_text("77")
    expect(current).to_be_in_viewport()
    numbers.get_by_role("button", name="Previous match").click()
    expect(found(numbers)).to_have_text("94 of 95")
    expect(current).to_contain_text("4877")
    box(numbers).focus()
    numbers.keyboard.press("n")
    expect(found(numbers)).to_have_text("95 of 95")
    numbers.keyboard.press("n")
    expect(found(numbers)).to_have_text("1 of 95")
    expect(current).to_contain_text(re.compile("77$"))
    expect(current).to_be_in_viewport()
    numbers.keyboard.press("N")
    expect(found(numbers)).to_have_text("95 of 95")


def test_a_pattern_is_text_or_a_regular_expression(numbers: Page) -> None:
    search(numbers, "^1.3$")
    expect(found(numbers)).to_have_text("No line matches")
    numbers.get_by_role("button", name="Regular expression").click()
    expect(found(numbers)).to_have_text("10 of 10")
    search(numbers, "[")
    expect(found(numbers)).to_contain_text("missing ]")
    search(numbers, "(")
    expect(found(numbers)).to_contain_text("missing )")
    expect(numbers.get_by_role("searchbox")).to_have_attribute("aria-invalid", "true")
    numbers.keyboard.press("Escape")
    expect(found(numbers)).to_be_empty()
    expect(numbers.locator("mark")).to_have_count(0)


def test_case_matters_if_the_user_wants(page: Page, site: Site, jobs: Jobs) -> None:
    open_printed(page, site, jobs, "echo Error; echo error; echo ERROR", ["Error", "error", "ERROR"])
    search(page, "Error")
    expect(found(page)).to_have_text("3 of 3")
    page.get_by_role("button", name="Match case").click()
    expect(found(page)).to_have_text("1 of 1")
    expect(page.locator("mark")).to_have_text(["Error"])


def test_what_is_printed_later_is_counted_too(page: Page, site: Site, jobs: Jobs) -> None:
    job_id = jobs.execute(ECHOES).id
    open_log(page, site, job_id)
    say(jobs, job_id, "needle 1")
    expect(line(page, "needle 1")).to_be_visible()
    search(page, "needle")
    expect(found(page)).to_have_text("1 of 1")
    say(jobs, job_id, "needle 2")
    expect(found(page)).to_have_text("1 of 2")


def painted_rows(page: Page) -> list[float]:
    """Where the minimap shows matches: shares of its height."""
    shares: list[float] = page.evaluate(
        """() => { const map = document.querySelector(".minimap"), { height } = map;
            const { data } = map.getContext("2d").getImageData(2, 0, 1, height);
            const isColoured = (row) => { const [red, green, blue, alpha] = data.slice(4 * row, 4 * row + 4);
                return alpha > 100 && Math.max(red, green, blue) - Math.min(red, green, blue) > 30; };
            return Array.from({ length: height }, (_, row) => row).filter(isColoured).map((row) => row / height); }"""
    )
    return shares


def test_the_minimap_shows_where_lines_match_and_leads_there(numbers: Page) -> None:
    search(numbers, "249")
    expect(found(numbers)).to_have_text("15 of 15")
    wait_until(lambda: any(0.4 < row < 0.6 for row in painted_rows(numbers)))
    assert [row for row in painted_rows(numbers) if 0.65 < row < 0.8] == []
    size = numbers.locator(".minimap").bounding_box()
    assert size
    numbers.mouse.click(size["x"] + 5, size["y"] + size["height"] * 0.5)
    expect(line(numbers, "2606").first).to_be_attached()
    assert any(2400 < int(text) < 2800 for text in in_sight(numbers))


# -- addresses and files ------------------------------------------------------------------------------


def test_a_line_has_an_address(numbers: Page, site: Site) -> None:
    numbers.keyboard.press("Home")
    expect(line(numbers, "20").first).to_be_in_viewport()
    numbers.locator(".logline").nth(19).locator(".at").click()
    numbers.wait_for_url(re.compile(r"[?&]at=48(&|$)"))
    expect(numbers.locator(".logline.chosen")).to_have_text(re.compile("20$"))
    numbers.keyboard.press("End")
    expect(line(numbers, "5000")).to_be_in_viewport()
    numbers.reload()
    expect(numbers.locator(".logline.chosen")).to_have_text(re.compile("20$"))
    expect(numbers.locator(".logline.chosen")).to_be_in_viewport()
    expect_following(numbers, False)


def test_an_address_in_the_middle_of_a_line_shows_that_line(page: Page, site: Site, jobs: Jobs) -> None:
    job_id = ended(jobs, jobs.execute("echo first; echo second; echo third").id)
    open_log(page, site, job_id, at=9)
    expect(page.locator(".logline.chosen")).to_have_text(re.compile("second$"))


def test_the_output_can_be_downloaded(page: Page, site: Site, jobs: Jobs, tmp_path: Path) -> None:
    job_id = ended(jobs, jobs.execute("seq 3; echo no >&2", name="count").id)
    open_log(page, site, job_id)
    for name, content in {"stdout": "1\n2\n3\n", "stderr": "no\n"}.items():
        with page.expect_download() as download:
            page.get_by_role("link", name=name).click()
        download.value.save_as(tmp_path / name)
        assert download.value.suggested_filename == f"count-{job_id[:8]}.{name}.log"
        assert (tmp_path / name).read_text() == content


def test_a_line_is_typed_below_the_log(page: Page, site: Site, jobs: Jobs, gate: Gate) -> None:
    """Into a job that works, and reads it later; and then the end of its input."""
    job_id = jobs.execute(f"{gate.pause}; cat; echo over").id
    gate.wait_until_reached()
    open_log(page, site, job_id)
    field = page.get_by_role("textbox", name="A line to type")
    field.fill("hello <b>")
    field.press("Enter")
    expect(field).to_have_value("")
    page.get_by_role("button", name="End the input").click()
    expect(page.get_by_text("is closed.")).to_be_visible()
    gate.open()
    expect(line(page, "over")).to_be_visible()
    assert texts(page) == ["hello <b>", "over"]


# -- 100 MB -------------------------------------------------------------------------------------------


@pytest.fixture
def huge(home: Path, tmp_path: Path) -> Iterator[Site]:
    with Site(home, MCP_BG_MAX_OUTPUT_SIZE="1GB") as site:
        yield site


def test_a_log_of_100_megabytes_is_a_window(
    tab_of_browser: BrowserContext, huge: Site, tmp_path: Path
) -> None:
    """However far the user goes in it: nodes, memory and what is fetched stay small."""
    (tmp_path / "huge.py").write_text(HUGE)
    job_id = huge.server.execute(f"python3 {tmp_path}/huge.py")
    huge.server.call("wait_for_job", job_ids=[job_id])
    page, fetched = tab_of_browser.new_page(), list[int]()
    page.on(
        "response",
        lambda response: (
            fetched.append(int(response.headers.get("content-length", 0)))
            if "/lines?" in response.url
            else None
        ),
    )
    page.goto(huge.new_address(f"/?job={job_id}&view=log"))
    expect(line(page, f"worker {HUGE_LINES - 1:08}")).to_be_in_viewport()
    assert HUGE_BYTES > 100_000_000
    box(page).hover()
    for _ in range(40):
        page.mouse.wheel(0, -3000)
    slider = page.get_by_role("slider", name="Place in the log")
    for share in range(0, 1000, 50):
        slider.fill(str(share))
        wait_until(lambda share=share: shown_share(page) == share)  # type: ignore[misc]  # of this turn
    expect(page.locator(".logline").first).to_be_attached()
    search(page, "worker 00500000")
    expect(found(page)).to_have_text("1 of 1")
    expect(page.locator(".logline.current")).to_be_in_viewport()
    assert page.locator(".logline").count() <= MOST_LINES
    assert page.evaluate("() => document.querySelectorAll('*').length") < 8 * MOST_LINES
    assert sum(fetched) < 20_000_000
    assert heap_bytes(tab_of_browser, page) < 50_000_000


def shown_share(page: Page) -> int:
    """Where what is in sight lies in the log, in thousandths; -1: nothing is."""
    first = page.evaluate("() => Number(document.querySelector('.logline')?.dataset.at ?? -1)")
    return round(1000 * first / HUGE_BYTES) if first >= 0 else -1


def heap_bytes(context: BrowserContext, page: Page) -> float:
    session = context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    return used
