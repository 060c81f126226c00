"""What the charts of the page share, in a real browser: axes and the small line of a job's last values."""

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Browser, Page

from tests.page.site import Site

BERLIN = ZoneInfo("Europe/Berlin")
TIME_TICKS = "async (given) => (await import('/page/chart.js')).timeTicks(...given).map(({ text }) => text)"
VALUE_TICKS = "async (given) => (await import('/page/chart.js')).valueTicks(...given)"
SPARKLINE = """async (values) => {
  const { sparkline } = await import("/page/sparkline.js"), canvas = document.createElement("canvas");
  canvas.style.width = "100px";
  canvas.style.height = "20px";
  document.body.append(canvas);
  sparkline(canvas, values, { most: 100, points: values.length });
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  // of each column the highest place that something is drawn at, from 0 to 1; null: nothing
  const tops = Array.from({ length: canvas.width }, (_, x) => {
    const isDrawn = (y) => data[4 * (y * canvas.width + x) + 3] > 100;
    for (let y = 0; y < canvas.height; y += 1) if (isDrawn(y)) return 1 - y / canvas.height;
    return null;
  });
  return { width: canvas.width, height: canvas.height, tops };
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One for all of these tests: nothing runs."""
    with Site(tmp_path_factory.mktemp("charts") / "home") as site:
        yield site


@pytest.mark.parametrize(
    ("begin", "end", "most", "ticks"),
    [
        (
            "2026-05-12 13:13:20",
            "2026-05-12 13:13:44",
            8,
            ["13:13:20", "13:13:25", "13:13:30", "13:13:35", "13:13:40"],
        ),
        ("2026-05-12 13:10", "2026-05-12 14:05", 5, ["13:15", "13:30", "13:45", "14:00"]),
        ("2026-05-12 21:10", "2026-05-13 07:00", 6, ["22:00", "Wed 13 May", "02:00", "04:00", "06:00"]),
        ("2026-05-12 12:00", "2026-05-15 12:00", 4, ["Wed 13 May", "Thu 14 May", "Fri 15 May"]),
        ("2026-05-12 12:00", "2026-06-10 12:00", 6, ["Mon 18 May", "Mon 25 May", "Mon 1 Jun", "Mon 8 Jun"]),
        ("2026-05-12 12:00", "2027-05-12 12:00", 5, ["Jul", "Oct", "2027", "Apr"]),
        # The clock is set forward from 02:00 to 03:00, and back from 03:00 to 02:00.
        ("2026-03-28 23:30", "2026-03-29 05:30", 8, ["Sun 29 Mar", "01:00", "03:00", "04:00", "05:00"]),
        ("2026-10-25 00:30", "2026-10-25 05:30", 3, ["02:00", "04:00"]),
    ],
)
def test_ticks_are_round_local_times(page: Page, begin: str, end: str, most: int, ticks: list[str]) -> None:
    page.context.new_cdp_session(page).send("Emulation.setTimezoneOverride", {"timezoneId": BERLIN.key})
    given = [datetime.fromisoformat(each).replace(tzinfo=BERLIN).timestamp() for each in (begin, end)]
    assert page.evaluate(TIME_TICKS, [*given, most]) == ticks


@pytest.mark.parametrize(
    ("given", "ticks"),
    [
        ([230, 4], [0, 100, 200, 300]),
        ([0.9, 4], [0, 0.5, 1]),
        ([3, 4, 1000, True], [0, 1, 2, 3]),
        ([3.5 * 2**20, 4, 1024], [0, 2**20, 2 * 2**20, 3 * 2**20, 4 * 2**20]),
        ([900 * 2**20, 2, 1024], [0, 500 * 2**20, 1000 * 2**20]),
    ],
)
def test_ticks_of_values_are_round(page: Page, given: list[object], ticks: list[float]) -> None:
    assert page.evaluate(VALUE_TICKS, given) == pytest.approx(ticks)


def test_a_sparkline_is_sharp_and_has_gaps(browser: Browser, site: Site) -> None:
    context = browser.new_context(device_scale_factor=2)
    page = context.new_page()
    page.goto(site.new_address())
    page.wait_for_selector("body[data-view=list]")
    drawn = page.evaluate(SPARKLINE, [0, 50, 100, 100, None, None, 0, 0, 100, 50, 0])
    context.close()
    assert (drawn["width"], drawn["height"]) == (200, 40), "as many pixels as the screen has"
    top = drawn["tops"]
    assert top[50] > 0.9, "the most is at the top"
    assert all(each is None for each in top[66:116]), "what is not known is not drawn"
    assert 0 < top[130] < 0.15, "nothing is at the bottom"
    assert top[160] > 0.9
    assert top[199] < 0.2, "the last value is at the right"
