r"""Text of jobs for a person's terminal: all of it is visible, and none of it controls the terminal.

    letters, blanks, \n \t \r     as they are
    colours (SGR)                 as they are, but not those that hide text; taken back at the end
    other C0 and DEL              ^[  ^G  ^?
    C1, bytes that are no UTF-8   \x9b
    bidi, zero-width, tags        \u202e
    emoji                         keep the joiners and selectors that make them

Escape sequences are not interpreted, so that none can be missed because of its form: the ESC is shown, and
the rest is text. A character, colour or emoji that may go on in the next bytes is held back until they come.
"""

import codecs
import re
import unicodedata

from bgjob.core.late_pattern import late_pattern
from bgjob.output.cleaner import EMOJI, KEYCAP, UNSEEN

RESET = "\x1b[0m"
ELLIPSIS = "…"

# Bounded: of half a colour, no more than this is held back.
_PARAMETERS = r"\[[0-9;:]{0,64}+"
_MOST_HELD = 70
# It begins with a set, and looks back at what it matched: re finds a set fast, and alternatives slowly.
_SUSPECT = late_pattern(
    rf"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{UNSEEN}]"
    rf"(?:(?<=\x1b)(?P<colour>{_PARAMETERS}m)"
    f"|(?P<emoji>(?<=[{EMOJI}{KEYCAP}][\ufe0e\ufe0f])(?![{UNSEEN}])"
    f"|(?<=[{EMOJI}]\u200d)(?=[{EMOJI}])"
    f"|(?<=[{EMOJI}]\ufe0f)\u200d(?=[{EMOJI}])))?"
)
_MAY_GO_ON = late_pattern(rf"(?:\x1b(?:{_PARAMETERS})?|[{UNSEEN}]{{1,4}})\Z")
_STAYS_IN_SIGHT = late_pattern(f"[{EMOJI}{KEYCAP}]")

_PALETTE = r"[345]8(?:;5;\d{1,3}|:5:\d{1,3}|;2(?:;\d{1,3}){3}|:2(?::\d{0,3}){3,5})"
_RENDITION = rf"(?:{_PALETTE}|4:[0-5]|0?[0-79]?|(?![345]8)[1-9]\d|10[0-7])"  # all but 8, conceal
_COLOUR = late_pattern(rf"\x1b\[{_RENDITION}(?:;{_RENDITION})*m")


class TtyText:
    """One stream on its way to a terminal, in pieces as they come."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._held = self._before = ""
        self._is_coloured = False

    def feed(self, data: bytes) -> str:
        text = self._held + self._decoder.decode(data)
        begun = _MAY_GO_ON.search(text, max(0, len(text) - _MOST_HELD))
        end = begun.start() if begun else len(text)
        self._held = text[end:]
        return self._shown(text[:end], self._held[:1])

    def finish(self) -> str:
        """What was held back, and the terminal's own colours."""
        rest = self._shown(self._held + self._decoder.decode(b"", final=True))
        self._held = ""
        if not self._is_coloured:
            return rest
        self._is_coloured = False
        return rest + RESET

    def _shown(self, text: str, next_letter: str = "") -> str:
        """`next_letter`: is held back. An emoji ends before it, or does not."""
        known = self._before + text
        shown = _SUSPECT.sub(
            lambda found: self._judged(found) if found.start() < len(known) else "", known + next_letter
        )[len(self._before) :]
        last = known[-1:]
        self._before = last if _STAYS_IN_SIGHT.match(last) else ""
        return shown

    def _judged(self, found: re.Match[str]) -> str:
        if found["emoji"] is not None:
            return found[0]
        if found["colour"] and _COLOUR.fullmatch(found[0]):
            self._is_coloured = found[0].strip("\x1b[m0;") != ""
            return found[0]
        return visible(found[0])


def one_line(text: str) -> str:
    """For a line of a table or a message: no colours, and nothing that begins another line."""
    return _SUSPECT.sub(_without_colour, text).translate(_BREAKS)


def _without_colour(found: re.Match[str]) -> str:
    return visible(found[0]) if found["emoji"] is None else found[0]


def visible(text: str) -> str:
    return "".join(map(_mark, text))


def _mark(letter: str) -> str:
    code = ord(letter)
    if code < 0x20 or code == 0x7F:
        return f"^{chr(code ^ 0x40)}"
    if 0xDC80 <= code <= 0xDCFF:  # as the decoder hands on a byte that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if 0x20 < code < 0x7F:
        return letter
    return letter.encode("unicode_escape").decode("ascii")


_BREAKS = {ord(letter): visible(letter) for letter in "\t\n\r"}


def width(text: str) -> int:
    """How many columns the text takes, on the terminal that draws it widest: so nothing wraps."""
    return sum(map(_columns, text))


# Wide since Unicode 16, which Python knows from 3.14 on; and half a flag, which some terminals draw like a whole one.
_NEWLY_WIDE = late_pattern(
    "[\u2630-\u2637\u268a-\u268f\u4dc0-\u4dff\U0001d300-\U0001d376\U0001f1e6-\U0001f1ff]"
)
# Format characters that are drawn, around the digits that follow.
_DRAWN = late_pattern("[\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd]")


def _columns(letter: str) -> int:
    if letter == "\ufe0f" or _DRAWN.match(letter):  # the first may make the letter before it twice as wide
        return 1
    if _NEWLY_WIDE.match(letter):
        return 2
    category = unicodedata.category(letter)
    if category in ("Mn", "Me", "Cf"):
        return 0
    return 2 if category == "Cn" or unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """As much of the text as fits, with an ellipsis if that is not all."""
    if width(text) <= columns:
        return text
    end, taken = 0, 1  # the ellipsis
    while end < len(text) and (taken := taken + _columns(text[end])) <= columns:
        end += 1
    return text[:end] + ELLIPSIS if columns > 0 else ""
