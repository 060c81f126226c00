"""A terminal that only shows: bytes go in, a screen of text comes out.

The parser is ours: pyte's draws the insides of DCS strings and of newer CSI sequences as text, and raises on
others.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from bgjob.terminal.page import Page, Screen
from bgjob.terminal.painting import Picture

LONGEST_TITLE = 256
LONGEST_HELD_BACK = 4096

# Rows and columns.
Size = tuple[int, int]

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


_MOVES: dict[str, Callable[[Page, int], None]] = {
    "@": Page.insert_cells,
    "A": Page.up,
    "B": Page.down,
    "C": Page.forward,
    "D": Page.back,
    "E": Page.down_to_start,
    "F": Page.up_to_start,
    "G": Page.to_column,
    "I": Page.tabs_forward,
    "L": Page.insert_lines,
    "M": Page.delete_lines,
    "P": Page.delete_cells,
    "S": Page.scroll_up,
    "T": Page.scroll_down,
    "X": Page.erase_cells,
    "Z": Page.tabs_back,
    "b": Page.repeat,
    "d": Page.to_line,
}
_MOVES |= {"a": _MOVES["C"], "e": _MOVES["B"], "`": _MOVES["G"]}

_OTHERS: dict[str, Callable[[Page, Sequence[int]], None]] = {
    "H": Page.to_position,
    "f": Page.to_position,
    "J": Page.erase_in_display,
    "?J": Page.erase_in_display,
    "K": Page.erase_in_line,
    "?K": Page.erase_in_line,
    "g": Page.clear_tabs,
    "h": Page.set_modes,
    "l": Page.reset_modes,
    "?h": Page.set_private_modes,
    "?l": Page.reset_private_modes,
    "r": Page.set_margins,
    "s": Page.save_cursor,
    "u": Page.restore_cursor,
    "!p": Page.soft_reset,
}

_ESCAPES: dict[str, Callable[[Page], None]] = {
    "7": Page.save_cursor,
    "8": Page.restore_cursor,
    "D": Page.index,
    "E": Page.next_line,
    "H": Page.set_tab,
    "M": Page.reverse_index,
    "c": Page.reset,
    "#8": Page.fill,
}


class Terminal:
    def __init__(self, rows: int, columns: int) -> None:
        self._page = Page(rows, columns)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # An escape sequence whose end has not come; a string that is too long to be held back is passed over.
        self._held_back = ""
        self._in_string = False

    def feed(self, data: bytes) -> None:
        text = self._held_back + self._decoder.decode(data)
        self._held_back = ""
        begin = self._after_string(text)
        end = self._before_unfinished(text, begin)
        tokens = _TOKEN.finditer(text, begin, end)
        while not self._execute(tokens):
            pass

    def resize(self, rows: int, columns: int) -> None:
        self._page.resize(rows, columns)

    def forget_pages(self) -> None:
        self._page.forget()

    def put_beneath(self, main: "Terminal") -> None:
        """What that terminal shows is what comes back when the alternate page is left."""
        self._page.put_beneath(main._page)

    def screen(self) -> Screen:
        return self._page.screen()

    def picture(self) -> Picture:
        return self._page.picture()

    def rows(self) -> list[str]:
        """What is shown, row by row, as text with its styles."""
        return self._page.rows()

    def begun(self) -> bytes:
        """What was fed last and does nothing yet: the beginning of a sequence, or of a character."""
        if self._in_string:
            return b"\x1b_"  # the rest of a string that nothing comes of, whatever it was
        return self._held_back.encode("utf-8", "surrogateescape") + self._decoder.getstate()[0]

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
        """False: pyte raised. The tokens after the one that it refused are still there."""
        try:
            for token in tokens:
                kind = token.lastgroup
                if kind == "text":
                    self._page.draw(token[0])
                elif kind == "csi":
                    self._csi(token["csi"])
                elif kind == "newlines":
                    self._page.newlines(len(token[0]))
                elif kind == "control":
                    self._control(token[0])
                elif kind == "escape":
                    self._escape(token["escape"])
                elif kind == "osc":
                    self._osc(token["osc"])
        except _PYTE_FAULTS:
            self._page.keep_inside()
            return False
        return True

    def _control(self, control: str) -> None:
        if control == "\r":
            self._page.to_start()
        elif control == "\b":
            self._page.back()
        elif control == "\t":
            self._page.tabs_forward(1)
        elif control in "\x0e\x0f":
            self._page.shift(control == "\x0e")

    def _csi(self, body: str) -> None:
        if body[-1] == "m":
            if body[0] not in "<=>?":
                self._page.paint(body[:-1])
            return
        kind, numbers = _parsed(body)
        if kind in _MOVES:
            _MOVES[kind](self._page, numbers[0] or 1)
        elif kind in _OTHERS:
            _OTHERS[kind](self._page, numbers)

    def _escape(self, sequence: str) -> None:
        if sequence in _ESCAPES:
            _ESCAPES[sequence](self._page)
        elif len(sequence) == 2 and sequence[0] in "()":
            self._page.choose_characters(sequence[0] == ")", sequence[1] == "0")

    def _osc(self, body: str) -> None:
        if body.startswith(("0;", "2;")):
            self._page.title = "".join(char for char in body[2 : 2 + LONGEST_TITLE] if char.isprintable())


@lru_cache(maxsize=4096)
def _parsed(body: str) -> tuple[str, tuple[int, ...]]:
    """The kind of a CSI sequence (mark, intermediates, final), and its numbers: one or more, up to 9999."""
    digits = body.rstrip("!\"#$%&'()*+,-./ @ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~")
    mark = digits[:1] if digits[:1] in ("<", "=", ">", "?") else ""
    kind = mark + body[len(digits) :]
    numbers = [re.match("[0-9]*", part[:8]) for part in digits[len(mark) :].split(";")[:32]]
    return kind, tuple(min(int(number[0] or 0), 9999) if number else 0 for number in numbers)
