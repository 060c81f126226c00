"""A terminal of the page, as xterm.js has it: what stands in its cells, and how a person types into it."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, NamedTuple

from playwright.sync_api import Page

from bgjob.api import Jobs
from bgjob.api.snapshot import Snapshot
from bgjob.home.log_format import STDOUT
from tests.support.waiting import wait_until

# Runs before the page's own scripts: the terminal that the page opens last is `window.term`.
REMEMBER_TERMINAL = """
import("/page/vendor/xterm.mjs").then(({ Terminal }) => {
  const open = Terminal.prototype.open;
  Terminal.prototype.open = function (place) {
    window.term = this;
    open.call(this, place);
  };
}, () => {});
"""
# All that was printed: rows that a long line was wrapped into are one line.
TEXT = """
const textOf = ({ buffer: { active } }) => {
  let text = "";
  for (let y = 0; y < active.length; y++) {
    const isWrapped = active.getLine(y + 1)?.isWrapped;
    text += active.getLine(y).translateToString(!isWrapped) + (isWrapped ? "" : "\\n");
  }
  return text;
};
"""
PICTURE = """
const pictureOf = (term) => {
  const { active } = term.buffer, rows = [];
  for (let y = 0; y < term.rows; y++) {
    const line = active.getLine(active.baseY + y);
    rows.push(Array.from({ length: term.cols }, (_, x) => styled(line.getCell(x))).join(" "));
  }
  return { rows, cursor: [active.cursorY, active.cursorX], page: active.type, modes: term.modes };
};
const STYLE = ["getFgColorMode", "getFgColor", "getBgColorMode", "getBgColor",
  "isBold", "isDim", "isItalic", "isUnderline", "isInverse", "isStrikethrough"];
const styled = (cell) => (cell.getChars() || " ")
  + STYLE.map((name) => (cell[name]() > 0 ? cell[name]() : "")).join(",").replace(/,+$/, "");
"""
# A terminal that has seen everything from the beginning.
REPLAYED = (
    PICTURE
    + """
return (async () => {
  const { Terminal } = await import("/page/vendor/xterm.mjs");
  const [[rows, cols]] = steps, term = new Terminal({ rows, cols, scrollback: 5000 });
  for (const [rows, cols, data] of steps) {
    term.resize(cols, rows);
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    await new Promise((done) => term.write(bytes, done));
  }
  return pictureOf(term);
})();
"""
)
CELL = """([x, y]) => {
  const { left, top, width, height } = document.querySelector(".xterm-screen").getBoundingClientRect();
  return [left + (x + 0.5) * width / window.term.cols, top + (y + 0.5) * height / window.term.rows]; }"""


class Picture(NamedTuple):
    """All that a program can have drawn, and the modes that it can have set."""

    rows: list[str]
    cursor: list[int]
    page: str
    modes: dict[str, Any]


class XTerm:
    def __init__(self, page: Page) -> None:
        self.page = page
        page.add_init_script(REMEMBER_TERMINAL)

    def open(self, origin: str, job_id: str, key: str = "") -> None:
        """`key`: logs this browser in."""
        self.page.goto(f"{origin}/?job={job_id}&view=terminal{key and f'#key={key}'}")
        self.wait_for_state("looks", "holds", "over")

    # -- what it shows ------------------------------------------------------------------------------

    def wait_for_state(self, *states: str) -> None:
        self.page.wait_for_selector(", ".join(f".tty[data-state={state}]" for state in states))

    def wait_for_who(self, words: str) -> None:
        """What the page says about who types, or why the person cannot."""
        self.page.locator(".tty .who", has_text=words).wait_for()

    def wait_for(self, text: str) -> None:
        """On the screen, or scrolled out of it."""
        self.page.wait_for_function(
            f"(text) => {{ {TEXT} return window.term && textOf(window.term).includes(text); }}", arg=text
        )

    @property
    def text(self) -> str:
        return str(self.page.evaluate(f"() => {{ {TEXT} return textOf(window.term); }}"))

    def row_of(self, beginning: str) -> int:
        """The row of the screen that begins so."""
        return int(
            self.page.evaluate(
                """(beginning) => { const { active } = window.term.buffer;
                const rows = Array.from({ length: window.term.rows }, (_, y) => active.getLine(active.baseY + y));
                return rows.findIndex((row) => row.translateToString().startsWith(beginning)); }""",
                beginning,
            )
        )

    @property
    def size(self) -> tuple[int, int]:
        rows, cols = self.page.evaluate("() => [window.term.rows, window.term.cols]")
        return rows, cols

    @property
    def picture(self) -> Picture:
        return Picture(**self.page.evaluate(f"() => {{ {PICTURE} return pictureOf(window.term); }}"))

    def replayed(self, jobs: Jobs, job_id: str) -> Picture:
        """What it would show if it had seen all that the job has printed."""
        return Picture(**self.page.evaluate(f"(steps) => {{ {REPLAYED} }}", printed_steps(jobs, job_id)))

    # -- a person at it -----------------------------------------------------------------------------

    def focus(self) -> None:
        self.page.evaluate("() => window.term.focus()")

    def has_focus(self) -> bool:
        return bool(self.page.evaluate("() => document.activeElement === window.term.textarea"))

    def type(self, text: str) -> None:
        self.focus()
        self.page.keyboard.type(text)

    def press(self, *keys: str) -> None:
        self.focus()
        for key in keys:
            self.page.keyboard.press(key)

    def paste(self, text: str) -> None:
        self.focus()
        self.page.evaluate(
            """(text) => { const clipboardData = new DataTransfer();
            clipboardData.setData("text/plain", text);
            window.term.textarea.dispatchEvent(
              new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true })); }""",
            text,
        )

    def click(self, column: int, row: int) -> None:
        self.page.mouse.click(*self.page.evaluate(CELL, [column, row]))

    def click_link(self, column: int, row: int) -> None:
        """xterm.js knows a link when the mouse has moved over it."""

        def is_known() -> bool:
            for each in (column + 1, column):
                self.page.mouse.move(*self.page.evaluate(CELL, [each, row]))
            return self.page.locator(".xterm-cursor-pointer").count() > 0

        wait_until(is_known, "it is a link")
        self.page.mouse.down()
        self.page.mouse.up()

    def button(self, name: str) -> Any:
        return self.page.locator(".tty").get_by_role("button", name=name, exact=True)


def printed_steps(jobs: Jobs, job_id: str) -> Sequence[tuple[int, int, str]]:
    """The sizes of a job's terminal, each with what was printed while it had that size."""
    snapshot = Snapshot(jobs.context, job_id)
    printed = snapshot.read(lambda log: b"".join(piece.data for piece in log.forward(STDOUT, 0, log.end)))
    sizes = [*jobs.store.terminal_sizes(snapshot.job)]
    ends = [*(at for at, _, _ in sizes[1:]), len(printed)]
    return [
        (rows, cols, b64encode(printed[at:end]).decode())
        for (at, rows, cols), end in zip(sizes, ends, strict=True)
    ]
