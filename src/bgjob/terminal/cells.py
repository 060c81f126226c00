"""The cells of a page, as pyte keeps them: lines by row, cells by column; what is not there is blank."""

from collections.abc import Callable
from typing import Any

Line = dict[int, Any]
Lines = dict[int, Line]


class Cells(dict[str, Any]):
    """pyte's cell for a character, made once."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        self._make = make

    def __missing__(self, char: str) -> Any:
        cell = self[char] = self._make(char)
        return cell


def text_of(line: Line, columns: int, width: Callable[[str], int]) -> str:
    return "".join(texts_of(line, columns, width)).rstrip()


def texts_of(line: Line, columns: int, width: Callable[[str], int]) -> list[str]:
    """Cell by cell. A half of a wide character whose other half was overwritten is a blank."""

    def is_wide(cell: str) -> bool:
        return cell != "" and width(cell[0]) == 2

    cells = [line[x].data for x in range(columns)]
    text = "".join(cells)
    if len(text) < len(cells) or not text.isascii():
        for x, cell in enumerate(cells):
            before, after = cells[x - 1] if x else " ", cells[x + 1] if x + 1 < len(cells) else " "
            if (cell and after and is_wide(cell)) or (not cell and not is_wide(before)):
                cells[x] = " "
    return cells


def scroll(page: Lines, top: int, bottom: int, count: int) -> None:
    """The lines between two rows move up, or down by a negative count."""
    rows = range(top, bottom + 1)
    lines = list(map(page.__getitem__, rows))
    cut = min(count, len(rows)) if count > 0 else max(0, len(rows) + count)
    for line in lines[:cut] if count > 0 else lines[cut:]:
        line.clear()
    page.update(zip(rows, lines[cut:] + lines[:cut], strict=True))


def blank(line: Line, first: int, last: int) -> None:
    for x in [x for x in line if first <= x <= last]:
        del line[x]


def insert(line: Line, at: int, count: int, columns: int) -> None:
    moved = {x + count: cell for x, cell in line.items() if at <= x < columns - count}
    blank(line, at, columns)
    line.update(moved)


def delete(line: Line, at: int, count: int, columns: int) -> None:
    moved = {x - count: cell for x, cell in line.items() if x >= at + count}
    blank(line, at, columns)
    line.update(moved)


def resize(page: Lines, cursor_y: int, rows_before: int, rows: int, columns: int) -> None:
    """Lines below the cursor go first, then those at the top."""
    from_top = max(0, rows_before - rows - (rows_before - 1 - cursor_y))
    for y in sorted(page):
        line = page.pop(y)
        if 0 <= y - from_top < rows:
            page[y - from_top] = line
            blank(line, columns, max(line, default=0))
