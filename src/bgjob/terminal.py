"""A terminal that only shows: bytes go in, a screen of text comes out.

pyte keeps the grid, the cursor, the tabs and the margins. The parser is ours: pyte's draws the insides of DCS strings
and of newer CSI sequences as text, raises on others, knows no alternate screen, no scrolling by CSI S and T, no
repeats and no line drawing, and its way of drawing takes quadratic time for some input. Colours are not kept.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

MOST_ROWS_OR_COLUMNS = 500
LONGEST_TITLE = 256
LONGEST_CELL = 8  # code points: a letter and its accents
LONGEST_HELD_BACK = 4096

Size = tuple[int, int]  # rows, columns


@dataclass(frozen=True)
class Screen:
    lines: list[str]  # without blanks at their ends, and without empty lines at the end
    cursor_row: int  # from 1
    cursor_column: int  # from 1
    title: str
    is_alternate: bool  # a full-screen program has put its own page over the main one
    application_cursor: bool  # what the arrow keys send, see keys
    hidden_cursor: bool
    exact: bool = True  # False: what was drawn before the replay began, and not since, is not in it


_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|\x1b\[(?P<csi>[0-?]*+[ -/]*+[@-~])"
    r"|(?P<newlines>[\n\v\f]++)"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f-\x9f])"
    r"|\x1b\](?P<osc>[^\x07\x18\x1a\x1b]*+)(?:\x07|\x1b\\)?"
    r"|\x1b[PX^_k][^\x18\x1a\x1b]*+(?:\x1b\\)?"
    r"|\x1b\[[0-?]*+[ -/]*+"
    r"|\x1b(?P<escape>[ -/]*+[0-~])"
    r"|\x1b"
)
_UNFINISHED = re.compile(
    r"\x1b(?:\[[0-?]*+[ -/]*+|\][^\x07\x18\x1a\x1b]*+|[PX^_k][^\x18\x1a\x1b]*+|[ -/]*+)\Z"
)
_STRING_END = re.compile(r"[\x07\x18\x1a\x1b]")
_PYTE_FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)

# pyte's numbers: a private mode is shifted by five
_INSERT, _NEWLINE, _APPLICATION_CURSOR, _ORIGIN, _WRAP, _VISIBLE = 4, 20, 1 << 5, 6 << 5, 7 << 5, 25 << 5


class Terminal:
    """A terminal that only shows. Costs per byte are bounded by the size of the screen, whatever the bytes."""

    def __init__(self, rows: int, columns: int) -> None:
        import pyte
        from pyte.charsets import VT100_MAP
        from pyte.screens import Char, wcwidth

        rows, columns = _sane(rows), _sane(columns)
        self._grid: Any = pyte.Screen(columns, rows)
        self._other_page: Any = pyte.Screen(columns, rows).buffer
        self._width: Callable[[str], int] = wcwidth
        self._line_drawing: str = VT100_MAP
        self._cells = _Cells(Char)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held_back = ""  # an escape sequence whose end has not come
        self._in_string = False  # its end has not come, and it is too long to be held back
        self._is_alternate = False
        self._drawing, self._shift = [False, False], False  # G0 and G1 draw lines; G1 is in use
        self._saved, self._main_cursor = _Saved(), (0, 0)  # by ESC 7; by entering the alternate page
        self._reset()

    def feed(self, data: bytes) -> None:
        text = self._held_back + self._decoder.decode(data)
        self._held_back = ""
        begin = self._after_string(text)
        end = self._before_unfinished(text, begin)
        tokens = _TOKEN.finditer(text, begin, end)
        while not self._execute(tokens):
            pass

    def resize(self, rows: int, columns: int) -> None:
        """Lines below the cursor go first, then those at the top; nothing is wrapped anew."""
        rows, columns = _sane(rows), _sane(columns)
        grid, cursor = self._grid, self._grid.cursor
        self._resize_page(grid.buffer, cursor.y, rows, columns)
        self._resize_page(self._other_page, self._main_cursor[1], rows, columns)
        cursor.y = min(cursor.y, rows - 1)
        cursor.x = min(cursor.x, columns - 1)
        grid.tabstops = {stop for stop in grid.tabstops if stop < columns}
        grid.tabstops.update(range((grid.columns + 7) // 8 * 8, columns, 8))
        grid.lines, grid.columns, grid.margins = rows, columns, None

    def screen(self) -> Screen:
        grid = self._grid
        lines = [self._line(y) for y in range(grid.lines)]
        while lines and not lines[-1]:
            lines.pop()
        return Screen(
            lines=lines,
            cursor_row=grid.cursor.y + 1,
            cursor_column=min(grid.cursor.x, grid.columns - 1) + 1,
            title=self._title,
            is_alternate=self._is_alternate,
            application_cursor=_APPLICATION_CURSOR in grid.mode,
            hidden_cursor=_VISIBLE not in grid.mode,
        )

    # Reading

    def _after_string(self, text: str) -> int:
        if not self._in_string:
            return 0
        end = _STRING_END.search(text)
        self._in_string = end is None
        return end.start() if end else len(text)

    def _before_unfinished(self, text: str, begin: int) -> int:
        last = text.rfind("\x1b", begin)
        if last < 0 or not _UNFINISHED.match(text, last):
            return len(text)
        if len(text) - last <= LONGEST_HELD_BACK:
            self._held_back = text[last:]
            return last
        self._in_string = text[last + 1] in "]PX^_k"
        return len(text)

    def _execute(self, tokens: Iterable[re.Match[str]]) -> bool:
        """False: pyte raised; the tokens after the one it cannot bear are still there."""
        try:
            for token in tokens:
                kind = token.lastgroup
                if kind == "text":
                    self._draw(token[0])
                elif kind == "csi":
                    self._csi(token["csi"])
                elif kind == "newlines":
                    self._newlines(len(token[0]))
                elif kind == "control":
                    self._control(token[0])
                elif kind == "escape":
                    self._escape(token["escape"])
                elif kind == "osc":
                    self._osc(token["osc"])
        except _PYTE_FAULTS:
            cursor, grid = self._grid.cursor, self._grid
            cursor.x, cursor.y = _within(cursor.x, grid.columns), _within(cursor.y, grid.lines)
            return False
        return True

    def _newlines(self, count: int) -> None:
        self._index(count)
        if _NEWLINE in self._grid.mode:
            self._grid.cursor.x = 0

    def _control(self, control: str) -> None:
        if control == "\r":
            self._grid.cursor.x = 0
        elif control == "\b":
            self._grid.cursor_back()
        elif control == "\t":
            self._grid.tab()
        elif control in "\x0e\x0f":
            self._shift = control == "\x0e"

    def _csi(self, body: str) -> None:
        if body[-1] == "m":
            return  # colours
        kind, numbers = _parsed(body)
        if kind in _MOVES:
            _MOVES[kind](self, numbers[0] or 1)
        elif kind in _OTHERS:
            _OTHERS[kind](self, numbers)

    def _escape(self, sequence: str) -> None:
        if sequence in _ESCAPES:
            _ESCAPES[sequence](self)
        elif len(sequence) == 2 and sequence[0] in "()":
            self._drawing[sequence[0] == ")"] = sequence[1] == "0"

    def _osc(self, body: str) -> None:
        if body.startswith(("0;", "2;")):
            self._title = "".join(char for char in body[2 : 2 + LONGEST_TITLE] if char.isprintable())

    # Drawing

    def _draw(self, text: str) -> None:
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
                self._draw_each(self._draw_wide, run)
            elif width == 0:
                self._draw_each(self._combine, run)

    def _draw_each(self, draw: Callable[[str], None], run: Iterable[str]) -> None:
        for char in run:
            draw(char)

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
                self._insert_cells(len(part))
            end = cursor.x + len(part)
            grid.buffer[cursor.y].update(enumerate(map(cell_of, part), cursor.x))
            cursor.x = end

    def _draw_wide(self, char: str) -> None:
        grid, cursor = self._grid, self._grid.cursor
        if grid.columns < 2:
            return
        self._make_room(2)
        if _INSERT in grid.mode:
            self._insert_cells(2)
        line = grid.buffer[cursor.y]
        line[cursor.x], line[cursor.x + 1] = self._cells[char], self._cells[""]
        cursor.x += 2

    def _make_room(self, width: int) -> None:
        grid, cursor = self._grid, self._grid.cursor
        if cursor.x + width <= grid.columns:
            return
        if _WRAP in grid.mode:
            cursor.x = 0
            self._index()
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

    def _repeat(self, count: int) -> None:
        room = self._grid.columns - self._grid.cursor.x
        if self._last_drawn and room:
            self._draw(self._last_drawn * min(count, room))

    def _line(self, y: int) -> str:
        """A half of a wide character whose other half was overwritten is a blank."""
        if y not in self._grid.buffer:
            return ""
        line = self._grid.buffer[y]
        cells = [line[x].data for x in range(self._grid.columns)]
        text = "".join(cells)
        if len(text) < len(cells) or not text.isascii():
            for x, cell in enumerate(cells):
                before, after = cells[x - 1] if x else " ", cells[x + 1] if x + 1 < len(cells) else " "
                if (cell and after and self._is_wide(cell)) or (not cell and not self._is_wide(before)):
                    cells[x] = " "
            text = "".join(cells)
        return text.rstrip()

    def _is_wide(self, cell: str) -> bool:
        return cell != "" and self._width(cell[0]) == 2

    # Moving

    def _up(self, count: int) -> None:
        cursor, (top, _) = self._grid.cursor, self._margins()
        cursor.y = max(cursor.y - count, top if cursor.y >= top else 0)
        cursor.x = min(cursor.x, self._grid.columns - 1)

    def _down(self, count: int) -> None:
        cursor, (_, bottom) = self._grid.cursor, self._margins()
        cursor.y = min(cursor.y + count, bottom if cursor.y <= bottom else self._grid.lines - 1)
        cursor.x = min(cursor.x, self._grid.columns - 1)

    def _up_to_start(self, count: int) -> None:
        self._up(count)
        self._grid.cursor.x = 0

    def _down_to_start(self, count: int) -> None:
        self._down(count)
        self._grid.cursor.x = 0

    def _tabs_forward(self, count: int) -> None:
        for _ in range(min(count, self._grid.columns)):
            self._grid.tab()

    def _tabs_back(self, count: int) -> None:
        cursor = self._grid.cursor
        stops = sorted(stop for stop in self._grid.tabstops if stop < cursor.x)
        cursor.x = stops[-count] if count <= len(stops) else 0

    def _to_line(self, line: int) -> None:
        self._to_position([line, self._grid.cursor.x + 1])

    def _to_position(self, numbers: Sequence[int]) -> None:
        line, column = (numbers[0] or 1), (numbers[1] if len(numbers) > 1 else 0)
        if _ORIGIN in self._grid.mode:
            top, bottom = self._margins()
            line = min(line, bottom - top + 1)
        self._grid.cursor_position(line, column)

    def _set_margins(self, numbers: Sequence[int]) -> None:
        self._grid.set_margins(numbers[0] or 1, (numbers[1] if len(numbers) > 1 else 0) or self._grid.lines)

    def _margins(self) -> tuple[int, int]:
        return self._grid.margins or (0, self._grid.lines - 1)

    def _save_cursor(self, _numbers: Sequence[int] = ()) -> None:
        cursor = self._grid.cursor
        origin = _ORIGIN in self._grid.mode
        self._saved = _Saved(cursor.x, cursor.y, origin, (self._drawing[0], self._drawing[1]), self._shift)

    def _restore_cursor(self, _numbers: Sequence[int] = ()) -> None:
        grid, saved = self._grid, self._saved
        (grid.mode.add if saved.origin else grid.mode.discard)(_ORIGIN)
        self._put_cursor(saved.x, saved.y)
        self._drawing, self._shift = list(saved.drawing), saved.shift

    def _put_cursor(self, x: int, y: int) -> None:
        grid = self._grid
        grid.cursor.x, grid.cursor.y = min(x, grid.columns), min(y, grid.lines - 1)

    # Scrolling

    def _index(self, count: int = 1) -> None:
        cursor, (top, bottom) = self._grid.cursor, self._margins()
        if cursor.y > bottom:
            cursor.y = min(cursor.y + count, self._grid.lines - 1)
        elif cursor.y + count <= bottom:
            cursor.y += count
        else:
            self._scroll(top, cursor.y + count - bottom)
            cursor.y = bottom

    def _next_line(self) -> None:
        self._grid.cursor.x = 0
        self._index()

    def _reverse_index(self) -> None:
        if self._grid.cursor.y == self._margins()[0]:
            self._scroll_down(1)
        elif self._grid.cursor.y > 0:
            self._grid.cursor.y -= 1

    def _scroll_up(self, count: int) -> None:
        self._scroll(self._margins()[0], count)

    def _scroll_down(self, count: int) -> None:
        self._scroll(self._margins()[0], -count)

    def _insert_lines(self, count: int) -> None:
        self._delete_lines(-count)

    def _delete_lines(self, count: int) -> None:
        (top, bottom), cursor = self._margins(), self._grid.cursor
        if top <= cursor.y <= bottom:
            self._scroll(cursor.y, count)
            cursor.x = 0

    def _scroll(self, top: int, count: int) -> None:
        """The lines from here to the bottom margin move up, or down by a negative count."""
        rows = range(top, self._margins()[1] + 1)
        page = self._grid.buffer
        lines = list(map(page.__getitem__, rows))
        cut = min(count, len(rows)) if count > 0 else max(0, len(rows) + count)
        for line in lines[:cut] if count > 0 else lines[cut:]:
            line.clear()
        page.update(zip(rows, lines[cut:] + lines[:cut], strict=True))

    # Erasing, inserting

    def _erase_in_display(self, numbers: Sequence[int]) -> None:
        grid, y = self._grid, self._grid.cursor.y
        if numbers[0] == 2:
            grid.buffer.clear()
        elif numbers[0] in (0, 1):
            for other in list(grid.buffer):
                if (other > y) if numbers[0] == 0 else (other < y):
                    del grid.buffer[other]
            self._erase_in_line(numbers)

    def _erase_in_line(self, numbers: Sequence[int]) -> None:
        grid, cursor = self._grid, self._grid.cursor
        how = numbers[0]
        if how in (0, 1, 2):
            first = cursor.x if how == 0 else 0
            last = cursor.x if how == 1 else grid.columns
            self._blank(first, last)

    def _erase_cells(self, count: int) -> None:
        self._blank(self._grid.cursor.x, self._grid.cursor.x + count - 1)

    def _blank(self, first: int, last: int) -> None:
        line = self._grid.buffer[self._grid.cursor.y]
        for x in [x for x in line if first <= x <= last]:
            del line[x]

    def _insert_cells(self, count: int) -> None:
        line, at, columns = self._grid.buffer[self._grid.cursor.y], self._grid.cursor.x, self._grid.columns
        moved = {x + count: cell for x, cell in line.items() if at <= x < columns - count}
        self._blank(at, columns)
        line.update(moved)

    def _delete_cells(self, count: int) -> None:
        line, at = self._grid.buffer[self._grid.cursor.y], self._grid.cursor.x
        moved = {x - count: cell for x, cell in line.items() if x >= at + count}
        self._blank(at, self._grid.columns)
        line.update(moved)

    def _fill(self) -> None:
        grid = self._grid
        grid.margins = None
        grid.cursor_position()
        line = dict.fromkeys(range(grid.columns), self._cells["E"])
        for y in range(grid.lines):
            grid.buffer[y].update(line)

    # Modes and pages

    def _clear_tabs(self, numbers: Sequence[int]) -> None:
        self._grid.clear_tab_stop(numbers[0])

    def _set_tab(self) -> None:
        self._grid.set_tab_stop()

    def _set_modes(self, numbers: Sequence[int]) -> None:
        self._grid.set_mode(*(number for number in numbers if number in (_INSERT, _NEWLINE)))

    def _reset_modes(self, numbers: Sequence[int]) -> None:
        self._grid.reset_mode(*(number for number in numbers if number in (_INSERT, _NEWLINE)))

    def _set_private_modes(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if number in (1, 6, 7, 25):
                self._grid.set_mode(number, private=True)
            elif number == 1048:
                self._save_cursor()
            elif number in (47, 1047, 1049) and not self._is_alternate:
                self._main_cursor = self._grid.cursor.x, self._grid.cursor.y
                self._switch_page()
                if number == 1049:
                    self._grid.buffer.clear()

    def _reset_private_modes(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            if number in (1, 6, 7, 25):
                self._grid.reset_mode(number, private=True)
            elif number == 1048:
                self._restore_cursor()
            elif number in (47, 1047, 1049) and self._is_alternate:
                if number == 1047:
                    self._grid.buffer.clear()
                self._switch_page()
                if number == 1049:
                    self._put_cursor(*self._main_cursor)

    def _switch_page(self) -> None:
        """The pages share cursor, margins and modes."""
        self._grid.buffer, self._other_page = self._other_page, self._grid.buffer
        self._is_alternate = not self._is_alternate

    def _reset(self) -> None:
        self._other_page.clear()
        self._grid.reset()
        self._is_alternate = False
        self._title = self._last_drawn = ""
        self._soft_reset()

    def _soft_reset(self, _numbers: Sequence[int] = ()) -> None:
        self._grid.margins = None
        self._grid.mode = {_WRAP, _VISIBLE}
        self._drawing, self._shift = [False, False], False
        self._saved = _Saved()

    def _resize_page(self, page: Any, cursor_y: int, rows: int, columns: int) -> None:
        surplus = self._grid.lines - rows
        from_top = max(0, surplus - (self._grid.lines - 1 - cursor_y))
        for y in sorted(page):
            line = page.pop(y)
            if 0 <= y - from_top < rows:
                page[y - from_top] = line
                for x in [x for x in line if x >= columns]:
                    del line[x]


@dataclass(frozen=True)
class _Saved:
    """What ESC 7 keeps."""

    x: int = 0
    y: int = 0
    origin: bool = False
    drawing: tuple[bool, bool] = (False, False)
    shift: bool = False


class _Cells(dict[str, Any]):
    """pyte's cell for a character, made once."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        self._make = make

    def __missing__(self, char: str) -> Any:
        cell = self[char] = self._make(char)
        return cell


