"""axe-core finds nothing in the terminal: with the colours of a program, a screen reader, its questions, its end."""

from typing import Any

import pytest
from playwright.sync_api import ViewportSize

from tests.page import axe
from tests.page.site import Site
from tests.page.xterm import XTerm
from tests.support.npm_packages import installing_takes_long

pytestmark = [installing_takes_long]

COLOURS = r"for c in $(seq 0 255); do printf '\033[38;5;%dm%d \033[48;5;%dm%d\033[0m ' $c $c $c $c; done"
PHONE: ViewportSize = {"width": 360, "height": 640}


@pytest.fixture(scope="module", autouse=True)
def axe_is_there() -> None:
    axe.PACKAGES.install_or_skip()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(terminal: XTerm, site: Site, scheme: Any) -> None:
    page, found = terminal.page, dict[str, list[str]]()
    page.emulate_media(color_scheme=scheme)
    command = f"{COLOURS}; echo; echo http://127.0.0.1:1/x; cat"
    job_id = site.server.execute(command, pty=True)
    terminal.open(site.origin, job_id)
    terminal.wait_for("http")
    found["colours"] = axe.violations(page)
    terminal.paste("one\ntwo")
    page.get_by_role("dialog").wait_for()
    found["paste"] = axe.violations(page)
    page.get_by_role("button", name="Cancel").click()
    terminal.click_link(3, terminal.row_of("http://"))
    page.get_by_role("dialog").wait_for()
    found["address"] = axe.violations(page)
    page.get_by_role("button", name="Cancel").click()
    page.get_by_label("Screen reader").check()
    terminal.type("x")
    terminal.wait_for_state("holds")
    found["screen reader"] = axe.violations(page)
    page.set_viewport_size(PHONE)
    terminal.open(site.origin, job_id)
    found["phone"] = axe.violations(page)
    site.server.call("kill_job", job_ids=[job_id])
    terminal.wait_for_state("over")
    found["end"] = axe.violations(page)
    assert found == {name: [] for name in found}
