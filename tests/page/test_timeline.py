"""The timeline, in a real browser: a lane for each job, what happened in a span, drawn and in words."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Page, expect

from tests.page.drawn import (
    CANVAS,
    COUNTS,
    HAPPENED,
    HEAD,
    LANES,
    colour_of,
    is_like,
    jobs_in_sight,
    mixed,
    pixel,
    wait_for,
    wait_for_timeline,
)
from tests.page.past import Past
from tests.page.site import Site

JOBS, EVERY_S, TOOK_S = 300, 100.0, 50.0
MARKED = 203
COLOURS = {"completed": "--good", "failed": "--bad", "killed": "--bad", "lost": "--lost"}


def way_of(number: int) -> str:
    return {3: "failed", 6: "killed"}.get(number % 10, "lost" if number in (15, 25) else "completed")


class Night(NamedTuple):
    """300 jobs, one every 100 seconds; each took 50."""

    began: float
    ids: list[str]

    def address(self, first: int = 0, last: int = JOBS - 1, **more: str) -> str:
        """A span of exactly these jobs, one lane for each."""
        query = "".join(f"&{name}={value}" for name, value in {"lanes": "each", **more}.items())
        return f"/?view=timeline&from={self.start(first) - 20}&to={self.start(last) + TOOK_S + 20}{query}"

    def start(self, number: int) -> float:
        return self.began + number * EVERY_S


@pytest.fixture(scope="module")
def night_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("night") / "home"


@pytest.fixture(scope="module")
def night(night_home: Path) -> Night:
    past, began = Past(night_home), float(round(time.time()) - 10 * 3600)
    ids = [
        past.job(
            way_of(number),
            began + number * EVERY_S,
            ended=began + number * EVERY_S + TOOK_S,
            name=f"job{number}",
            command=f"make part{number}",
            cwd=f"/srv/{number % 3}",
        )
        for number in range(JOBS)
    ]
    at = began + MARKED * EVERY_S + 10
    past.event(ids[MARKED], "matched", at, pattern="oops", line="oops, wrong", stream="stderr")
    return Night(began, ids)


@pytest.fixture(scope="module")
def site(night_home: Path, night: Night) -> Iterator[Site]:
    """One for all of these tests: nothing runs, and none of them changes anything."""
    with Site(night_home) as site:
        yield site


@pytest.fixture
def look(page: Page, site: Site) -> Callable[[str], None]:
    """At a part of the timeline; until it is drawn, and told in words."""

    def at(path: str) -> None:
        page.goto(site.origin + path)
        wait_for_timeline(page)

    return at


# -- 300 jobs -------------------------------------------------------------------------------------------


def test_each_of_300_jobs_has_a_lane_in_the_colour_of_how_it_ended(
    night: Night, page: Page, look: Callable[[str], None]
) -> None:
    look(night.address())
    ways = [way_of(number) for number in range(JOBS)]
    told = ", ".join(f"{ways.count(way)} {way}" for way in ("completed", "failed", "killed", "lost"))
    expect(page.locator(COUNTS)).to_have_text(
        re.compile(f"^{JOBS} jobs: {told}; 1 match; longest: job[0-9]+, 50s$")
    )
    in_sight = jobs_in_sight(page)
    newest = list(reversed(night.ids))
    assert list(in_sight) == newest[: len(in_sight)], "the newest on top, and no lane missing"
    assert 10 < len(in_sight) < 60, "only lanes in sight are drawn"
    for job_id, job in in_sight.items():
        way = way_of(night.ids.index(job_id))
        assert job["way"] == way
        # 50 s of eight hours are three pixels, in full colour
        seen = pixel(page, CANVAS, (job["from"] + job["to"]) / 2, job["y"])
        assert is_like(seen, colour_of(page, COLOURS[way])), (way, seen)


def test_lanes_scroll_down_to_the_oldest_and_little_is_in_the_page(
    night: Night, page: Page, look: Callable[[str], None]
) -> None:
    look(night.address())
    page.locator(LANES).evaluate("(node) => node.scrollTo(0, node.scrollHeight)")
    wait_for(page, f'return document.querySelector("{CANVAS}").drawn.at(-1).row.id === given', night.ids[0])
    assert page.evaluate("() => document.querySelectorAll('main *').length") < 1200
    expect(page.locator(HAPPENED)).to_have_count(100)
    page.get_by_role("button", name="Show 100 more").click()
    expect(page.locator(HAPPENED)).to_have_count(200)


def test_a_wide_bar_has_the_pattern_of_how_the_job_ended(
    night: Night, page: Page, look: Callable[[str], None]
) -> None:
    """Completed is plain; failed and killed have lines that a person sees without colours."""
    look(night.address(0, 6))
    in_sight = jobs_in_sight(page)
    others = {}
    for number in (0, 3, 6):
        job = in_sight[night.ids[number]]
        assert job["to"] - job["from"] > 40
        row = [pixel(page, CANVAS, job["from"] + 10 + step, job["y"]) for step in range(20)]
        others[way_of(number)] = len(row) - max(row.count(each) for each in row)
    assert others["completed"] <= 2, "a line of the axis may shine through"
    assert others["failed"] >= 5
    assert others["killed"] >= 5
    plain = in_sight[night.ids[0]]
    seen = [pixel(page, CANVAS, plain["from"] + 20 + step, plain["y"]) for step in (0, 4)]
    wanted = mixed(colour_of(page, "--good"), colour_of(page, "--back"), 0.3)
    assert any(is_like(each, wanted) for each in seen)


def test_colours_follow_light_and_dark(night: Night, page: Page, look: Callable[[str], None]) -> None:
    look(night.address())
    job = next(iter(jobs_in_sight(page).values()))
    light = pixel(page, CANVAS, (job["from"] + job["to"]) / 2, job["y"])
    page.emulate_media(color_scheme="dark")
    wait_for(page, 'return matchMedia("(prefers-color-scheme: dark)").matches')
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    dark = pixel(page, CANVAS, (job["from"] + job["to"]) / 2, job["y"])
    assert not is_like(light, dark)
    assert is_like(dark, colour_of(page, COLOURS[job["way"]]))


def test_what_happened_is_told_in_words(night: Night, page: Page, look: Callable[[str], None]) -> None:
    look(night.address(0, 6))
    lines = page.locator(HAPPENED)
    expect(lines).to_have_count(7)
    told = [line.inner_text().split("\t")[1:] for line in lines.all()]
    assert told[6] == ["job0", "completed after 50s"]
    assert told[3] == ["job3", "failed with exit code 2 after 50s"]
    assert told[0] == ["job6", "was killed after 50s"]
    lines.nth(3).get_by_role("link").click()
    page.wait_for_url(f"**/?job={night.ids[3]}*")


def test_jobs_that_do_not_overlap_share_a_lane_when_packed(
    night: Night, page: Page, look: Callable[[str], None]
) -> None:
    look(night.address())
    page.get_by_role("button", name="Packed").click()
    wait_for(page, f'return document.querySelector("{CANVAS}").drawn.length === given', JOBS)
    assert len({job["top"] for job in jobs_in_sight(page).values()}) == 1
    wait_for(page, 'return new URLSearchParams(location.search).get("lanes") === "packed"')


# -- the span -------------------------------------------------------------------------------------------


def span(page: Page) -> tuple[float, float]:
    """As it is drawn, once all is drawn that was done before; the address tells the same."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    begin, end = page.evaluate(f'() => document.querySelector("{CANVAS}").span')
    wait_for(
        page,
        """const query = new URLSearchParams(location.search);
        return ["from", "to"].every((name, at) => Math.abs(Number(query.get(name)) - given[at]) < 1)""",
        [begin, end],
    )
    return begin, end


