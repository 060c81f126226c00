"""Colours for people: on a terminal, unless the environment says otherwise.

NO_COLOR          not empty: none, whatever else is set (no-color.org)
CLICOLOR_FORCE    not empty and not 0: also where no terminal is
TERM              dumb, or not set: none
"""

from collections.abc import Callable, Mapping
from typing import TextIO

Paint = Callable[[str, str], str]
"""Of a text and a style: a word of STYLES, several with blanks between them, or none."""

STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}


def has_colours(stream: TextIO, environ: Mapping[str, str]) -> bool:
    if environ.get("NO_COLOR"):
        return False
    if environ.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return environ.get("TERM", "dumb") != "dumb" and stream.isatty()


def painter(stream: TextIO, environ: Mapping[str, str]) -> Paint:
    """Paints what is to be written to this stream, or leaves it as it is."""
    return painted if has_colours(stream, environ) else plain


def painted(text: str, style: str) -> str:
    codes = ";".join(STYLES[word] for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m" if codes and text else text


def plain(text: str, _style: str) -> str:
    return text
