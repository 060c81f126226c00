"""A terminal's state as the bytes that bring another terminal into it: what is drawn, the modes, the cursor.

Nothing in these bytes is a question, so that the other terminal answers nothing.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bgjob.terminal.style import PLAIN

ASCII = "\x1b(B\x1b)B\x0f"
# No margins, absolute positions, no wrapping while rows are drawn, ASCII, no style, no inserting, a cursor.
FRESH = f"\x1b[r\x1b[?6l\x1b[?7l{ASCII}\x1b[0m\x1b[4l\x1b[20l\x1b[?1l\x1b[?25h"
ENTER_ALTERNATE = "\x1b[?1049h"


class Picture(NamedTuple):
    """What a page shows, and all that decides what the next bytes do to it."""

    main: Sequence[str]
    """The rows of the main page, as styled text."""
    alternate: Sequence[str] | None
    """The rows of the alternate page, if that is shown."""
    main_cursor: tuple[int, int]
    """Where the cursor was when the alternate page was entered. Rows and columns count from 1."""
    cursor: tuple[int, int]
    saved: tuple[int, int, str]
    """The cursor that ESC 7 has saved, its style and its character sets."""
    style: str
    margins: tuple[int, int] | None
    modes: Sequence[str]
    """Sequences that set each mode that is not as on a fresh terminal."""
    wraps_next: str
    """The character in the last column, if the next one begins a new row; else empty."""
    charsets: str
    title: str
    is_origin: bool = False


def painted(picture: Picture) -> bytes:
    """On a terminal of the same size, whatever it showed before."""
    return "".join(_parts(picture)).encode("utf-8", "replace")


def _parts(picture: Picture) -> Iterator[str]:
    yield FRESH
    if picture.title:
        yield f"\x1b]2;{picture.title}\x1b\\"
    yield from rows_painted(picture.main)
    if picture.alternate is not None:
        yield _placed(*picture.main_cursor) + ENTER_ALTERNATE
        yield from rows_painted(picture.alternate)
    row, column, style = picture.saved
    yield f"\x1b[0m{_placed(row, column)}{style}\x1b7\x1b[0m{ASCII}"
    if picture.margins:
        yield "\x1b[{};{}r".format(*picture.margins)
    yield "\x1b[?7h" + "".join(picture.modes)
    top = picture.margins[0] - 1 if picture.is_origin and picture.margins else 0
    yield _placed(picture.cursor[0] - top, picture.cursor[1])
    yield picture.wraps_next + picture.charsets + picture.style


def rows_painted(rows: Sequence[str], first: int = 1) -> Iterator[str]:
    """Each row in its place, and nothing else in it."""
    for number, row in enumerate(rows, first):
        yield f"\x1b[{number};1H\x1b[0m\x1b[2K{row}"


def styled_text(cells: Sequence[tuple[str, str]]) -> str:
    """Of (text, the sequence that sets its style): as few sequences as do."""
    parts, before = list[str](), PLAIN.sequence
    for text, style in cells:
        if style != before:
            parts.append(f"\x1b[0m{style}")
            before = style
        parts.append(text)
    return "".join([*parts, "\x1b[0m" if before else ""])


def _placed(row: int, column: int) -> str:
    return f"\x1b[{row};{column}H"