def wait_for_span(page: Page, before: tuple[float, float]) -> tuple[float, float]:
    """Another one than before."""
    wait_for(page, f'return document.querySelector("{CANVAS}").span[0] !== given', before[0])
    return span(page)


@pytest.mark.parametrize("how", ["key", "button", "wheel", "ctrl wheel"])
def test_zoom_looks_closer(night: Night, page: Page, look: Callable[[str], None], how: str) -> None:
    look(night.address())
    before = span(page)
    if how == "key":
        page.keyboard.press("+")
    elif how == "button":
        page.get_by_role("button", name="Closer").click()
    else:
        place = page.locator(HEAD if how == "wheel" else LANES).bounding_box()
        assert place
        page.mouse.move(place["x"] + 700, place["y"] + 40)
        if how == "ctrl wheel":
            page.keyboard.down("Control")
        page.mouse.wheel(0, -300)
        page.keyboard.up("Control")
    after = wait_for_span(page, before)
    assert before[0] < after[0] < after[1] < before[1]


def test_what_is_under_the_wheel_stays_there(night: Night, page: Page, look: Callable[[str], None]) -> None:
    look(night.address())
    job = jobs_in_sight(page)[night.ids[-10]]
    before, place = span(page), page.locator(HEAD).bounding_box()
    assert place
    page.mouse.move(job["from"], place["y"] + 40)
    page.mouse.wheel(0, -300)
    wait_for_span(page, before)
    assert abs(jobs_in_sight(page)[night.ids[-10]]["from"] - job["from"]) < 2


