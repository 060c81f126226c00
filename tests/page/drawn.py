"""What a canvas shows: as the page remembers it, and as its pixels are."""

import json
import re
from typing import Any

from playwright.sync_api import Page

Colour = tuple[int, int, int]

LANES, CANVAS, HEAD = ".timeline-scroll", ".timeline-body canvas", ".timeline-head"
COUNTS, HAPPENED = ".timeline-summary span", ".happened tbody tr"
# Of each job whose bar is in sight: where it is in the page.
JOBS = """() => {
  const canvas = document.querySelector(".timeline-body canvas"), box = canvas.getBoundingClientRect();
  const isInSight = ({ middle }) => middle > 1 && middle < box.height - 2;
  return (canvas.drawn ?? []).filter(isInSight).map(({ row, way, y, middle, bar, marks }) => ({
    id: row.id, way, top: box.top + y, y: box.top + middle, from: box.left + bar[0], to: box.left + bar[1],
    marks: marks.map(({ mark, x }) => ({ kind: mark.kind, x: box.left + x })),
  }));
}"""
PIXEL = """({ selector, x, y }) => {
  const canvas = document.querySelector(selector), box = canvas.getBoundingClientRect();
  const ratio = canvas.width / box.width;
  return [...canvas.getContext("2d").getImageData((x - box.left) * ratio, (y - box.top) * ratio, 1, 1).data];
}"""


def jobs_in_sight(page: Page) -> dict[str, dict[str, Any]]:
    """By id, from the top down."""
    return {job["id"]: job for job in page.evaluate(JOBS)}


def pixel(page: Page, selector: str, x: float, y: float) -> Colour:
    """As it is seen, on the background of the page."""
    red, green, blue, alpha = page.evaluate(PIXEL, {"selector": selector, "x": x, "y": y})
    behind = colour_of(page, "--back")
    return mixed((red, green, blue), behind, alpha / 255)


def mixed(front: Colour, back: Colour, share: float) -> Colour:
    red, green, blue = (round(f * share + b * (1 - share)) for f, b in zip(front, back, strict=True))
    return red, green, blue


def colour_of(page: Page, variable: str) -> Colour:
    text = page.evaluate(
        "(name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()", variable
    )
    digits = text.removeprefix("#")
    digits = "".join(2 * each for each in digits) if len(digits) == 3 else digits
    assert re.fullmatch("[0-9a-f]{6}", digits), text
    return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)


def is_like(one: Colour, other: Colour) -> bool:
    return all(abs(a - b) <= 6 for a, b in zip(one, other, strict=True))


def wait_for(page: Page, condition: str, argument: object = None) -> None:
    """`condition`: the body of a function of `given`."""
    page.wait_for_function(
        f"(text) => {{ const given = JSON.parse(text); {condition} }}", arg=json.dumps(argument)
    )


def wait_for_timeline(page: Page) -> None:
    """Until all jobs are known, drawn, and told in words."""
    page.wait_for_selector("body[data-view=timeline]")
    told = f'document.querySelector("{COUNTS}").textContent'
    wait_for(page, f"return /^(no job|[0-9,]+ jobs?:)[^…]*$/.test({told})")
