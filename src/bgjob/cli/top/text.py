"""Text of jobs for curses: in one line, safe, and each letter as wide as curses takes it."""

import unicodedata
from collections.abc import Sequence

from bgjob.output.tty_text import one_line, width

# Terminals and curses differ in how wide these make what they join: each part is drawn by itself.
JOINERS = dict.fromkeys(map(ord, "\u200d\ufe0e\ufe0f"))
UNKNOWN = "\N{REPLACEMENT CHARACTER}"
TAB_COLUMNS = 8


def visible(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_known, one_line(text.expandtabs(TAB_COLUMNS)).translate(JOINERS)))


def _known(letter: str) -> str:
    return UNKNOWN if unicodedata.category(letter) == "Cn" else letter


def wrapped(line: str, columns: int) -> list[str]:
    """The line in rows that are not wider; at least one."""
    text, rows = visible(line), [""]
    if text.isascii():
        return [text[at : at + columns] for at in range(0, len(text), columns)] or rows
    taken = 0
    for letter in text:
        wide = width(letter)
        if taken + wide > columns:
            rows.append("")
            taken = 0
        rows[-1] += letter
        taken += wide
    return rows


def last_rows(lines: Sequence[str], columns: int, most: int) -> list[str]:
    """The last lines, wrapped: as many rows as there is room for."""
    rows: list[str] = []
    for line in reversed(lines):
        if len(rows) >= most:
            break
        rows[:0] = wrapped(line, columns)
    return rows[-most:]


def fitting(lines: Sequence[str], columns: int, most: int) -> int:
    """How many of the first lines there is room for; at least one."""
    for count, line in enumerate(lines):
        most -= len(wrapped(line, columns))
        if most < 0:
            return max(1, count)
    return len(lines)
