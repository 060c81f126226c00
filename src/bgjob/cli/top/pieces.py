"""Several texts in one row of the screen of `bgjob top`."""

from bgjob.cli.top.screen import Screen, Style
from bgjob.cli.top.text import visible
from bgjob.output.tty_text import width

GAP = 2


def put_in_turn(screen: Screen, row: int, parts: list[tuple[str, Style]], begin: int = 0) -> int:
    """Where the next one would begin."""
    for text, style in parts:
        screen.put(row, begin, text, style)
        begin += width(visible(text)) + GAP
    return begin


def put_keys(screen: Screen, row: int, keys: tuple[tuple[str, str], ...]) -> int:
    column = 0
    for key, word in keys:
        if column + len(key) + 1 + len(word) > screen.size[1]:
            break
        screen.put(row, column, key, "strong")
        screen.put(row, column + len(key) + 1, word, "faint")
        column += len(key) + 1 + len(word) + GAP
    return column


def put_right(screen: Screen, row: int, begin: int, text: str) -> None:
    """At the right edge, if what is on the left leaves room."""
    at = max(begin, screen.size[1] - width(visible(text)))
    screen.put(row, at, text, "faint")
