"""The terminal of `bgjob top`: taken when it begins, given back however it ends, and written to safely."""

import contextlib
import curses
import os
import signal
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Literal, Self

from bgjob.cli.top.text import visible
from bgjob.core.errors import BgjobError
from bgjob.output.tty_text import cut

Style = Literal["plain", "strong", "faint", "heading", "selected", "asking", "running", "failed"]
# of curses, and a colour where there are colours
STYLES: Mapping[Style, tuple[int, int | None]] = {
    "plain": (curses.A_NORMAL, None),
    "strong": (curses.A_BOLD, None),
    "faint": (curses.A_DIM, None),
    "heading": (curses.A_DIM, None),
    "selected": (curses.A_REVERSE, None),
    "asking": (curses.A_BOLD, curses.COLOR_YELLOW),
    "running": (curses.A_NORMAL, curses.COLOR_GREEN),
    "failed": (curses.A_NORMAL, curses.COLOR_RED),
}
PLAINER = str.maketrans({"…": "~", "─": "-", "·": "-", "▸": ">"})
# of a long text, no more is looked at
MOST_PER_COLUMN = 4


class NoScreen(BgjobError):
    def __init__(self, why: str) -> None:
        super().__init__(f"top {why}.", "bgjob ps prints the list once, bgjob ps --watch again and again.")


class Screen:
    """A context manager. NoScreen: the terminal is none that can be drawn on."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._has_colours = not environ.get("NO_COLOR")
        self._attributes: dict[Style, int] = {}
        try:
            curses.setupterm(environ.get("TERM") or "unknown", 1)
        except curses.error:
            raise NoScreen(f"does not know this terminal: TERM is {environ.get('TERM', '')!r}") from None
        if not curses.tigetstr("cup"):
            raise NoScreen(f"needs a terminal that can place its cursor, not {environ.get('TERM')!r}")

    def __enter__(self) -> Self:
        before = signal.getsignal(signal.SIGTSTP)
        self._window = curses.initscr()
        signal.signal(signal.SIGTSTP, before)  # curses has set its own, which would end in a thread
        self.take()
        self.is_utf8 = self._window.encoding.lower().replace("-", "") == "utf8"
        self._choose_colours()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()

    def take(self) -> None:
        curses.noecho()
        curses.raw()  # ctrl-c and ctrl-z come as keys: the terminal is given back first
        curses.nonl()
        with contextlib.suppress(curses.error):  # some cannot hide it
            curses.curs_set(0)

    def _give_back(self) -> None:
        if not curses.tigetstr("rmcup"):  # what is drawn stays: the shell goes on in an empty row
            self._window.move(self.size[0] - 1, 0)
            self._window.clrtoeol()
            self.show()
        with contextlib.suppress(curses.error):
            curses.curs_set(1)
        with contextlib.suppress(curses.error):  # the terminal is gone
            curses.endwin()

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """The terminal is another's meanwhile, as it was before we took it."""
        self._give_back()
        try:
            yield
        finally:
            self.take()
            self.resize()

    def _choose_colours(self) -> None:
        has_colours = self._has_colours and curses.has_colors()
        if has_colours:
            curses.start_color()
            curses.use_default_colors()
        for pair, (style, (attribute, colour)) in enumerate(STYLES.items(), 1):
            if has_colours and colour is not None:
                curses.init_pair(pair, colour, -1)
                attribute |= curses.color_pair(pair)
            self._attributes[style] = attribute

    # -- drawing ------------------------------------------------------------------------------------

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._window.getmaxyx()

    def resize(self) -> None:
        """The terminal may have another size, or show what is not ours: all is drawn again."""
        with contextlib.suppress(OSError, curses.error):
            size = os.get_terminal_size(1)
            curses.resizeterm(size.lines, size.columns)
        self._window.clearok(True)

    def clear(self) -> None:
        self._window.erase()

    def put(
        self, row: int, column: int, text: str, style: Style = "plain", columns: int | None = None
    ) -> None:
        """Text of any origin. What does not fit into so many columns, or the row, is cut off."""
        rows, wide = self.size
        room = min(wide - column, wide if columns is None else columns)
        if not 0 <= row < rows or room <= 0:
            return
        shown = self._encodable(cut(visible(text[: MOST_PER_COLUMN * room]), room))
        with contextlib.suppress(
            curses.error
        ):  # the last cell of the screen: the cursor has no place behind it
            self._window.addstr(row, column, shown, self._attributes[style])

    def fill(self, row: int, style: Style) -> None:
        """A row in one style, under what is put there later."""
        self.put(row, 0, " " * self.size[1], style)

    def show(self) -> None:
        self._window.refresh()

    def _encodable(self, text: str) -> str:
        if self.is_utf8:
            return text
        encoding = self._window.encoding
        return text.translate(PLAINER).encode(encoding, "replace").decode(encoding)
