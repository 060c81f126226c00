"""A table that fits the terminal: of its columns, those that matter most, as wide as there is room for."""

from collections.abc import Iterable, Iterator, Sequence

from bgjob.cli.colours import Paint, plain
from bgjob.core.frozen import Frozen
from bgjob.output.tty_text import ELLIPSIS, cut, width

GAP = "  "
INDENT = " " * 10  # below the ids: what belongs to the row above it
MINOR_RANK = 7  # and above: shown only where all others can be read
NOTHING = "-"  # where no terminal is: each line has every column


class Column(Frozen):
    title: str
    rank: int
    """On a terminal without room for all, the columns of the highest ranks are left out."""
    least: int | None = None
    """None: it is shown whole or not at all. Else a longer cell may be cut to so many columns."""
    readable: int = 0
    """For a column of a minor rank it is not cut below this."""
    most: int = 1000
    """It gets more when all others have what they want."""
    is_right: bool = False
    is_path: bool = False
    """Of a cell that is cut, the end is shown."""


class Row(Frozen):
    cells: Sequence[str]
    styles: Sequence[str]
    """Of each cell."""
    below: Sequence[str] = ()
    """Lines under the row."""
    below_style: str = ""


def piped(columns: Sequence[Column], rows: Sequence[Row], paint: Paint = plain) -> Iterator[str]:
    """For a program: each row is one line and has every column, and nothing is cut."""
    cells = [[cell or NOTHING for cell in row.cells] for row in rows]
    widths = [max(map(width, column)) for column in zip(_titles(columns), *cells, strict=True)]
    yield _line(list(zip(_titles(columns), columns, widths, strict=True)))
    for row, texts in zip(rows, cells, strict=True):
        yield _line(list(zip(texts, columns, widths, strict=True)), None, paint, row.styles)


def fitted(
    columns: Sequence[Column], rows: Sequence[Row], room: int, paint: Paint = plain, *, titled: bool = True
) -> Iterator[str]:
    """No line is wider than `room`."""
    natural = [max(width(row.cells[at]) for row in rows) for at in range(len(columns))] if rows else []
    natural = [max(wide, len(columns[at].title) * titled) if wide else 0 for at, wide in enumerate(natural)]
    shown = _chosen(columns, natural, room)
    widths = _widths(columns, natural, shown, room)
    parts = [(columns[at], widths[at]) for at in shown]
    if rows and titled:
        yield paint(cut(_line([(column.title, column, wide) for column, wide in parts]), room), "dim")
    for row in rows:
        cells = [(row.cells[at], columns[at], widths[at]) for at in shown]
        yield _line(cells, room, paint, [row.styles[at] for at in shown])
        yield from (paint(cut(INDENT + line, room), row.below_style) for line in row.below)


def _titles(columns: Sequence[Column]) -> list[str]:
    return [column.title for column in columns]


def _chosen(columns: Sequence[Column], natural: Sequence[int], room: int) -> list[int]:
    """Which columns are shown: the most important ones that fit; none that is empty."""
    chosen: list[int] = []
    for at in _by_rank(columns, filter(natural.__getitem__, range(len(natural)))):
        is_minor = columns[at].rank >= MINOR_RANK
        widths = [_least(columns[each], natural[each], is_minor) for each in [*chosen, at]]
        if columns[at].rank and sum(widths) + len(GAP) * len(chosen) > room:
            break
        chosen.append(at)
    return sorted(chosen)


def _by_rank(columns: Sequence[Column], some: Iterable[int]) -> list[int]:
    return sorted(some, key=lambda at: columns[at].rank)


def _least(column: Column, natural: int, is_minor: bool = False) -> int:
    if column.least is None:
        return natural
    return min(natural, max(column.least, column.readable * is_minor, len(column.title)))


def _widths(
    columns: Sequence[Column], natural: Sequence[int], shown: Sequence[int], room: int
) -> dict[int, int]:
    widths = {at: _least(columns[at], natural[at]) for at in shown}
    spare = room - sum(widths.values()) - len(GAP) * (len(shown) - 1)
    for is_last in (False, True):
        for at in _by_rank(columns, shown):
            wanted = natural[at] if is_last else min(natural[at], columns[at].most)
            more = max(0, min(spare, wanted - widths[at]))
            widths[at], spare = widths[at] + more, spare - more
    return widths


def _line(
    cells: Sequence[tuple[str, Column, int]],
    room: int | None = None,
    paint: Paint = plain,
    styles: Sequence[str] = (),
) -> str:
    texts = [_padded(cell, column, wide) for cell, column, wide in cells]
    texts[-1] = texts[-1].rstrip()
    if room is not None:  # a terminal too narrow for the columns that are always shown
        texts = list(_within(texts, room))
    return GAP.join(map(paint, texts, styles or [""] * len(texts))).rstrip()


def _within(texts: Sequence[str], room: int) -> Iterator[str]:
    for text in texts:
        if room > 0:
            yield cut(text, room)
        room -= width(text) + len(GAP)


def _padded(cell: str, column: Column, columns: int) -> str:
    text = _cut_path(cell, columns) if column.is_path else cut(cell, columns)
    blanks = " " * (columns - width(text))
    return blanks + text if column.is_right else text + blanks


def _cut_path(path: str, columns: int) -> str:
    if width(path) <= columns:
        return path
    end = cut(path[::-1], columns).removesuffix(ELLIPSIS)[::-1]
    return ELLIPSIS + end if columns > 0 else ""
