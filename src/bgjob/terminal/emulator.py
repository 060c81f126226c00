"""A terminal that only shows: bytes go in, a screen of text comes out.

The parser is ours: pyte's draws the insides of DCS strings and of newer CSI sequences as text, and raises on others.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from bgjob.terminal.page import Canvas, Screen

LONGEST_TITLE = 256
LONGEST_HELD_BACK = 4096

Size = tuple[int, int]  # rows, columns

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


_MOVES: dict[str, Callable[[Canvas, int], None]] = {
    "@": Canvas.insert_cells,
    "A": Canvas.up,
    "B": Canvas.down,
    "C": Canvas.forward,
    "D": Canvas.back,
    "E": Canvas.down_to_start,
    "F": Canvas.up_to_start,
    "G": Canvas.to_column,
    "I": Canvas.tabs_forward,
    "L": Canvas.insert_lines,
    "M": Canvas.delete_lines,
    "P": Canvas.delete_cells,
    "S": Canvas.scroll_up,
    "T": Canvas.scroll_down,
    "X": Canvas.erase_cells,
    "Z": Canvas.tabs_back,
    "b": Canvas.repeat,
    "d": Canvas.to_line,
}
_MOVES |= {"a": _MOVES["C"], "e": _MOVES["B"], "`": _MOVES["G"]}

_OTHERS: dict[str, Callable[[Canvas, Sequence[int]], None]] = {
    "H": Canvas.to_position,
    "f": Canvas.to_position,
    "J": Canvas.erase_in_display,
    "?J": Canvas.erase_in_display,
    "K": Canvas.erase_in_line,
    "?K": Canvas.erase_in_line,
    "g": Canvas.clear_tabs,
    "h": Canvas.set_modes,
    "l": Canvas.reset_modes,
    "?h": Canvas.set_private_modes,
    "?l": Canvas.reset_private_modes,
    "r": Canvas.set_margins,
    "s": Canvas.save_cursor,
    "u": Canvas.restore_cursor,
    "!p": Canvas.soft_reset,
}

_ESCAPES: dict[str, Callable[[Canvas], None]] = {
    "7": Canvas.save_cursor,
    "8": Canvas.restore_cursor,
    "D": Canvas.index,
    "E": Canvas.next_line,
    "H": Canvas.set_tab,
    "M": Canvas.reverse_index,
    "c": Canvas.reset,
    "#8": Canvas.fill,
}


class Terminal:
    def __init__(self, rows: int, columns: int) -> None:
        self._canvas = Canvas(rows, columns)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held_back = ""  # an escape sequence whose end has not come
        self._in_string = False  # its end has not come, and it is too long to be held back

    def feed(self, data: bytes) -> None:
        text = self._held_back + self._decoder.decode(data)
        self._held_back = ""
        begin = self._after_string(text)
        end = self._before_unfinished(text, begin)
        tokens = _TOKEN.finditer(text, begin, end)
        while not self._execute(tokens):
            pass

    def resize(self, rows: int, columns: int) -> None:
        self._canvas.resize(rows, columns)

    def screen(self) -> Screen:
        return self._canvas.screen()

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
                    self._canvas.draw(token[0])
                elif kind == "csi":
                    self._csi(token["csi"])
                elif kind == "newlines":
                    self._canvas.newlines(len(token[0]))
                elif kind == "control":
                    self._control(token[0])
                elif kind == "escape":
                    self._escape(token["escape"])
                elif kind == "osc":
                    self._osc(token["osc"])
        except _PYTE_FAULTS:
            self._canvas.keep_inside()
            return False
        return True

    def _control(self, control: str) -> None:
        if control == "\r":
            self._canvas.to_start()
        elif control == "\b":
            self._canvas.back()
        elif control == "\t":
            self._canvas.tabs_forward(1)
        elif control in "\x0e\x0f":
            self._canvas.shift(control == "\x0e")

    def _csi(self, body: str) -> None:
        if body[-1] == "m":
            return  # colours
        kind, numbers = _parsed(body)
        if kind in _MOVES:
            _MOVES[kind](self._canvas, numbers[0] or 1)
        elif kind in _OTHERS:
            _OTHERS[kind](self._canvas, numbers)

    def _escape(self, sequence: str) -> None:
        if sequence in _ESCAPES:
            _ESCAPES[sequence](self._canvas)
        elif len(sequence) == 2 and sequence[0] in "()":
            self._canvas.choose_characters(sequence[0] == ")", sequence[1] == "0")

    def _osc(self, body: str) -> None:
        if body.startswith(("0;", "2;")):
            self._canvas.title = "".join(char for char in body[2 : 2 + LONGEST_TITLE] if char.isprintable())


@lru_cache(maxsize=4096)
def _parsed(body: str) -> tuple[str, tuple[int, ...]]:
    """The kind of a CSI sequence (mark, intermediates and final), and its numbers: at least one, none over 9999."""
    digits = body.rstrip("!\"#$%&'()*+,-./ @ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~")
    mark = digits[:1] if digits[:1] in ("<", "=", ">", "?") else ""
    kind = mark + body[len(digits) :]
    numbers = [re.match("[0-9]*", part[:8]) for part in digits[len(mark) :].split(";")[:32]]
    return kind, tuple(min(int(number[0] or 0), 9999) if number else 0 for number in numbers)