def test_a_drag_in_the_axis_chooses_a_span_and_tells_what_happened_in_it(
    night: Night, page: Page, look: Callable[[str], None]
) -> None:
    look(night.address())
    before, place = span(page), page.locator(HEAD).bounding_box()
    assert place
    page.mouse.move(place["x"] + 600, place["y"] + 45)
    page.mouse.down()
    page.mouse.move(place["x"] + 660, place["y"] + 45, steps=4)
    page.mouse.up()
    after = wait_for_span(page, before)
    assert before[0] < after[0] < after[1] < before[1]
    inside = [n for n in range(JOBS) if night.start(n) + end_s(n) >= after[0] and night.start(n) <= after[1]]
    assert 5 < len(inside) < 60
    expect(page.locator(COUNTS)).to_have_text(re.compile(f"^{len(inside)} jobs: "))
    jobs = page.locator(f"{HAPPENED} .job")
    told = set(jobs.all_inner_texts())
    assert told <= {f"job{number}" for number in inside}
    assert len(told) >= len(inside) - 2, "one may have begun before, and one may end behind"
    page.keyboard.press("Escape")
    expect(page.locator(COUNTS)).to_have_text(re.compile(f"^{JOBS} jobs: "))


def end_s(number: int) -> float:
    """Of a lost job only the beginning is known."""
    return 0.0 if way_of(number) == "lost" else TOOK_S


def test_a_drag_with_shift_chooses_a_span_and_a_plain_one_moves_it(
    night: Night, page: Page, look: Callable[[str], None]
) -> None:
    look(night.address())
    before, place = span(page), page.locator(LANES).bounding_box()
    assert place

    def drag(pixels: float) -> None:
        page.mouse.move(place["x"] + 500, place["y"] + 200)
        page.mouse.down()
        page.mouse.move(place["x"] + 500 + pixels, place["y"] + 200, steps=4)
        page.mouse.up()

    drag(200)
    moved = span(page)
    assert moved[0] < before[0], "earlier"
    assert abs((moved[1] - moved[0]) - (before[1] - before[0])) < 2, "as long as before"
    page.keyboard.down("Shift")
    drag(200)
    page.keyboard.up("Shift")
    chosen = wait_for_span(page, moved)
    assert moved[0] < chosen[0] < chosen[1] < moved[1]


def test_a_preset_ends_now(night: Night, page: Page, look: Callable[[str], None]) -> None:
    look(night.address(0, 6))
    page.get_by_role("button", name="12 h").click()
    expect(page.locator(COUNTS)).to_have_text(re.compile(f"^{JOBS} jobs: "))
    wait_for(page, 'return new URLSearchParams(location.search).get("last") === "43200"')
    expect(page.get_by_role("button", name="12 h")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="10 min").click()
    expect(page.locator(COUNTS)).to_have_text("no job")
    expect(page.locator(".timeline-empty")).to_have_text(
        "No job in this span. All shows every job that is kept."
    )


def test_the_same_filter_as_in_the_list(night: Night, page: Page, look: Callable[[str], None]) -> None:
    look(night.address())
    page.keyboard.press("/")
    page.keyboard.type("status=failed cwd=/srv/0")
    # a lost job has failed, too
    numbers = [n for n in range(JOBS) if way_of(n) in ("failed", "lost") and n % 3 == 0]
    expect(page.locator(COUNTS)).to_have_text(
        re.compile(f"^{len(numbers)} jobs: {len(numbers) - 1} failed, 1 lost;")
    )
    assert list(jobs_in_sight(page)) == [night.ids[number] for number in reversed(numbers)]
    wait_for(page, 'return new URLSearchParams(location.search).get("filter") === "status=failed cwd=/srv/0"')
    page.locator("#filter").fill("no such job")
    expect(page.locator(".timeline-empty")).to_have_text("No job fits “no such job”.")


