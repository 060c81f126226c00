"""The page of a terminal: what is drawn, where the cursor is, what scrolls.

pyte keeps the grid, the cursor, the tabs and the margins. The drawing is ours: pyte has no alternate screen,
no scrolling by CSI S and T, no repeats and no line drawing, and it draws some input in quadratic time.
How a cell looks is kept as SGR sets it, see style.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from bgjob.terminal import cells
from bgjob.terminal.painting import Picture, styled_text
from bgjob.terminal.size import drawable
from bgjob.terminal.style import DEFAULT, PLAIN, Style, highlights, styled

# In code points: a letter and its accents.
LONGEST_CELL = 8
# Of which the cells are kept; a picture in 24-bit colours has many more.
MOST_STYLES = 1000
# pyte's numbers: a private mode is shifted by five.
_INSERT, _NEWLINE, _APPLICATION_CURSOR, _ORIGIN, _WRAP, _VISIBLE = 4, 20, 1 << 5, 6 << 5, 7 << 5, 25 << 5


# Modes that a fresh terminal has not, and those that it has.
_SET_BY = {_INSERT: "\x1b[4h", _NEWLINE: "\x1b[20h", _APPLICATION_CURSOR: "\x1b[?1h", _ORIGIN: "\x1b[?6h"}
_RESET_BY = {_WRAP: "\x1b[?7l", _VISIBLE: "\x1b[?25l"}
# The foreground of a cell that has none: of pyte's own, and of one that is not known.
_NO_STYLE = (DEFAULT, "unknown")


def _style_of(cell: Any) -> Style:
    return Style(cell.bg, cell.reverse, "" if cell.fg in _NO_STYLE else cell.fg)


@dataclass(frozen=True)
class Screen:
    lines: list[str]
    """Without blanks at their ends, and without empty lines at the end."""
    cursor_row: int
    cursor_column: int
    """Both count from 1."""
    title: str
    is_alternate: bool
    """A full-screen program has put its own page over the main one."""
    application_cursor: bool
    """The program has switched the arrow keys to application mode, see keys."""
    hidden_cursor: bool
    highlight: list[str]
    """The texts that stand out, as the selected line of a menu does; the first few."""
    exact: bool = True
    """False: a part of it was drawn before the replay began, and not since: it is blank here."""


@dataclass(frozen=True)
class SavedCursor:
    """What ESC 7 saves."""

    x: int = 0
    y: int = 0
    origin: bool = False
    drawing: tuple[bool, bool] = (False, False)
    shift: bool = False
    style: Style = PLAIN


def _charsets(drawing: Sequence[bool], shift: bool) -> str:
    """What chooses these character sets on a terminal that has ASCII."""
    return "\x1b(0" * drawing[0] + "\x1b)0" * drawing[1] + "\x0e" * shift


def _look(saved: SavedCursor) -> str:
    return saved.style.sequence + _charsets(saved.drawing, saved.shift)


class Page:
    """The cost of a byte is bounded by the size of the screen, whatever is drawn."""

    def __init__(self, rows: int, columns: int) -> None:
        import pyte
        from pyte.charsets import VT100_MAP
        from pyte.screens import Char, wcwidth

        rows, columns = drawable(rows, columns)
        self._grid: Any = pyte.Screen(columns, rows)
        self._other_page: Any = pyte.Screen(columns, rows).buffer
        self._width: Callable[[str], int] = wcwidth
        self._line_drawing: str = VT100_MAP
        self._char = Char
        self._cells_by_style: dict[Style, cells.Cells] = {}
        self._unknown: Any = Char(" ", fg="unknown")
        self._is_alternate = False
        # Whether G0 and G1 draw lines, and whether G1 is in use.
        self._drawing, self._shift = [False, False], False
        self._saved, self._main_cursor = SavedCursor(), (0, 0)
        self.reset()

    def resize(self, rows: int, columns: int) -> None:
        """Lines below the cursor go first, then those at the top; nothing is wrapped anew."""
        rows, columns = drawable(rows, columns)
        grid, cursor = self._grid, self._grid.cursor
        cells.resize(grid.buffer, cursor.y, grid.lines, rows, columns)
        cells.resize(self._other_page, self._main_cursor[1], grid.lines, rows, columns)
        cursor.y = min(cursor.y, rows - 1)
        cursor.x = min(cursor.x, columns - 1)
        grid.tabstops = {stop for stop in grid.tabstops if stop < columns}
        grid.tabstops.update(range((grid.columns + 7) // 8 * 8, columns, 8))
        grid.lines, grid.columns, grid.margins = rows, columns, None

    def forget(self) -> None:
        """Whatever was drawn up to now is not known: every cell, until it is drawn or erased."""
        line = dict.fromkeys(range(self._grid.columns), self._unknown)
        for page in (self._grid.buffer, self._other_page):
            for y in range(self._grid.lines):
                page[y].update(line)

    def screen(self) -> Screen:
        grid = self._grid
        lines = [self._text(y) for y in range(grid.lines)]
        while lines and not lines[-1]:
            lines.pop()
        return Screen(
            lines=lines,
            cursor_row=grid.cursor.y + 1,
            cursor_column=min(grid.cursor.x, grid.columns - 1) + 1,
            title=self.title,
            is_alternate=self._is_alternate,
            application_cursor=_APPLICATION_CURSOR in grid.mode,
            hidden_cursor=_VISIBLE not in grid.mode,
            highlight=highlights(
                [grid.buffer[y] for y in range(grid.lines) if y in grid.buffer], self._text_of_cells
            ),
            exact=not any(self._unknown in line.values() for line in grid.buffer.values()),
        )

    def picture(self) -> Picture:
        """All that brings another terminal of this size into the state of this one."""
        grid, cursor, mode = self._grid, self._grid.cursor, self._grid.mode
        shown, other = self._styled_rows(grid.buffer), self._styled_rows(self._other_page)
        column, wraps_next = self._end_of_row() if cursor.x >= grid.columns else (cursor.x, "")
        saved = self._saved
        return Picture(
            main=other if self._is_alternate else shown,
            alternate=shown if self._is_alternate else None,
            main_cursor=(self._main_cursor[1] + 1, self._main_cursor[0] + 1),
            cursor=(cursor.y + 1, column + 1),
            saved=(saved.y + 1, min(saved.x, grid.columns - 1) + 1, _look(saved)),
            style=self._style.sequence,
            margins=(grid.margins[0] + 1, grid.margins[1] + 1) if grid.margins else None,
            modes=list(self._mode_sequences()),
            wraps_next=wraps_next,
            charsets=_charsets(self._drawing, self._shift),
            title=self.title,
            is_origin=_ORIGIN in mode,
        )

    def _mode_sequences(self) -> Iterator[str]:
        mode = self._grid.mode
        for number, sequence in _SET_BY.items():
            if number in mode:
                yield sequence
        yield from (sequence for number, sequence in _RESET_BY.items() if number not in mode)

    def _end_of_row(self) -> tuple[int, str]:
        """The last character of the cursor's row, and its column: drawn again, the next begins a new row."""
        line, x = self._grid.buffer[self._grid.cursor.y], self._grid.columns - 1
        if x and not line[x].data:
            x -= 1  # a wide one
        cell = line[x]
        return x, f"{_style_of(cell).sequence}{cell.data or ' '}\x1b[0m"

    def rows(self) -> list[str]:
        """What is shown, row by row, as styled text."""
        return self._styled_rows(self._grid.buffer)

    def _styled_rows(self, page: cells.Lines) -> list[str]:
        return [self._styled_row(page[y]) if y in page else "" for y in range(self._grid.lines)]

    def _styled_row(self, line: cells.Line) -> str:
        """Up to the last cell that can be seen."""
        styles = {x: _style_of(cell) for x, cell in line.items()}
        texts = cells.texts_of(line, self._grid.columns, self._width)
        row = [(text, styles.get(x, PLAIN).sequence) for x, text in enumerate(texts)]
        while row and row[-1] == (" ", ""):
            row.pop()
        return styled_text(row)

    def _text(self, y: int) -> str:
        page = self._grid.buffer
        return cells.text_of(page[y], self._grid.columns, self._width) if y in page else ""

    def _text_of_cells(self, line: cells.Line) -> str:
        return cells.text_of(line, len(line), self._width)

    # Drawing

    def paint(self, sgr: str) -> None:
        self._set_style(styled(self._style, sgr))

    def _set_style(self, style: Style) -> None:
        self._style = style
        if style not in self._cells_by_style:
            if len(self._cells_by_style) >= MOST_STYLES:
                self._cells_by_style.clear()
            make = partial(self._char, fg=style.others, bg=style.background, reverse=style.reverse)
            self._cells_by_style[style] = cells.Cells(make)
        self._cells = self._cells_by_style[style]

    def draw(self, text: str) -> None:
        if self._drawing[self._shift]:
            text = text.translate(self._line_drawing)
        self._last_drawn = text[-1]
        if text.isascii():
            self._draw_narrow(text)
            return
        for width, run in groupby(text, self._width):
            if width == 1:
                self._draw_narrow("".join(run))
            elif width == 2:
                for char in run:
                    self._draw_wide(char)
            elif width == 0:
                for mark in run:
                    self._combine(mark)

    def _draw_narrow(self, text: str) -> None:
        grid, cursor = self._grid, self._grid.cursor
        wraps, cell_of = _WRAP in grid.mode, self._cells.__getitem__
        while text:
            self._make_room(1)
            part = text[: grid.columns - cursor.x]
            text = text[len(part) :]
            if not wraps and text:
                part, text = part[:-1] + text[-1], ""
            if _INSERT in grid.mode:
                self.insert_cells(len(part))
            end = cursor.x + len(part)
            grid.buffer[cursor.y].update(enumerate(map(cell_of, part), cursor.x))
            cursor.x = end

    def _draw_wide(self, char: str) -> None:
        grid, cursor = self._grid, self._grid.cursor
        if grid.columns < 2:
            return
        self._make_room(2)
        if _INSERT in grid.mode:
            self.insert_cells(2)
        line = grid.buffer[cursor.y]
        line[cursor.x], line[cursor.x + 1] = self._cells[char], self._cells[""]
        cursor.x += 2

    def _make_room(self, width: int) -> None:
        grid, cursor = self._grid, self._grid.cursor
        if cursor.x + width <= grid.columns:
            return
        if _WRAP in grid.mode:
            cursor.x = 0
            self.index()
        else:
            cursor.x = grid.columns - width

    def _combine(self, mark: str) -> None:
        cursor = self._grid.cursor
        line = self._grid.buffer[cursor.y]
        x = cursor.x - 1
        if x > 0 and not line[x].data:
            x -= 1
        if x >= 0 and len(line[x].data) < LONGEST_CELL:
            line[x] = self._cells[(line[x].data or " ") + mark]

    def repeat(self, count: int) -> None:
        room = self._grid.columns - self._grid.cursor.x
        if self._last_drawn and room:
            self.draw(self._last_drawn * min(count, room))

    def choose_characters(self, second: bool, line_drawing: bool) -> None:
        """Whether the first or second character set (G0, G1) draws lines."""
        self._drawing[second] = line_drawing

    def shift(self, second: bool) -> None:
        self._shift = second

    def keep_inside(self) -> None:
        """Put the cursor back onto the page, after pyte has raised."""
        cursor, grid = self._grid.cursor, self._grid
        cursor.x, cursor.y = max(0, min(cursor.x, grid.columns - 1)), max(0, min(cursor.y, grid.lines - 1))

    # Moving

    def newlines(self, count: int) -> None:
        self.index(count)
        if _NEWLINE in self._grid.mode:
            self._grid.cursor.x = 0

    def to_start(self) -> None:
        self._grid.cursor.x = 0

    def back(self, count: int = 1) -> None:
        self._grid.cursor_back(count)

    def forward(self, count: int) -> None:
        self._grid.cursor_forward(count)

    def to_column(self, column: int) -> None:
        self._grid.cursor_to_column(column)

    def up(self, count: int) -> None:
        cursor, (top, _) = self._grid.cursor, self._margins()
        cursor.y = max(cursor.y - count, top if cursor.y >= top else 0)
        cursor.x = min(cursor.x, self._grid.columns - 1)

    def down(self, count: int) -> None:
        cursor, (_, bottom) = self._grid.cursor, self._margins()
        cursor.y = min(cursor.y + count, bottom if cursor.y <= bottom else self._grid.lines - 1)
        cursor.x = min(cursor.x, self._grid.columns - 1)

    def up_to_start(self, count: int) -> None:
        self.up(count)
        self._grid.cursor.x = 0

    def down_to_start(self, count: int) -> None:
        self.down(count)
        self._grid.cursor.x = 0

    def tabs_forward(self, count: int) -> None:
        for _ in range(min(count, self._grid.columns)):
            self._grid.tab()

    def tabs_back(self, count: int) -> None:
        cursor = self._grid.cursor
        stops = sorted(stop for stop in self._grid.tabstops if stop < cursor.x)
        cursor.x = stops[-count] if count <= len(stops) else 0

    def to_line(self, line: int) -> None:
        self.to_position([line, self._grid.cursor.x + 1])

    def to_position(self, numbers: Sequence[int]) -> None:
        line, column = (numbers[0] or 1), (numbers[1] if len(numbers) > 1 else 0)
        if _ORIGIN in self._grid.mode:
            top, bottom = self._margins()
            line = min(line, bottom - top + 1)
        self._grid.cursor_position(line, column)

    def set_margins(self, numbers: Sequence[int]) -> None:
        self._grid.set_margins(numbers[0] or 1, (numbers[1] if len(numbers) > 1 else 0) or self._grid.lines)

    def _margins(self) -> tuple[int, int]:
        return self._grid.margins or (0, self._grid.lines - 1)

    def save_cursor(self, _numbers: Sequence[int] = ()) -> None:
        cursor = self._grid.cursor
        origin = _ORIGIN in self._grid.mode
        self._saved = SavedCursor(
            cursor.x, cursor.y, origin, (self._drawing[0], self._drawing[1]), self._shift, self._style
        )

    def restore_cursor(self, _numbers: Sequence[int] = ()) -> None:
        grid, saved = self._grid, self._saved
        (grid.mode.add if saved.origin else grid.mode.discard)(_ORIGIN)
        self._put_cursor(saved.x, saved.y)
        self._drawing, self._shift = list(saved.drawing), saved.shift
        self._set_style(saved.style)

    def _put_cursor(self, x: int, y: int) -> None:
        grid = self._grid
        grid.cursor.x, grid.cursor.y = min(x, grid.columns), min(y, grid.lines - 1)

    # Scrolling

    def index(self, count: int = 1) -> None:
        cursor, (top, bottom) = self._grid.cursor, self._margins()
        if cursor.y > bottom:
            cursor.y = min(cursor.y + count, self._grid.lines - 1)
        elif cursor.y + count <= bottom:
            cursor.y += count
        else:
            self._scroll(top, cursor.y + count - bottom)
            cursor.y = bottom

    def next_line(self) -> None:
        self._grid.cursor.x = 0
        self.index()

    def reverse_index(self) -> None:
        if self._grid.cursor.y == self._margins()[0]:
            self.scroll_down(1)
        elif self._grid.cursor.y > 0:
            self._grid.cursor.y -= 1

    def scroll_up(self, count: int) -> None:
        self._scroll(self._margins()[0], count)

    def scroll_down(self, count: int) -> None:
        self._scroll(self._margins()[0], -count)

    def insert_lines(self, count: int) -> None:
        self.delete_lines(-count)

    def delete_lines(self, count: int) -> None:
        (top, bottom), cursor = self._margins(), self._grid.cursor
        if top <= cursor.y <= bottom:
            self._scroll(cursor.y, count)
            cursor.x = 0

    def _scroll(self, top: int, count: int) -> None:
        bottom = self._margins()[1]
        cells.scroll(self._grid.buffer, top, bottom, count)
        if self._style.background != DEFAULT:
            new = range(max(top, bottom - count + 1), bottom + 1) if count > 0 else range(top, top - count)
            for y in new[: self._grid.lines]:
                self._fill_line(min(y, bottom), 0, self._grid.columns - 1)

    # Erasing, inserting

    def erase_in_display(self, numbers: Sequence[int]) -> None:
        grid, y, how = self._grid, self._grid.cursor.y, numbers[0]
        if how not in (0, 1, 2):
            return
        erased = range(y + 1 if how == 0 else 0, y if how == 1 else grid.lines)
        for other in [other for other in grid.buffer if other in erased]:
            del grid.buffer[other]
        if self._style.background != DEFAULT:
            for other in erased:
                self._fill_line(other, 0, grid.columns - 1)
        if how != 2:
            self.erase_in_line(numbers)

    def erase_in_line(self, numbers: Sequence[int]) -> None:
        grid, cursor = self._grid, self._grid.cursor
        how = numbers[0]
        if how in (0, 1, 2):
            first = cursor.x if how == 0 else 0
            last = cursor.x if how == 1 else grid.columns
            self._blank(first, last)

    def erase_cells(self, count: int) -> None:
        self._blank(self._grid.cursor.x, self._grid.cursor.x + count - 1)

    def _blank(self, first: int, last: int) -> None:
        """What is erased gets the background that is set, as the terminals do that jobs are told of (bce)."""
        cells.blank(self._line(), first, last)
        if self._style.background != DEFAULT:
            self._fill_line(self._grid.cursor.y, first, min(last, self._grid.columns - 1))

    def _fill_line(self, y: int, first: int, last: int) -> None:
        blank = self._char(" ", fg="", bg=self._style.background)
        self._grid.buffer[y].update(dict.fromkeys(range(first, last + 1), blank))

    def insert_cells(self, count: int) -> None:
        cells.insert(self._line(), self._grid.cursor.x, count, self._grid.columns)

    def delete_cells(self, count: int) -> None:
        cells.delete(self._line(), self._grid.cursor.x, count, self._grid.columns)

    def _line(self) -> cells.Line:
        line: cells.Line = self._grid.buffer[self._grid.cursor.y]
        return line

    def fill(self) -> None:
        grid = self._grid
        grid.margins = None
        grid.cursor_position()
        line = dict.fromkeys(range(grid.columns), self._cells["E"])
        for y in range(grid.lines):
            grid.buffer[y].update(line)

    # Modes and pages

    def clear_tabs(self, numbers: Sequence[int]) -> None:
        self._grid.clear_tab_stop(numbers[0])

    def set_tab(self) -> None:
        self._grid.set_tab_stop()

    def set_modes(self, numbers: Sequence[int]) -> None:
        self._grid.set_mode(*(number for number in numbers if number in (_INSERT, _NEWLINE)))

    def reset_modes(self, numbers: Sequence[int]) -> None:
        self._grid.reset_mode(*(number for number in numbers if number in (_INSERT, _NEWLINE)))

    def set_private_modes(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if number in (1, 6, 7, 25):
                self._grid.set_mode(number, private=True)
            elif number == 1048:
                self.save_cursor()
            elif number in (47, 1047, 1049) and not self._is_alternate:
                self._main_cursor = self._grid.cursor.x, self._grid.cursor.y
                self._switch_page()
                if number == 1049:
                    self._grid.buffer.clear()

    def reset_private_modes(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if number in (1, 6, 7, 25):
                self._grid.reset_mode(number, private=True)
            elif number == 1048:
                self.restore_cursor()
            elif number in (47, 1047, 1049) and self._is_alternate:
                if number == 1047:
                    self._grid.buffer.clear()
                self._switch_page()
                if number == 1049:
                    self._put_cursor(*self._main_cursor)

    def put_beneath(self, main: "Page") -> None:
        """What that page shows is what comes back when the alternate page is left."""
        if self._is_alternate:
            main.resize(self._grid.lines, self._grid.columns)
            self._other_page = main._grid.buffer
            self._main_cursor = main._grid.cursor.x, main._grid.cursor.y

    def _switch_page(self) -> None:
        """The pages share cursor, margins and modes."""
        self._grid.buffer, self._other_page = self._other_page, self._grid.buffer
        self._is_alternate = not self._is_alternate

    def reset(self) -> None:
        self._other_page.clear()
        self._grid.reset()
        self._is_alternate = False
        self.title = self._last_drawn = ""
        self.soft_reset()

    def soft_reset(self, _numbers: Sequence[int] = ()) -> None:
        self._grid.margins = None
        self._grid.mode = {_WRAP, _VISIBLE}
        self._drawing, self._shift = [False, False], False
        self._saved = SavedCursor()
        self._set_style(PLAIN)
