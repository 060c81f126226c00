"""How a cell looks: its colours and weights as SGR sets them; and which texts stand out from the others.

A menu marks its selection by reverse video, as less and vim do, or by a background, as whiptail and dialog do.
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
Ground = tuple[str, bool]
"""The background of a cell, and whether it is in reverse video."""
_GROUND, _DATA_AND_GROUND = attrgetter("bg", "reverse"), attrgetter("data", "bg", "reverse")
_BLANK_OR_LINE = re.compile(r"[\s\u2500-\u257f]*")


class Style(NamedTuple):
    background: str = DEFAULT
    """As SGR sets it, like "41" or "48;5;41"."""
    reverse: bool = False
    others: str = ""
    """All else that is set, as SGR has it: foreground, bold, underline ..., like "1;31"."""

    @property
    def sequence(self) -> str:
        """What sets this style on a terminal that has none; empty for none."""
        numbers = ["7"] * self.reverse + [self.background] * (self.background != DEFAULT)
        return f"\x1b[{';'.join([*numbers, *filter(None, [self.others])])}m" if self != PLAIN else ""


PLAIN = Style()
# What is set by one of the first is taken back by the last.
_KINDS = (
    (("1",), "22"),
    (("2",), "22"),
    (("3",), "23"),
    (("4", "21"), "24"),
    (("5", "6"), "25"),
    (("8",), "28"),
    (("9",), "29"),
    (("53",), "55"),
    (("58",), "59"),
)
_FOREGROUND = re.compile("3[0-8]|9[0-7]")
_EXTENDED = re.compile(r"[345]8(?:;5;\d{1,3}|;2(?:;\d{1,3}){3}|:5:\d{1,3}|:2(?::\d{0,3}){3,5})")


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
        elif code in ("38", "48", "58"):
            style = _coloured(style, ";".join([code, *_extended(numbers)]))
        else:
            style = _coloured(style, code)
    return style


def _coloured(style: Style, code: str) -> Style:
    """With one more attribute, or one less."""
    number = re.split("[;:]", code, maxsplit=1)[0]
    if number in ("38", "48", "58") and not _EXTENDED.fullmatch(code):
        return style
    if number == "48" or re.fullmatch("4[0-7]|10[0-7]", number):
        return style._replace(background=code)
    if number == "49":
        return style._replace(background=DEFAULT)
    kept = [each for each in _attributes(style.others) if not _replaces(number, each)]
    is_set = _FOREGROUND.fullmatch(number) or any(number in numbers for numbers, _ in _KINDS)
    return style._replace(others=";".join([*kept, code] if is_set and code != "4:0" else kept))


def _attributes(others: str) -> Iterator[str]:
    numbers = iter(others.split(";") if others else ())
    for number in numbers:
        yield ";".join([number, *_extended(numbers)]) if number in ("38", "58") else number


def _replaces(number: str, attribute: str) -> bool:
    """Whether an SGR number ends what this attribute has set."""
    held = re.split("[;:]", attribute, maxsplit=1)[0]
    if _FOREGROUND.fullmatch(held):
        return number == "39" or _FOREGROUND.fullmatch(number) is not None
    return any(held in numbers and (number == end or number in numbers) for numbers, end in _KINDS)


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
        if not plain.issuperset(map(_GROUND, line.values()))
        for run in _runs(line, plain)
    )
    texts = (text_of(run).strip()[:LONGEST_RUN] for run in runs)
    return list(islice((text for text in texts if not _BLANK_OR_LINE.fullmatch(text)), MOST_RUNS))


def _plain_styles(lines: Sequence[Line]) -> set[Ground]:
    """No background of its own, and the background of most of the text."""
    counts: Counter[Ground] = Counter()
    cells = Counter(map(_DATA_AND_GROUND, chain.from_iterable(line.values() for line in lines)))
    for (data, background, reverse), count in cells.items():
        counts[background, reverse] += count if data.strip() else 0
    bare = (DEFAULT, False)
    # of two that are as common, the same one however it came to be drawn
    most = max(counts, key=lambda ground: (counts[ground], ground == bare, ground), default=bare)
    return {bare} if most[1] else {bare, most}


def _runs(line: Line, plain: set[Ground]) -> Iterator[Line]:
    """Each run of cells that stand out in one style, as a line that begins with it."""
    columns = [x for x in sorted(line) if _GROUND(line[x]) not in plain]
    begin = 0
    for at in range(1, len(columns) + 1):
        if at == len(columns) or not _is_one_run(line, columns[at - 1], columns[at]):
            yield {x - columns[begin]: line[x] for x in range(columns[begin], columns[at - 1] + 1)}
            begin = at


def _is_one_run(line: Line, left: int, right: int) -> bool:
    between = range(left + 1, right)
    return (
        len(between) <= BRIDGED_BLANKS
        and _GROUND(line[left]) == _GROUND(line[right])
        and all(not line[x].data.strip() for x in between)
    )
