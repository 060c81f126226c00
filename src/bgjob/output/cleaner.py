r"""Output without noise: what a terminal would show in the end, with nothing in it that cannot be seen.

    escape sequences          gone; of a hyperlink the text stays; one that does not end, ends with its line
    \r  backspace  CSI K J    the line as it looked last; a column is one character, a TAB too
    cursor up and down        redraw the last 50 lines, but never a note of bgjob or what lies above it
    cursor to a place         begins a new line: only a screen knows places
    other C0, DEL, C1         gone
    bidi, zero-width, tags    each run becomes one U+FFFD: something is here that you cannot see
    variation selectors       one alone only chooses a glyph: gone; a run carries hidden data: U+FFFD
    emoji                     keep the joiners and selectors that make them
    repeated lines            once, and how often

A sequence that is cut off at the start of the text stays as text; one that is cut off at the end is removed.
"""

import re
from collections.abc import Callable
from itertools import groupby

from bgjob.core.late_pattern import late_pattern

NOTE = "[bgjob: "
REACH_LINES = 50
# A longer line is redrawn in pieces: so the cost of a sequence stays constant.
WIDTH = 512

# Every quantifier is possessive or bounded, and no sequence contains the beginning of another: linear on any
# text. Each pattern begins with a set, and looks back at what it matched: re finds a set fast, and
# alternatives slowly.
_TEXT = r"[^\x00-\x08\x0a-\x1f\x7f-\x9f]*+"
_END = r"(?:\x07|\x1b\\|\x9c)"
_MOVE = r"[0-9;]*+[A-HJKfu]"
_CLIPBOARD = rf"\]52;[a-z0-7]*+;[A-Za-z0-9+/=\r\n]*+{_END}"  # may have many lines
_CSI = rf"(?!{_MOVE})[0-?]*+[ -/]*+[@-~]?"
_ESC = rf"(?:{_CLIPBOARD}|[\]PX^_]{_TEXT}{_END}?|\[{_CSI}|(?![8\[\]PX^_])[ -/]{{0,2}}[0-~]?)"
_NOISE = late_pattern(
    r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]"
    rf"(?:(?<=\x1b){_ESC}"
    rf"|(?<=\x9b){_CSI}"
    rf"|(?<=[\x90\x98\x9d-\x9f]){_TEXT}{_END}"  # must end: else a wrongly decoded quote would eat its line
    r"|(?<![\x1b\x9b])[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f]*+)"
)
_STEP = late_pattern(
    r"([\r\x08\x9b](?:(?<=\x9b)([0-9]{0,4})[0-9;]*+([A-HJKfu])|(?<=\x08)\x08*+|(?<=\r)\r*+))",
)
_LINE_END = late_pattern(r"\r(?<!\r\r)\r*+\n")
_CONTROL = late_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTROLS = late_pattern(rf"{_CONTROL.pattern}++")
_NOTE_LINE = late_pattern(rf"^({re.escape(NOTE)}{_TEXT}\n?)", re.MULTILINE)

EMOJI = "\u2100-\u2bff\U0001f000-\U0001faff"
KEYCAP = "#*0-9©®‼⁉〰〽㊗㊙"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    f"\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff{_SELECTORS}"
)
_OF_EMOJI = (  # what may follow a character that stays, with the character
    f"(?<=[{EMOJI}{KEYCAP}][\ufe0e\ufe0f])(?![{UNSEEN}])|(?<=[{EMOJI}]\ufe0f)\u200d[{EMOJI}]"
    f"|(?<=[{EMOJI}]\u200d)[{EMOJI}]|(?<=[{EMOJI}]\ufe0f\u200d)[{EMOJI}]"
)
_HARMLESS = late_pattern(  # alone: a choice of glyph, a byte order mark
    f"[{_SELECTORS}\ufeff](?<![{UNSEEN}]{{2}})(?![{UNSEEN}])(?!{_OF_EMOJI})"
)
_HIDDEN = late_pattern(f"[{UNSEEN}](?!{_OF_EMOJI})[{UNSEEN}]*+")


def clean(text: str) -> str:
    """The result is never longer than the text, and cleaning it again changes nothing."""
    if _CONTROL.search(text):
        text = _redrawn(_NOISE.sub("", _LINE_END.sub("\n", text)))
    if not text.isascii():
        text = _HIDDEN.sub("\N{REPLACEMENT CHARACTER}", _HARMLESS.sub("", text))
    return _folded(text)


