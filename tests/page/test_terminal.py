"""A person types into a job in the browser: keys, pastes, the size, who holds the job, and the way out."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from bgjob.web.page.logins import Logins
from tests.page.site import Site
from tests.page.xterm import XTerm
from tests.support.http_server import tool_call
from tests.support.requires import needs
from tests.support.waiting import wait_until

SAYS_SIZE = "while :; do stty size; read _; done"
FRESH_SIZE = (24, 80)
# Pixels that are out of sight, and columns and rows that there is room for beside the terminal.
ROOM = """() => {
  const box = document.querySelector(".tty .box"), { cols, rows } = window.term;
  const { width, height } = box.querySelector(".xterm-screen").getBoundingClientRect();
  return [box.scrollWidth - box.clientWidth, box.scrollHeight - box.clientHeight,
    (box.clientWidth - width) / (width / cols), (box.clientHeight - height) / (height / rows)];
}"""


def test_a_python_repl_answers(terminal: XTerm, site: Site) -> None:
    terminal.open(site.origin, site.server.execute("python3 -q", pty=True))
    terminal.wait_for(">>>")
    terminal.type("6 * 7\n")
    terminal.wait_for("42\n")
    terminal.type("'ä€😀'[::-1] * 2\n")
    terminal.wait_for("'😀€ä😀€ä'")


@needs("vim")
def test_vim_edits_and_saves_a_file_and_its_end_is_told(terminal: XTerm, site: Site, tmp_path: Path) -> None:
    file = tmp_path / "hello.py"
    command = "vim -u NONE -i NONE -n -c 'syntax on' hello.py"
    job_id = site.server.execute(command, cwd=str(tmp_path), pty=True, env={"TERM": "xterm-256color"})
    terminal.open(site.origin, job_id)
    terminal.wait_for("\n~")
    terminal.type("iimport os")
    terminal.press("Escape")
    terminal.wait_for("import os")
    terminal.page.wait_for_function(
        "() => window.term.buffer.active.getLine(0).getCell(0).getFgColorMode() !== 0"
    )
    terminal.type(":wq\n")
    terminal.wait_for_state("over")
    assert file.read_text() == "import os\n"
    terminal.wait_for_who("This job completed.")
    expect(terminal.button("Take over")).to_be_hidden()
    expect(terminal.button("Give back")).to_be_hidden()


def test_a_job_that_ended_before_stays_readable(terminal: XTerm, site: Site) -> None:
    job_id = site.server.execute(
        r"printf '\033]2;its title\007\033[31mred words\033[0m'; exit 3", pty=True, wait_s=30
    )
    terminal.open(site.origin, job_id)
    terminal.wait_for("red words")
    terminal.wait_for_who("This job failed with exit code 3.")
    assert terminal.picture.rows[0].startswith("r")
    assert terminal.page.evaluate("() => window.term.buffer.active.getLine(0).getCell(0).getFgColor()") == 1
    expect(terminal.page.locator(".tty .about")).to_contain_text("its title")


def test_a_queued_job_begins_when_it_is_started(terminal: XTerm, site: Site) -> None:
    first = site.server.execute("cat")
    job_id = site.server.execute("cat", pty=True, after=[first])
    terminal.page.goto(f"{site.origin}/?job={job_id}&view=terminal")
    terminal.wait_for_who("This job is queued")
    site.server.call("interact_with_job", job_id=first, close_stdin=True)
    terminal.wait_for_state("looks")
    terminal.type("typed\n")
    terminal.wait_for("typed\ntyped\n")


def test_a_thousand_keys_at_once_arrive_in_order(terminal: XTerm, site: Site, tmp_path: Path) -> None:
    typed = "".join(f"{number:04d}" for number in range(250))
    terminal.open(site.origin, site.server.execute(f"head -n 1 > {tmp_path}/line; echo sa''ved", pty=True))
    terminal.type(f"{typed}\n")
    terminal.wait_for("saved")
    assert (tmp_path / "line").read_text() == f"{typed}\n"


def test_text_of_an_input_method_arrives_when_it_is_chosen(terminal: XTerm, site: Site) -> None:
    terminal.open(site.origin, site.server.execute("cat", pty=True))
    terminal.focus()
    keyboard = terminal.page.context.new_cdp_session(terminal.page)
    for text in ("k", "か", "かん"):
        keyboard.send("Input.imeSetComposition", {"text": text, "selectionStart": 0, "selectionEnd": 0})
    keyboard.send("Input.insertText", {"text": "漢"})
    terminal.press("Enter")
    terminal.wait_for("漢\n漢\n")


def test_what_could_not_be_sent_is_told(terminal: XTerm, site: Site) -> None:
    terminal.open(site.origin, site.server.execute("cat", pty=True))
    terminal.page.route("**/type", lambda route: route.abort())
    terminal.type("x")
    expect(terminal.page.locator("#said")).to_contain_text("What you typed last may not have arrived.")
    terminal.page.unroute("**/type")
    terminal.type("y\n")
    terminal.wait_for("y\ny\n")
    assert "x" not in terminal.text


def test_a_job_that_reads_no_more_is_told(terminal: XTerm, site: Site) -> None:
    terminal.open(site.origin, site.server.execute("exec </dev/null >/dev/null 2>&1; sleep 1000", pty=True))
    terminal.type("x")
    terminal.wait_for_who("The job has closed its input")


# -- size -------------------------------------------------------------------------------------------


def test_the_job_has_the_size_that_the_page_has_room_for(terminal: XTerm, site: Site) -> None:
    terminal.open(site.origin, site.server.execute(SAYS_SIZE, pty=True))
    wait_until(lambda: terminal.size != FRESH_SIZE, "the page's size")
    wait_until_it_fits(terminal)
    first = terminal.size
    terminal.press("Enter")
    terminal.wait_for("{} {}\n".format(*first))
    terminal.page.set_viewport_size({"width": 700, "height": 620})
    wait_until(lambda: terminal.size != first, "the size of the smaller window")
    wait_until_it_fits(terminal)
    terminal.press("Enter")
    terminal.wait_for("{} {}\n".format(*terminal.size))
    terminal.wait_for("{} {}\n".format(*first))  # what was printed before is still there
    terminal.button("A+ larger text").click()
    smaller = terminal.size
    wait_until(lambda: terminal.size < smaller, "fewer cells for larger text")
    wait_until_it_fits(terminal)


def wait_until_it_fits(terminal: XTerm) -> None:
    """All of it is seen, and there is no room for one row or column more."""
    found: list[list[float]] = []

    def fits() -> bool:
        found[:] = [terminal.page.evaluate(ROOM)]
        hidden_x, hidden_y, cols, rows = found[0]
        return (hidden_x, hidden_y) == (0, 0) and cols < 4 and rows < 1.5  # 14 pixels are of the scrollbar

    wait_until(fits, "it fits", lambda: str(found))


def test_of_two_pages_the_one_in_control_has_the_size(
    terminal: XTerm, site: Site, tab_of_browser: BrowserContext
) -> None:
    job_id = site.server.execute(SAYS_SIZE, pty=True)
    terminal.open(site.origin, job_id)
    wait_until(lambda: terminal.size != FRESH_SIZE, "the page's size")
    first = terminal.size
    other = XTerm(tab_of_browser.new_page())
    other.page.set_viewport_size({"width": 600, "height": 500})
    other.open(site.origin, job_id)
    wait_until(lambda: other.size == first, "the second page shows the job's size")
    expect(other.page.locator(".tty .about")).to_contain_text("the size of another terminal")
    other.press("Enter")
    other.wait_for_state("holds")
    wait_until(
        lambda: other.size != first and other.size == terminal.size, "both show the size of the second"
    )
    other.wait_for("{} {}\n".format(*other.size))
    expect(terminal.page.locator(".tty .about")).to_contain_text("the size of another terminal")
    terminal.wait_for_who("in a browser holds it since")
    terminal.press("Enter")
    wait_until(lambda: terminal.size == other.size == first, "both show the size of the first again")
    other.wait_for_state("looks")


# -- who types --------------------------------------------------------------------------------------


def agent_types(site: Site, job_id: str, text: str) -> Any:
    """The result of the tool."""
    message, headers = tool_call("interact_with_job", {"job_id": job_id, "input": text, "wait_s": 0})
    answer = site.server.post(message, *headers)
    return (answer.json if answer.body.startswith(b"{") else answer.events[-1])["result"]


def test_a_person_takes_over_from_an_agent_and_gives_back(terminal: XTerm, site: Site) -> None:
    job_id = site.server.execute("cat", pty=True)
    terminal.open(site.origin, job_id)
    terminal.wait_for_who("No person types: agents may.")
    assert not agent_types(site, job_id, "from the agent")["isError"]
    terminal.wait_for("from the agent")
    terminal.button("Take over").click()
    terminal.wait_for_who("You hold this job")
    assert terminal.has_focus()
    refused = agent_types(site, job_id, "not now")
    assert refused["isError"]
    assert "in a browser" in json.dumps(refused)
    terminal.button("Give back").click()
    terminal.wait_for_who("No person types: agents may.")
    assert not agent_types(site, job_id, "the agent again")["isError"]
    terminal.wait_for("the agent again")
    assert "not now" not in terminal.text
    terminal.type("x")
    terminal.wait_for_who("You hold this job")
    assert agent_types(site, job_id, "not now")["isError"]


def test_looking_takes_nothing_over(terminal: XTerm, site: Site) -> None:
    """Neither the focus, nor the mouse of a program that wants all its moves."""
    job_id = site.server.execute(r"printf '\033[?1049h\033[?1003;1004;1006hready'; cat", pty=True)
    terminal.open(site.origin, job_id)
    terminal.wait_for("ready")
    terminal.click(3, 3)
    terminal.page.mouse.wheel(0, 300)
    terminal.page.mouse.move(300, 500)
    terminal.page.keyboard.press("Control+Shift+Enter")
    assert not agent_types(site, job_id, "from the agent")["isError"]
    terminal.wait_for("from the agent")
    terminal.wait_for_who("No person types")
    terminal.button("Take over").click()
    terminal.wait_for_state("holds")
    terminal.click(3, 3)
    terminal.wait_for("^[[<0;4;4M")


def test_a_login_that_may_only_look_cannot_type(
    browser: Browser, site: Site, home: Path, terminal: XTerm
) -> None:
    job_id = site.server.execute("echo ready; cat", pty=True)
    terminal.open(site.origin, job_id)
    context = browser.new_context()
    try:
        looking = XTerm(context.new_page())
        looking.open(site.origin, job_id, Logins(str(home)).add_key({"read"}))
        looking.wait_for("ready")
        looking.wait_for_who("This login may only look.")
        expect(looking.button("Take over")).to_be_hidden()
        looking.type("not typed")
        looking.paste("not pasted")
        terminal.type("typed\n")
        looking.wait_for("typed\ntyped\n")
        looking.wait_for_who("in a browser holds it since")
        assert "not" not in looking.text
    finally:
        context.close()


# -- pastes, links, titles --------------------------------------------------------------------------


def test_a_paste_of_several_lines_asks_first(terminal: XTerm, site: Site) -> None:
    terminal.open(site.origin, site.server.execute("cat", pty=True))
    terminal.paste("one\ntwo\n")
    asked = terminal.page.get_by_role("dialog")
    expect(asked).to_contain_text("one\ntwo")
    asked.get_by_role("button", name="Cancel").click()
    expect(asked).to_have_count(0)
    terminal.paste("three\nfour\n")
    asked.get_by_role("button", name="Paste").click()
    terminal.wait_for("three\nfour\nthree\nfour\n")
    terminal.paste("five")
    terminal.wait_for("five")
    assert "one" not in terminal.text


def test_a_program_that_marks_pastes_gets_them_whole(terminal: XTerm, site: Site) -> None:
    """Without the control characters that would end the marks."""
    terminal.open(
        site.origin, site.server.execute(r"printf '\033[?2004hready'; stty -echo; cat -v", pty=True)
    )
    terminal.wait_for("ready")
    terminal.page.wait_for_function("() => window.term.modes.bracketedPasteMode")
    terminal.paste("one\ntw\x1b[201~o")
    terminal.press("Enter")
    terminal.wait_for("^[[200~one\ntw[201~o^[[201~\n")


def test_addresses_are_shown_and_opened_only_by_the_person(
    terminal: XTerm, site: Site, tab_of_browser: BrowserContext
) -> None:
    address = f"{site.origin}/page/icon.svg"
    links = [
        f"printf '\\033]8;;{target}\\033\\\\link\\033]8;;\\033\\\\\\n'"
        for target in ("javascript:alert(1)", address)
    ]
    job_id = site.server.execute(
        f"read _; clear; {'; '.join(links)}; echo see {address}, too; echo ready; cat", pty=True
    )
    terminal.open(site.origin, job_id)
    terminal.press("Enter")
    terminal.wait_for("ready")
    asked = terminal.page.get_by_role("dialog")
    for row, column in ((0, 1), (1, 1), (2, 30)):
        if row:
            terminal.click_link(column, row)
            expect(asked).to_contain_text(address)
            expect(asked).not_to_contain_text(f"{address},")
            asked.get_by_role("button", name="Cancel").click()
        else:
            terminal.click(column, row)
        expect(asked).to_have_count(0)
    assert len(tab_of_browser.pages) == 1
    terminal.click_link(1, 1)
    with tab_of_browser.expect_page() as opened:
        asked.get_by_role("link", name="Open in a new tab").click()
    assert opened.value.url == address
    assert opened.value.evaluate("() => window.opener") is None


def test_titles_are_text_beside_the_terminal(terminal: XTerm, site: Site) -> None:
    terminal.open(
        site.origin,
        site.server.execute(
            r"printf '\033]2;<b>one</b>\007'; read _; printf '\033]0;two\007'; cat", pty=True
        ),
    )
    about = terminal.page.locator(".tty .about")
    expect(about).to_contain_text("<b>one</b>")
    terminal.press("Enter")
    expect(about).to_contain_text("two")


# -- keyboard, phone, screen reader -----------------------------------------------------------------


def test_a_key_leaves_the_terminal_that_keeps_tab(terminal: XTerm, site: Site) -> None:
    job_id = site.server.execute("stty -echo; echo ready; cat -vT", pty=True)
    terminal.open(site.origin, job_id)
    terminal.wait_for("ready")
    terminal.press("Tab")
    assert terminal.has_focus()
    terminal.page.keyboard.press("Control+Shift+Enter")
    assert not terminal.has_focus()
    assert terminal.page.evaluate("() => document.activeElement.closest('.tty .tools') !== null")
    described = terminal.page.evaluate("() => window.term.textarea.getAttribute('aria-describedby')")
    assert "Ctrl+Shift+Enter leaves" in terminal.page.locator(f"#{described.split()[0]}").inner_text()
    terminal.press("Enter")
    terminal.wait_for("^I\n")
    site.server.call("kill_job", job_ids=[job_id])
    terminal.wait_for_state("over")
    terminal.focus()
    terminal.page.keyboard.press("Shift+Tab")
    assert not terminal.has_focus()


def test_a_phone_has_the_keys_that_its_keyboard_lacks(browser: Browser, site: Site) -> None:
    job_id = site.server.execute("stty -echo raw; echo ready; cat -vT", pty=True)
    context = browser.new_context(viewport={"width": 360, "height": 640}, has_touch=True, is_mobile=True)
    try:
        phone = XTerm(context.new_page())
        phone.open(site.origin, job_id, Logins(str(site.home)).add_key())
        phone.wait_for("ready")
        assert phone.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
        assert phone.size[0] > 20
        keys = phone.page.get_by_role("toolbar", name="Keys")
        phone.focus()
        for name in ("Esc", "Tab", "Up"):
            keys.get_by_role("button", name=name).tap()
        keys.get_by_role("button", name="Ctrl").tap()
        assert phone.has_focus()  # else the phone's keyboard would go
        phone.page.keyboard.insert_text("a")
        phone.page.keyboard.insert_text("b")
        phone.wait_for("^[^I^[[A^Ab")
    finally:
        context.close()


def test_text_size_and_screen_reader_are_remembered(terminal: XTerm, site: Site) -> None:
    job_id = site.server.execute("echo something to read; cat", pty=True)
    terminal.open(site.origin, job_id)
    terminal.wait_for("something to read")
    size = terminal.page.evaluate("() => window.term.options.fontSize")
    terminal.button("A+ larger text").click()
    terminal.page.get_by_label("Screen reader").check()
    terminal.open(site.origin, job_id)
    assert terminal.page.evaluate("() => window.term.options.fontSize") == size + 1
    expect(terminal.page.locator(".tty .xterm-accessibility-tree")).to_contain_text("something to read")
    terminal.type("typed")
    terminal.wait_for("typed")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_terminal_has_the_colours_of_the_page(terminal: XTerm, site: Site, scheme: Any) -> None:
    terminal.open(site.origin, site.server.execute(r"printf '\033[33mready\n'; cat", pty=True))
    terminal.wait_for("ready")
    terminal.page.emulate_media(color_scheme=scheme)
    back, yellow = terminal.page.evaluate(
        """() => { const style = getComputedStyle(document.documentElement);
        return ["--back", "--terminal-yellow"].map((name) => style.getPropertyValue(name)); }"""
    )
    terminal.page.wait_for_function(
        "([back, yellow]) => { const { theme } = window.term.options;"
        " return theme.background === back && theme.yellow === yellow; }",
        arg=[back, yellow],
    )