_MOVES: dict[str, Callable[[Terminal, int], None]] = {
    "@": Terminal._insert_cells,
    "A": Terminal._up,
    "B": Terminal._down,
    "C": lambda terminal, count: terminal._grid.cursor_forward(count),
    "D": lambda terminal, count: terminal._grid.cursor_back(count),
    "E": Terminal._down_to_start,
    "F": Terminal._up_to_start,
    "G": lambda terminal, column: terminal._grid.cursor_to_column(column),
    "I": Terminal._tabs_forward,
    "L": Terminal._insert_lines,
    "M": Terminal._delete_lines,
    "P": Terminal._delete_cells,
    "S": Terminal._scroll_up,
    "T": Terminal._scroll_down,
    "X": Terminal._erase_cells,
    "Z": Terminal._tabs_back,
    "b": Terminal._repeat,
    "d": Terminal._to_line,
}
_MOVES |= {"a": _MOVES["C"], "e": _MOVES["B"], "`": _MOVES["G"]}

_OTHERS: dict[str, Callable[[Terminal, Sequence[int]], None]] = {
    "H": Terminal._to_position,
    "f": Terminal._to_position,
    "J": Terminal._erase_in_display,
    "?J": Terminal._erase_in_display,
    "K": Terminal._erase_in_line,
    "?K": Terminal._erase_in_line,
    "g": Terminal._clear_tabs,
    "h": Terminal._set_modes,
    "l": Terminal._reset_modes,
    "?h": Terminal._set_private_modes,
    "?l": Terminal._reset_private_modes,
    "r": Terminal._set_margins,
    "s": Terminal._save_cursor,
    "u": Terminal._restore_cursor,
    "!p": Terminal._soft_reset,
}

_ESCAPES: dict[str, Callable[[Terminal], None]] = {
    "7": Terminal._save_cursor,
    "8": Terminal._restore_cursor,
    "D": Terminal._index,
    "E": Terminal._next_line,
    "H": Terminal._set_tab,
    "M": Terminal._reverse_index,
    "c": Terminal._reset,
    "#8": Terminal._fill,
}


@lru_cache(maxsize=4096)
def _parsed(body: str) -> tuple[str, tuple[int, ...]]:
    """The kind of a CSI sequence (mark, intermediates and final), and its numbers: at least one, none over 9999."""
    digits = body.rstrip("!\"#$%&'()*+,-./ @ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~")
    mark = digits[:1] if digits[:1] in ("<", "=", ">", "?") else ""
    kind = mark + body[len(digits) :]
    numbers = [re.match("[0-9]*", part[:8]) for part in digits[len(mark) :].split(";")[:32]]
    return kind, tuple(min(int(number[0] or 0), 9999) if number else 0 for number in numbers)


def _within(position: int, size: int) -> int:
    return max(0, min(position, size - 1))


def _sane(size: int) -> int:
    return max(1, min(size, MOST_ROWS_OR_COLUMNS))