def without_hidden(text: str) -> str:
    """For text that is not output: invisible characters, and controls other than \n and \t, become U+FFFD.

    Escape sequences are not interpreted: a command or a path is shown as it is.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if text.isascii() else _HIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def quoted(text: str, most: int) -> str:
    """Return the text as one quoted line, which nothing inside can close: it reads as data, never as our own text."""
    import json  # here: `bgjob --version` does without

    return json.dumps(one_line(text, most), ensure_ascii=False)


def one_line(text: str, most: int) -> str:
    """The same on one line, and cut: for a name, a prompt or a line of output in a sentence."""
    line = without_hidden("".join(" " if letter.isspace() else letter for letter in text)).strip()
    return line if len(line) <= most else f"{line[: most - 1]}…"


def first_hidden(text: str) -> int | None:
    """Where without_hidden replaces something first; None if nowhere."""
    found = [match.start() for match in (_CONTROLS.search(text), _HIDDEN.search(text)) if match]
    return min(found, default=None)


def _folded(text: str) -> str:
    body = text.removesuffix("\n")
    lines: list[str] = []
    for line, run in groupby(body.split("\n")):
        lines += _fold(line, list(run))
    return "\n".join(lines) + text[len(body) :]


def _fold(line: str, run: list[str]) -> list[str]:
    """Only if the fold is shorter than the lines. Notes are not folded, so that no note speaks of a note."""
    more = len(run) - 1
    if more < 2 or line.startswith(NOTE):
        return run
    note = f"{NOTE}the line above {more} more times]"
    return [line, note] if len(note) < more * (len(line) + 1) else run


def _redrawn(text: str) -> str:
    if not _CONTROL.search(text):
        return text
    sheet = _Sheet()
    for part in _NOTE_LINE.split(text):
        if part.startswith(NOTE):
            sheet.note(part)
        else:
            _redraw(sheet, part.replace("\x1b8", "\x9bu").replace("\x1b[", "\x9b"))
    return sheet.text()


def _redraw(sheet: "_Sheet", text: str) -> None:
    steps = [*_STEP.split(text), "\r", "", ""]
    for plain, control, count, final in zip(steps[::4], steps[1::4], steps[2::4], steps[3::4], strict=True):
        if "\n" in plain:
            sheet.put(plain.split("\n"))
        elif plain:
            sheet.write(plain)
        if final:
            _MOVES[final](sheet, int(count or 0))
        elif control[0] == "\r":
            sheet.column = 0
        else:
            sheet.back(len(control))


class _Sheet:
    """Lines and a cursor. A move ends at most one column behind the text of its line, so that no more is held
    than was written."""

    __slots__ = ("column", "floor", "heads", "row", "rows")

    def __init__(self) -> None:
        self.rows = [""]
        self.heads: dict[int, list[str]] = {}
        self.row = 0
        self.column = 0
        self.floor = 0

    def text(self) -> str:
        for row, head in self.heads.items():
            self.rows[row] = "".join(head) + self.rows[row]
        while len(self.rows) - 1 > self.row and not self.rows[-1]:
            self.rows.pop()
        return "\n".join(self.rows)

    def put(self, lines: list[str]) -> None:
        if len(lines) > 3 * REACH_LINES:  # the lines between cannot be reached from either end
            self.put(lines[: REACH_LINES + 1])
            self.rows += [*lines[REACH_LINES + 1 : -REACH_LINES], ""]
            self.row, self.column = len(self.rows) - 1, 0
            lines = lines[-REACH_LINES:]
        if lines[0]:
            self.write(lines[0])
        for line in lines[1:]:
            self.next_line()
            if line:
                self.write(line)

    def write(self, text: str) -> None:
        line, start = self.rows[self.row], self.column
        self.column = end = start + len(text)
        if start > len(line):
            line = line.ljust(start)
        if start == len(line):
            line += text
        else:
            line = (line[:start] + text + line[end:]).rstrip(" ")
        self.rows[self.row] = line
        if end > WIDTH:
            self.heads.setdefault(self.row, []).append(line.ljust(end))
            self.rows[self.row], self.column = "", 0

    def next_line(self) -> None:
        self.row += 1
        self.column = 0
        if self.row == len(self.rows):
            self.rows.append("")

    def fresh_line(self, _: int = 0) -> None:
        self.row, self.column = len(self.rows) - 1, 0
        if self.rows[-1] or self.row in self.heads:
            self.next_line()

    def note(self, line: str) -> None:
        self.fresh_line()
        self.put(line.split("\n"))
        self.floor = self.row

    def up(self, count: int) -> None:
        self.row = max(self.row - (count or 1), self.floor, len(self.rows) - REACH_LINES)
        self.column = min(self.column, len(self.rows[self.row]))

    def down(self, count: int) -> None:
        self.row = min(self.row + (count or 1), len(self.rows) - 1)
        self.column = min(self.column, len(self.rows[self.row]))

    def up_to_start(self, count: int) -> None:
        self.up(count)
        self.column = 0

    def down_to_start(self, count: int) -> None:
        self.down(count)
        self.column = 0

    def back(self, count: int) -> None:
        self.column -= count or 1
        if self.column < 0:
            self.column = 0

    def forth(self, count: int) -> None:
        self.to_column(self.column + (count or 1) + 1)

    def to_column(self, number: int) -> None:
        farthest = max(len(self.rows[self.row]) + 1, self.column)
        self.column = min(max(number - 1, 0), farthest)

    def erase_line(self, part: int) -> None:
        line, column = self.rows[self.row], self.column
        if part == 0:
            self.rows[self.row] = line[:column]
        elif part == 1:
            self.rows[self.row] = line[column + 1 :].rjust(len(line))
        elif part == 2:
            self.rows[self.row] = ""

    def erase_below(self, part: int) -> None:
        if part != 0:
            return
        self.erase_line(0)
        self.floor = max(self.floor, len(self.rows) - REACH_LINES)
        for row in range(self.row + 1, len(self.rows)):
            self.heads.pop(row, None)
        del self.rows[self.row + 1 :]


_MOVES: dict[str, Callable[[_Sheet, int], None]] = {
    "A": _Sheet.up,
    "B": _Sheet.down,
    "C": _Sheet.forth,
    "D": _Sheet.back,
    "E": _Sheet.down_to_start,
    "F": _Sheet.up_to_start,
    "G": _Sheet.to_column,
    "H": _Sheet.fresh_line,
    "J": _Sheet.erase_below,
    "K": _Sheet.erase_line,
    "f": _Sheet.fresh_line,
    "u": _Sheet.fresh_line,
}
