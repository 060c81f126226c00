import pytest
from playwright.sync_api import BrowserContext, Page

from tests.page.site import Site
from tests.page.xterm import REMEMBER_TERMINALS, XTerm

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def _terminals_are_known(tab_of_browser: BrowserContext) -> None:
    tab_of_browser.add_init_script(REMEMBER_TERMINALS)


@pytest.fixture
def terminal(page: Page) -> XTerm:
    return XTerm(page)


def test_a_python_repl_answers(terminal: XTerm, site: Site) -> None:
    job_id = site.server.execute("python3 -q", pty=True)
    terminal.open(site.origin, job_id)
    terminal.wait_for(">>>")
    terminal.type("6 * 7\n")
    terminal.wait_for("42")
    terminal.page.screenshot(path="/tmp/shot.png")
    print(terminal.lines, terminal.who)


def test_scratch(terminal: XTerm, site: Site, tab_of_browser: BrowserContext, tmp_path) -> None:
    from pathlib import Path

    (tmp_path / "code.py").write_text(Path(__file__).read_text())
    job_id = site.server.execute(
        f"vim -u NONE -i NONE -n -c 'syntax on' -c 'set number mouse=a title' {tmp_path}/code.py", pty=True
    )
    terminal.open(site.origin, job_id)
    terminal.wait_for("import pytest")
    terminal.page.screenshot(path="/tmp/vim.png")
    terminal.page.emulate_media(color_scheme="dark")
    terminal.page.screenshot(path="/tmp/dark.png")
    other = tab_of_browser.new_page()
    other.set_viewport_size({"width": 360, "height": 640})
    second = XTerm(other)
    second.open(site.origin, job_id)
    second.wait_for("import pytest")
    other.screenshot(path="/tmp/phone.png")
    print(second.size, terminal.size)
    second.press("G")
    terminal.page.wait_for_function("() => window.term.cols < 100")
    other.screenshot(path="/tmp/phone2.png")
    terminal.page.screenshot(path="/tmp/dark2.png")
    print(second.size, terminal.size, second.who, terminal.who)
