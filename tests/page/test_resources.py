"""Resources, in a real browser: what real jobs use is drawn, and told in words."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.drawn import colour_of, is_like, pixel, wait_for
from tests.page.site import Site
from tests.support.gate import Gate
from tests.support.limiting import BURN

MEMORY_MB, LIMIT_MB, STORE_MB, OUTPUT_MB = 96, 256, 50, 4
MB = 1 << 20
CHARTS = {"CPU": 0, "Memory": 1, "Disk of the store": 2, "Jobs": 3}
DRAWN = """(number) => {
  const chart = document.querySelectorAll(".chart canvas")[number].drawn;
  if (!chart) return null;
  const box = chart.canvas.getBoundingClientRect();
  return {
    left: box.left + chart.left, right: box.left + chart.right,
    lines: chart.bands.map(({ id, name, values }) => ({
      id, name, last: values.at(-1), y: box.top + chart.y(values.at(-1)),
    })),
    limits: chart.shown.map(({ value, text }) => ({ value, text, y: box.top + chart.y(value) })),
    told: chart.scene.limits.map(({ text }) => text),
  };
}"""


@pytest.fixture
def site(home: Path) -> Iterator[Site]:
    with Site(home, MCP_BG_MAX_JOBS="7", MCP_BG_MAX_STORE_SIZE=f"{STORE_MB}MB") as site:
        yield site


def chart(page: Page, name: str) -> dict[str, Any]:
    """What the chart shows: its lines at their last values, its limits, in the coordinates of the page."""
    found: dict[str, Any] = page.evaluate(DRAWN, CHARTS[name])
    return found


def go(page: Page, site: Site) -> None:
    page.goto(f"{site.origin}/?view=resources")
    page.wait_for_selector("body[data-view=resources]")


def row(page: Page, job_id: str) -> Locator:
    return page.locator(f'.resources tr[data-job="{job_id}"]')


def value(text: str) -> float:
    """Of an amount in words: percent, or bytes."""
    number, unit = re.fullmatch(r"([0-9.]+) ?(%|B|KB|MB|GB)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"%": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}[unit]


def wait_for_value(page: Page, job_id: str, cell: int, least: float) -> None:
    """Of the table: 1 CPU now, 2 CPU peak, 3 memory now, 4 memory peak."""
    wait_for(
        page,
        """const row = document.querySelector(`.resources tr[data-job="${given.id}"]`);
        const [, number, unit] = /^([0-9.]+) ?(%|B|KB|MB|GB)$/.exec(row?.cells[given.cell].textContent) ?? [];
        return Number(number) * { "%": 1, B: 1, KB: 1024, MB: 1024 ** 2, GB: 1024 ** 3 }[unit] >= given.least""",
        {"id": job_id, "cell": cell, "least": least},
    )


def hold_memory(gate: Gate) -> str:
    """A command that holds so much, and tells when it does."""
    return f"""exec "{sys.executable}" -c "
held = bytearray(b'x') * ({MEMORY_MB} << 20)
import os; os.system('{gate.reach}'); os.system('exec sleep 1000')" """


def test_jobs_that_use_cpu_and_memory_are_told_with_what_they_use(page: Page, site: Site, gate: Gate) -> None:
    burner = site.server.execute(BURN, name="burner")
    sleeper = site.server.execute("exec sleep 1000", name="sleeper")
    holder = site.server.execute(hold_memory(gate), name="holder", limits={"memory": f"{LIMIT_MB}MB"})
    gate.wait_until_reached()
    go(page, site)
    wait_for_value(page, burner, 2, 5)
    wait_for_value(page, holder, 3, MEMORY_MB * MB)
    assert value(row(page, burner).locator("td").nth(1).inner_text()) <= 120, "one loop, one processor"
    assert value(row(page, sleeper).locator("td").nth(1).inner_text()) < 5
    held = value(row(page, holder).locator("td").nth(2).inner_text())
    assert MEMORY_MB * MB <= held < 2 * MEMORY_MB * MB
    assert value(row(page, sleeper).locator("td").nth(2).inner_text()) < 16 * MB
    expect(row(page, holder).locator("td").nth(4)).to_have_text(f"{LIMIT_MB} MB")
    expect(row(page, sleeper).locator("td").nth(4)).to_have_text("none")
    expect(page.locator(".chart").nth(1).locator("strong")).to_have_text(re.compile("^[0-9]+ MB$"))
    expect(page.locator(".chart").nth(3)).to_contain_text("3 running")
    row(page, holder).get_by_role("link", name="holder").click()
    page.wait_for_url(f"**/?job={holder}*")