# -- a job ----------------------------------------------------------------------------------------------


def test_a_bar_shows_the_facts_of_its_job_and_opens_it(
    night: Night, page: Page, look: Callable[[str], None]
) -> None:
    look(night.address(0, 6))
    job = jobs_in_sight(page)[night.ids[3]]
    page.mouse.move(job["from"] + 10, job["y"])
    card = page.locator(".timeline .chart-card")
    expect(card).to_be_visible()
    for fact in ("job3", "failed with exit code 2", "50s", "make part3", "/srv/0"):
        expect(card).to_contain_text(fact)
    page.mouse.click(job["from"] + 10, job["y"])
    page.wait_for_url(f"**/?job={night.ids[3]}*")


def test_keys_go_from_job_to_job_and_open_one(night: Night, page: Page, look: Callable[[str], None]) -> None:
    look(night.address())
    page.locator("#filter").focus()
    page.keyboard.press("Escape")  # from the filter to the lanes
    page.keyboard.press("Home")
    for _ in range(40):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    newest = list(reversed(night.ids))
    expect(page.locator(".timeline > p.unseen")).to_have_text(re.compile(f"^job{JOBS - 40}: .*, took 50s$"))
    assert newest[39] in jobs_in_sight(page), "scrolled into sight"
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/?job={newest[39]}*")


def test_a_phone_has_all_of_it_within_its_width(
    night: Night, page: Page, look: Callable[[str], None]
) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    look(night.address())
    assert page.evaluate("() => document.documentElement.scrollWidth") == 360
    assert page.evaluate("() => document.querySelector('.view.timeline').scrollWidth") <= 360
    assert len(jobs_in_sight(page)) > 5


def test_keys_reach_what_happened_to_a_job(night: Night, page: Page, look: Callable[[str], None]) -> None:
    look(night.address(MARKED - 3, MARKED + 3))
    expect(page.locator(f"{HAPPENED}[data-kind=matched]")).to_have_count(1)
    page.locator("#filter").focus()
    page.keyboard.press("Escape")
    page.keyboard.press("Home")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator(".timeline > p.unseen")).to_have_text(f"job{MARKED} matched oops: oops, wrong")
    mark = jobs_in_sight(page)[night.ids[MARKED]]["marks"][0]
    assert mark["kind"] == "matched"
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/?job={night.ids[MARKED]}*")


def test_an_address_opens_the_same_span_again(night: Night, page: Page, look: Callable[[str], None]) -> None:
    look(night.address(100, 120))
    expect(page.locator(COUNTS)).to_have_text(re.compile("^21 jobs: "))
    page.reload()
    wait_for_timeline(page)
    expect(page.locator(COUNTS)).to_have_text(re.compile("^21 jobs: "))
    assert next(iter(jobs_in_sight(page))) == night.ids[120]


def test_fingers_pinch_and_show_a_job_before_they_open_it(
    night: Night, page: Page, look: Callable[[str], None]
) -> None:
    look(night.address(0, 30))
    fingers = page.context.new_cdp_session(page)
    fingers.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})

    def touch(kind: str, *places: tuple[float, float]) -> None:
        points = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(places)]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    before, job = span(page), jobs_in_sight(page)[night.ids[15]]
    x, y = (job["from"] + job["to"]) / 2, job["y"]
    touch("touchStart", (x - 60, y), (x + 60, y))
    for more in (20, 40, 60, 80):
        touch("touchMove", (x - 60 - more, y), (x + 60 + more, y))
    touch("touchEnd")
    after = wait_for_span(page, before)
    assert before[0] < after[0] < after[1] < before[1]
    job = jobs_in_sight(page)[night.ids[15]]
    assert abs((job["from"] + job["to"]) / 2 - x) < 20, "what is between the fingers stays there"
    card = page.locator(".timeline .chart-card")
    touch("touchStart", (job["from"] + 2, job["y"]))
    touch("touchEnd")
    expect(card).to_contain_text("job15")
    expect(card).to_be_visible()
    touch("touchStart", (job["from"] + 2, job["y"]))
    touch("touchEnd")
    page.wait_for_url(f"**/?job={night.ids[15]}*")
