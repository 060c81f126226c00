"""Finds lines in a job's log. What it costs is what it reads: 1 GB in a second or two, in flat memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from bgjob.core.patterns import Pattern
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output.log_lines import Backward, Cell, Forward, Lines, Text, cells, window_of
from bgjob.output.log_reader import LogReader
from bgjob.output.text import stray_bytes, unfinished_bytes

SHOWN_BYTES = 500  # of a line


@dataclass(frozen=True)
class Match:
    """A line that matches."""

    offset: int
    """Of its first byte in the log."""
    end: int
    """Behind its last byte: offset and end make a cursor that reads it whole."""
    stream: int
    time_us: int
    """When its first byte came: microseconds since the epoch."""
    line: bytes
    """Without the newline; of a long one the part around the match."""
    cut: bool
    """It is longer than `line`."""
    before: tuple[bytes, ...] = ()
    after: tuple[bytes, ...] = ()
    """The lines around it, of the same stream; of long ones the beginning."""


@dataclass(frozen=True)
class Result:
    matches: list[Match]
    count: int | None
    """Of all lines that match, not only of these; None if it was not asked for."""
    more: bool
    """There are lines that match and are not in `matches`."""
    complete: bool
    """False: there was no time to look at everything."""


def search(
    log: LogReader,
    pattern: Pattern,
    *,
    limit: int,
    newest_first: bool,
    count: bool = True,
    streams: Sequence[int] = (STDOUT, STDERR),
    since: int = 0,
    until: int | None = None,
    after_us: int | None = None,
    before_us: int | None = None,
    context_lines: int = 0,
    out_of_time: Callable[[], bool] = lambda: False,
) -> Result:
    """The first or last `limit` lines that match, ordered by where they begin. Offsets and times are a window:
    what lies outside is not there, a line that goes over its edge is cut. Without `count` it ends when the
    limit is reached. Context lines are of the same stream, within the same window."""
    window = window_of(log, since, log.end if until is None else until, after_us, before_us)
    hunt = _Hunt(pattern, limit, newest_first, count)
    complete = hunt.through(cells(log, *window, newest_first), streams, out_of_time)
    matches = hunt.best[:limit]
    if context_lines:
        matches = [_with_context(log, match, context_lines, window) for match in matches]
    return Result(matches, hunt.count if count else None, hunt.count > len(matches), complete)


# -- the hunt -------------------------------------------------------------------------------------------


class _Hunt:
    """Counts what matches and keeps the best: the first or the last ones."""

    def __init__(self, pattern: Pattern, limit: int, newest_first: bool, count_all: bool) -> None:
        self.best: list[Match] = []
        self.count = 0
        self._pattern, self._newest_first, self._count_all = pattern, newest_first, count_all
        self._most = limit if count_all else limit + 1  # one more tells that there are more

    def through(self, cells: Iterable[Cell], streams: Sequence[int], out_of_time: Callable[[], bool]) -> bool:
        """False if it had to end before its time."""
        joiners = {stream: Backward() if self._newest_first else Forward() for stream in streams}
        for cell in cells:
            if out_of_time():
                return False
            for stream, joiner in joiners.items():
                if cell.is_cut_off(stream):
                    self._look_into(joiner.flush(), stream)
                if text := cell.text(stream):
                    self._look_into(joiner.lines(text), stream)
            joiners = {stream: joiner for stream, joiner in joiners.items() if self._needs(joiner)}
            if not joiners:
                break
        for stream, joiner in joiners.items():
            self._look_into(joiner.flush(), stream)
        return True

    def _needs(self, joiner: Forward) -> bool:
        """Whether what is still to come of a stream is to be counted, or can be among the best."""
        if self._count_all or len(self.best) < self._most:
            return True
        waiting = joiner.unfinished
        return waiting is not None and self._rank(waiting.place(0)[0]) < self._rank(self.best[-1].offset)

    def _rank(self, offset: int) -> int:
        return -offset if self._newest_first else offset

    def _look_into(self, blocks: Iterator[Lines], stream: int) -> None:
        for lines in blocks:
            if not self._may_have_the_best(lines):
                self.count += self._pattern.count_lines(lines.text.data, lines.start, lines.end)
                continue
            found = _matches(self._pattern, lines)
            if self._newest_first:
                kept: Iterable[Found] = deque(self._counted(found), maxlen=self._most)
            else:
                kept = list(islice(self._counted(found), self._most))
                if len(kept) == self._most:
                    deque(self._counted(found), maxlen=0)
            self._keep([shown(lines.text, one, stream) for one in kept])

    def _counted(self, found: "Iterator[Found]") -> "Iterator[Found]":
        for one in found:
            self.count += 1
            yield one

    def _may_have_the_best(self, lines: Lines) -> bool:
        if len(self.best) < self._most:
            return True
        if not self._most:
            return False
        edge = lines.end - 1 if self._newest_first else lines.start
        return self._rank(lines.text.place(edge)[0]) < self._rank(self.best[-1].offset)

    def _keep(self, matches: list[Match]) -> None:
        if matches:
            best = sorted(self.best + matches, key=lambda match: self._rank(match.offset))
            self.best = best[: self._most]


Found = tuple[int, int, int, int]  # positions: of a line, behind it and its newline, of the match, behind it


def _matches(pattern: Pattern, lines: Lines) -> Iterator[Found]:
    data, at, end = lines.text.data, lines.start, lines.end
    last = end - data.endswith(b"\n", at, end)  # behind the last newline there is no line
    while at < end:
        span = pattern.find(data, at, last)
        if span is None:
            return
        start = data.rfind(b"\n", at, span[0]) + 1 or at
        at = data.find(b"\n", span[1], end) + 1 or end
        yield start, at, *span


# -- what is shown --------------------------------------------------------------------------------------


def shown(text: Text, found: Found, stream: int, most: int = SHOWN_BYTES) -> Match:
    start, end, match_start, match_end = found
    offset, time_us = text.place(start)
    last = end - text.data.endswith(b"\n", start, end)
    spare = max(0, most - (match_end - match_start))
    left = max(start, min(match_start - spare // 2, last - most))
    line = _cut(text.data, start, left, last, most)
    return Match(offset, text.end_of(end), stream, time_us, line, last - start > most)


def _cut(data: bytes, start: int, left: int, last: int, most: int = SHOWN_BYTES) -> bytes:
    """The line data[start:last], shown from `left` on: as much as may be, in whole characters."""
    part = data[left : min(last, left + most)]
    if left > start:
        part = part[stray_bytes(part) :]
    if left + most < last:
        part = part[: len(part) - unfinished_bytes(part)]
    return part


def _with_context(log: LogReader, match: Match, lines: int, window: tuple[int, int]) -> Match:
    """The walks begin with a byte of the line itself: then they see a gap that lies beside it. If the line has gone
    meanwhile, they find nothing."""
    around = partial(_nearest, log, match.stream, lines + 1)
    before = around(window[0], match.offset + 1, newest_first=True)[1:]
    after = around(match.end - 1, window[1], newest_first=False)[1:]
    return replace(match, before=tuple(reversed(before)), after=tuple(after))


def _nearest(log: LogReader, stream: int, most: int, start: int, end: int, newest_first: bool) -> list[bytes]:
    """Lines of a stream, until there are enough of them or bytes are gone."""
    found: list[bytes] = []
    joiner = Backward() if newest_first else Forward()
    for cell in cells(log, start, end, newest_first):
        if cell.is_cut_off(stream):
            break
        if text := cell.text(stream):
            for lines in joiner.lines(text):
                found += islice(_each(lines, newest_first), most - len(found))
        if len(found) == most:
            return found
    for lines in joiner.flush():
        found += islice(_each(lines, newest_first), most - len(found))
    return found


def _each(lines: Lines, newest_first: bool) -> Iterator[bytes]:
    data, start, end = lines.text.data, lines.start, lines.end
    while start < end:
        if newest_first:
            left, right = data.rfind(b"\n", start, end - 1) + 1 or start, end
            end = left
        else:
            left, right = start, data.find(b"\n", start, end) + 1 or end
            start = right
        yield _cut(data, left, left, right - data.endswith(b"\n", left, right))