def test_limits_are_lines(page: Page, site: Site, gate: Gate) -> None:
    holder = site.server.execute(hold_memory(gate), name="holder", limits={"memory": f"{LIMIT_MB}MB"})
    gate.wait_until_reached()
    go(page, site)
    wait_for_value(page, holder, 3, MEMORY_MB * MB)
    limit = chart(page, "Memory")["limits"][0]
    assert (limit["value"], limit["text"]) == (LIMIT_MB * MB, f"limit of holder: {LIMIT_MB} MB")
    line = next(each for each in chart(page, "Memory")["lines"] if each["id"] == holder)
    assert limit["y"] < line["y"], "above what is used"
    # dashed: of ten pixels in a row, some are of the line
    colour, left = colour_of(page, "--series-1"), chart(page, "Memory")["left"] + 300
    seen = [pixel(page, ".chart:nth-child(2) canvas", left + step, limit["y"]) for step in range(12)]
    assert any(is_like(each, colour) for each in seen)
    assert not all(is_like(each, colour) for each in seen)
    assert chart(page, "Disk of the store")["told"][0] == f"limit: {STORE_MB} MB"
    jobs = chart(page, "Jobs")
    assert jobs["told"] == ["at most 7"]
    assert jobs["lines"][0]["last"] == 1


def test_the_disk_of_the_store_grows_before_the_eyes(page: Page, site: Site, gate: Gate) -> None:
    go(page, site)
    told = page.locator(".chart").nth(2)
    expect(told.locator("strong")).to_have_text(re.compile("^[0-9]"))
    site.server.execute(f"{gate.pause}; head -c {OUTPUT_MB}M /dev/urandom | base64; exec sleep 1000")
    gate.wait_until_reached()
    assert chart(page, "Disk of the store")["lines"][0]["last"] < OUTPUT_MB * MB
    gate.open()
    wait_for(
        page,
        'return document.querySelectorAll(".chart canvas")[2].drawn.bands[0].values.at(-1) >= given',
        OUTPUT_MB * MB,
    )
    expect(told).to_contain_text(f"of at most {STORE_MB} MB")
    expect(told).to_contain_text(re.compile("[0-9] [KMGT]B free on its disk"))


def test_the_legend_hides_a_job_and_a_click_opens_one(page: Page, site: Site, gate: Gate) -> None:
    holder = site.server.execute(hold_memory(gate), name="holder")
    gate.wait_until_reached()
    other = site.server.execute("exec sleep 1000", name="other")
    go(page, site)
    wait_for_value(page, holder, 3, MEMORY_MB * MB)
    wait_for_value(page, other, 3, 1)
    assert {line["id"] for line in chart(page, "Memory")["lines"]} == {holder, other}
    button = page.get_by_role("button", name="other")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    wait_for(page, 'return document.querySelectorAll(".chart canvas")[1].drawn.bands.length === 1')
    button.click()
    wait_for(page, 'return document.querySelectorAll(".chart canvas")[1].drawn.bands.length === 2')
    page.mouse.click(*end_of_line(page, holder))
    page.wait_for_url(f"**/?job={holder}*")


def end_of_line(page: Page, job_id: str) -> tuple[float, float]:
    memory = chart(page, "Memory")
    return memory["right"] - 1, next(line["y"] for line in memory["lines"] if line["id"] == job_id)


def test_the_values_at_a_moment_are_shown_and_told(page: Page, site: Site, gate: Gate) -> None:
    holder = site.server.execute(hold_memory(gate), name="holder")
    gate.wait_until_reached()
    go(page, site)
    wait_for_value(page, holder, 3, MEMORY_MB * MB)
    page.mouse.move(*end_of_line(page, holder))
    card = page.locator(".charts .chart-card")
    expect(card).to_be_visible()
    expect(card).to_contain_text(re.compile(r"holder[0-9]+ MB"))
    page.mouse.move(1, 1)
    expect(card).to_be_hidden()
    wait_for_value(page, holder, 1, 0)  # of the first sample, it is not known
    page.locator(".charts").focus()
    page.keyboard.press("ArrowLeft")
    said = page.locator(".resources > p.unseen")
    expect(said).to_have_text(re.compile(r"^[0-9:]{8}\. CPU: holder .*Memory: holder [0-9]+ MB"))


def test_a_job_that_has_ended_stays_for_a_while(page: Page, site: Site, gate: Gate) -> None:
    job_id = site.server.execute(f"{gate.pause}", name="short")
    gate.wait_until_reached()
    go(page, site)
    wait_for_value(page, job_id, 3, 1)
    gate.open()
    expect(row(page, job_id).locator("td").first).to_have_text("ended")
    expect(page.locator(".chart").nth(3)).to_contain_text("0 running")
    expect(page.locator(".chart").nth(1).locator("strong")).to_have_text("0 B")


def test_without_jobs_it_says_so(page: Page, site: Site) -> None:
    go(page, site)
    expect(page.locator(".resources .note")).to_have_text(re.compile("^No job runs. "))
    expect(page.locator(".chart").nth(3)).to_contain_text("0 running")


def test_a_phone_has_all_of_it_within_its_width(page: Page, site: Site) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    job_id = site.server.execute("exec sleep 1000", name="a name that is rather long for a phone")
    go(page, site)
    wait_for_value(page, job_id, 3, 1)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 360
