r"""Which lines match a pattern: as they were printed, or as an answer shows them.

A pattern is written for what an answer shows: a line without colours, and of a bar that is redrawn the last
state. So `^error` matches the line \x1b[31merror\x1b[0m. A line that matches in either form counts once.
Lines without control characters are the same in both forms, and are matched many at a time.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import accumulate, groupby
from operator import attrgetter
from typing import NamedTuple

from bgjob.core.late_pattern import late_pattern
from bgjob.core.patterns import Pattern, Span
from bgjob.output.log_lines import Lines
from bgjob.output.text import plain_line

# The cleaner removes them whatever surrounds them, so that they can be removed from many lines at once.
_COLOUR = late_pattern(rb"\x1b(?:\[[0-9;:?]*+[hlm]|\(B)")
_RETURN = late_pattern(rb"\r[^\n]")
_by_start = attrgetter("start")


class Found(NamedTuple):
    """A line that matches."""

    start: int
    end: int
    """Positions in the text: of its first byte, and behind its newline."""
    span: Span
    """Of the match: positions in `plain`, or in the text if that is None."""
    plain: bytes | None = None
    """The line as an answer shows it, if it matches so."""


def matching_lines(pattern: Pattern, lines: Lines) -> Iterator[Found]:
    """In their order, each once; as an answer shows it, if it matches so."""
    printed = _printed_matches(pattern, lines)
    if not _has_controls(lines.text.data, lines.start, lines.end):
        return printed
    both = merge(_plain_matches(pattern, lines), printed, key=_by_start)
    return (next(same) for _, same in groupby(both, _by_start))


def count_matching_lines(pattern: Pattern, lines: Lines) -> int:
    data, start, end = lines.text.data, lines.start, lines.end
    if _has_controls(data, start, end):
        return sum(1 for _ in matching_lines(pattern, lines))
    return pattern.count_lines(data, start, end)


def _has_controls(data: bytes, start: int, end: int) -> bool:
    """Whether an answer may show these lines otherwise than they were printed. The end of a line may be CRLF."""
    if data.find(b"\x1b", start, end) >= 0 or data.find(b"\b", start, end) >= 0:
        return True
    # `find` first: where there is none, it is forty times as fast as `re`.
    first = data.find(b"\r", start, end)
    return first >= 0 and _RETURN.search(data, first, end) is not None


def _printed_matches(pattern: Pattern, lines: Lines) -> Iterator[Found]:
    data, at, end = lines.text.data, lines.start, lines.end
    # No line begins after the last newline.
    last = end - data.endswith(b"\n", at, end)
    while at < end:
        span = pattern.find(data, at, last)
        if span is None:
            return
        start = data.rfind(b"\n", at, span[0]) + 1 or at
        at = data.find(b"\n", span[1], end) + 1 or end
        yield Found(start, at, span)


def _plain_matches(pattern: Pattern, lines: Lines) -> Iterator[Found]:
    data = lines.text.data[lines.start : lines.end].removesuffix(b"\n")
    printed, plain = data.split(b"\n"), _plain_lines(data)
    starts, plain_starts = _starts(printed, lines.start), _starts(plain, 0)
    text, number = b"\n".join(plain), 0
    while number < len(plain) and (span := pattern.find(text, plain_starts[number], len(text))):
        number = bisect_right(plain_starts, span[0]) - 1
        at, number = number, number + 1
        left = plain_starts[at]
        yield Found(starts[at], min(starts[number], lines.end), (span[0] - left, span[1] - left), plain[at])


def _plain_lines(data: bytes) -> list[bytes]:
    without_colours = _COLOUR.sub(b"", data)
    lines = [line.rstrip(b"\r") for line in without_colours.split(b"\n")]
    if not _has_controls(without_colours, 0, len(without_colours)):
        return lines
    pairs = zip(lines, data.split(b"\n"), strict=True)
    return [
        plain_line(printed).encode() if _has_controls(line, 0, len(line)) else line for line, printed in pairs
    ]


def _starts(lines: Sequence[bytes], first: int) -> list[int]:
    """Where each begins, and where the next one would."""
    return list(accumulate((len(line) + 1 for line in lines), initial=first))
