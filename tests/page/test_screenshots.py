"""Pictures of the page for the README and the docs: `BGJOB_UPDATE=1 scripts/test page -k screenshots` takes them."""

import os
import struct
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from bgjob.api import Jobs
from tests.page.conftest import PATIENCE_MS
from tests.page.shown import expect_part, row
from tests.page.site import Site
from tests.page.staged import stage

DOCS = Path(__file__).parents[2] / "docs"
WIDTH, HEIGHT, SCALE = 1280, 800, 1.5
LEAST_BYTES = 20_000
# What the server tells of the directory of the test is shown as that of a user.
AS_OF_A_USER = """
const parse = JSON.parse, shown = (text) => parse(text.replaceAll(%r, "/home/anna"));
JSON.parse = (text) => shown(text);
Response.prototype.json = async function () { return shown(await this.text()); };
"""
is_update = bool(os.environ.get("BGJOB_UPDATE"))


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return DOCS if is_update else tmp_path


def take(page: Page, path: Path, *texts: str) -> None:
    """All of these texts are on the page, and so is much else."""
    for text in texts:
        expect(page.locator("body")).to_contain_text(text)
    page.mouse.move(WIDTH / 2, 10)
    page.screenshot(path=path, animations="disabled")
    png = path.read_bytes()
    assert struct.unpack(">II", png[16:24]) == (WIDTH * SCALE, HEIGHT * SCALE)
    assert len(png) > LEAST_BYTES


@pytest.mark.timeout(400)
def test_screenshots(browser: Browser, site: Site, jobs: Jobs, pictures: Path, tmp_path: Path) -> None:
    ids = stage(jobs, tmp_path / "anna")
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT}, device_scale_factor=SCALE, color_scheme="light"
    )
    context.set_default_timeout(PATIENCE_MS)
    context.add_init_script(AS_OF_A_USER % str(tmp_path / "anna"))
    page = context.new_page()
    page.goto(site.new_address())
    expect(row(page, "migrate").locator(".likely")).to_have_text(["y", "n"])
    expect(row(page, "push").get_by_label("Password for push")).to_be_visible()
    expect(row(page, "dev").locator(".port")).to_be_visible()
    expect(row(page, "deploy").locator(".why")).to_contain_text("tests")
    if is_update:
        # lines of CPU and memory that can be seen
        row(page, "train").locator(".took:text-matches('^1m')").wait_for()
    list_texts = ("2 wait for you", "npm run dev", "exit code 1", "claude-code 7f3a90c1")
    take(page, pictures / "page-list.png", *list_texts)
    page.emulate_media(color_scheme="dark")
    take(page, pictures / "page-list-dark.png", *list_texts)
    page.emulate_media(color_scheme="light")

    page.goto(f"{site.origin}/?job={ids['train']}&view=log")
    expect_part(page, "log")
    take(page, pictures / "page-job.png", "python train.py", "/home/anna/shop/api", "loss ", "lr 3.0e-04")

    page.goto(f"{site.origin}/?job={ids['tests']}&view=terminal")
    expect_part(page, "terminal")
    take(page, pictures / "page-terminal.png", "pytest -v tests", "test_orders.py::test_payment_2")

    page.goto(f"{site.origin}/?view=timeline")
    take(page, pictures / "page-timeline.png", "The last twelve hours", "nightly")
    context.close()
