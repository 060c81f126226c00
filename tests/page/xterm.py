"""A terminal of the page, as xterm.js has it: what stands in its cells, and what it sends to its job."""

from typing import Any

from playwright.sync_api import Page

# Runs before the page's own scripts: the terminal that the page opens last is `window.term`.
REMEMBER_TERMINALS = """
import("/page/vendor/xterm.mjs").then(({ Terminal }) => {
  const open = Terminal.prototype.open;
  Terminal.prototype.open = function (place) {
    window.term = this;
    open.call(this, place);
  };
}, () => {});
"""
LINES = """() => { const { active } = window.term.buffer;
  return Array.from({ length: window.term.rows }, (_, y) => active.getLine(active.baseY + y).translateToString(true)); }"""
HAS_TEXT = """(text) => { const { active } = window.term?.buffer ?? {}; let all = "";
  for (let y = 0; y < (active?.length ?? 0); y++) {
    const line = active.getLine(y), next = active.getLine(y + 1);
    all += line.translateToString(!next?.isWrapped) + (next?.isWrapped ? "" : "\\n");
  }
  return all.includes(text); }"""


class XTerm:
    def __init__(self, page: Page) -> None:
        self.page = page

    def open(self, origin: str, job_id: str) -> None:
        self.page.goto(f"{origin}/?job={job_id}&view=terminal")
        self.wait_for_state("looks", "holds", "over")

    def wait_for_state(self, *states: str) -> None:
        self.page.wait_for_selector(", ".join(f".tty[data-state={state}]" for state in states))

    @property
    def who(self) -> str:
        return self.page.locator(".tty .who").inner_text()

    @property
    def lines(self) -> list[str]:
        lines: list[str] = self.page.evaluate(LINES)
        return lines

    @property
    def size(self) -> tuple[int, int]:
        rows, cols = self.page.evaluate("() => [window.term.rows, window.term.cols]")
        return rows, cols

    def wait_for(self, text: str) -> None:
        """In a line of the screen, or of what has scrolled out of it."""
        self.page.wait_for_function(HAS_TEXT, arg=text)

    def focus(self) -> None:
        self.page.evaluate("() => window.term.focus()")

    def type(self, text: str) -> None:
        self.focus()
        self.page.keyboard.type(text)

    def press(self, *keys: str) -> None:
        self.focus()
        for key in keys:
            self.page.keyboard.press(key)

    def evaluate(self, script: str, argument: Any = None) -> Any:
        return self.page.evaluate(script, argument)
