"""How a cell stands out: reverse video, or a background of its own. Other colours and weights are not kept.

A menu marks its selection by either: whiptail and dialog by a background, less and vim by reverse video.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from operator import attrgetter
from typing import NamedTuple

from bgjob.terminal.cells import Line

MOST_RUNS, LONGEST_RUN = 10, 200
# dialog draws the selected tag and its text apart: a run goes on over so many blanks.
BRIDGED_BLANKS = 3
DEFAULT = "default"
# Of a cell.
_STYLE, _DATA_AND_STYLE = attrgetter("bg", "reverse"), attrgetter("data", "bg", "reverse")
_BLANK_OR_LINE = re.compile(r"[\s\u2500-\u257f]*")


class Style(NamedTuple):
    background: str = DEFAULT
    """As SGR sets it, like "41" or "48;5;41"."""
    reverse: bool = False

    @property
    def sequence(self) -> str:
        """What sets this style on a terminal that has none; empty for none."""
        numbers = ["7"] * self.reverse + [self.background] * (self.background != DEFAULT)
        return f"\x1b[{';'.join(numbers)}m" if numbers else ""


PLAIN = Style()


@lru_cache(maxsize=4096)
def styled(style: Style, sgr: str) -> Style:
    """The style after an SGR sequence, given as the text between ESC [ and m."""
    numbers = iter(sgr[:200].split(";"))
    for number in numbers:
        code = number.lstrip("0")
        if not code:
            style = PLAIN
        elif code in ("7", "27"):
            style = style._replace(reverse=code == "7")
        elif code in ("38", "48"):
            colour = ";".join([code, *_extended(numbers)])
            style = style._replace(background=colour) if code == "48" else style
        elif code.startswith("48:") or re.fullmatch("4[0-7]|10[0-7]", code):
            style = style._replace(background=code)
        elif code == "49":
            style = style._replace(background=DEFAULT)
    return style


def _extended(numbers: Iterator[str]) -> list[str]:
    """What belongs to a 38 or 48: 5;n or 2;r;g;b."""
    kind = next(numbers, "")
    count = {"5": 1, "2": 3}.get(kind, 0)
    return [kind, *(next(numbers, "") for _ in range(count))]


def highlights(lines: Sequence[Line], text_of: Callable[[Line], str]) -> list[str]:
    """The texts that stand out, row by row: in reverse video, or on a background that is not the one of most
    of the text."""
    plain = _plain_styles(lines)
    runs = (
        run
        for line in lines
        if not plain.issuperset(map(_STYLE, line.values()))
        for run in _runs(line, plain)
    )
    texts = (text_of(run).strip()[:LONGEST_RUN] for run in runs)
    return list(islice((text for text in texts if not _BLANK_OR_LINE.fullmatch(text)), MOST_RUNS))


def _plain_styles(lines: Sequence[Line]) -> set[Style]:
    """No style at all, and the background of most of the text."""
    counts: Counter[Style] = Counter()
    cells = Counter(map(_DATA_AND_STYLE, chain.from_iterable(line.values() for line in lines)))
    for (data, *style), count in cells.items():
        counts[Style(*style)] += count if data.strip() else 0
    return {PLAIN, *(style for style, _ in counts.most_common(1) if not style.reverse)}


def _runs(line: Line, plain: set[Style]) -> Iterator[Line]:
    """Each run of cells that stand out in one style, as a line that begins with it."""
    columns = [x for x in sorted(line) if _STYLE(line[x]) not in plain]
    begin = 0
    for at in range(1, len(columns) + 1):
        if at == len(columns) or not _is_one_run(line, columns[at - 1], columns[at]):
            yield {x - columns[begin]: line[x] for x in range(columns[begin], columns[at - 1] + 1)}
            begin = at


def _is_one_run(line: Line, left: int, right: int) -> bool:
    between = range(left + 1, right)
    return (
        len(between) <= BRIDGED_BLANKS
        and _STYLE(line[left]) == _STYLE(line[right])
        and all(not line[x].data.strip() for x in between)
    )
