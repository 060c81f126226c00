"""Finds lines in a job's log: 1 GB in a second or two, in flat memory."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice

from bgjob.core.frozen import Frozen, replace
from bgjob.core.patterns import Pattern
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output.line_match import Found, count_matching_lines, matching_lines
from bgjob.output.log_lines import Backward, Cell, Forward, Lines, Text, cells, window_of
from bgjob.output.log_reader import LogReader
from bgjob.output.text import stray_bytes, unfinished_bytes

# Of a line.
SHOWN_BYTES = 500


class Match(Frozen):
    """A line that matches."""

    offset: int
    """Offset of its first byte in the log."""
    end: int
    """Offset behind its last byte. Offset and end make a cursor that reads the whole line."""
    stream: int
    time_us: int
    """When its first byte came, in microseconds since the epoch."""
    line: bytes
    """Without the newline; of a long line the part around the match. As an answer shows it, if it matches so."""
    before: tuple[bytes, ...] = ()
    after: tuple[bytes, ...] = ()
    """The lines around it, of the same stream; of a long line the beginning and an ellipsis."""
    starts_late: bool = False
    ends_early: bool = False
    """The line has more before, or behind, what `line` shows of it."""


class Result(Frozen):
    matches: list[Match]
    count: int | None
    """Of all lines that match; None if the caller did not ask."""
    more: bool
    """More lines match than are in `matches`."""
    complete: bool
    """False: there was no time to search everything."""
    between: Sequence[int] = ()
    """How many lines that match begin before the first border, between each two, and behind the last."""


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
    place: int | None = None,
    borders: Sequence[int] = (),
    out_of_time: Callable[[], bool] = lambda: False,
) -> Result:
    """The first or last `limit` lines that match, ordered by where they begin.

    Offsets and times are a window: a line that crosses its edge is cut. Without `count` the search ends when
    the limit is reached. Context lines are of the same stream and in the same window. `place`: the first lines
    that begin there or behind it, or the last that begin before it; the others are counted. `borders`: offsets,
    ascending, between which matches are counted.
    """
    window = window_of(log, since, log.end if until is None else until, after_us, before_us)
    found = _Search(pattern, limit, newest_first, count, place, borders)
    complete = found.through(cells(log, *window, newest_first), streams, out_of_time)
    matches = found.best[:limit]
    if context_lines:
        matches = [_with_context(log, match, context_lines, window) for match in matches]
    more = found.count > len(matches)
    return Result(matches, found.count if count else None, more, complete, found.between)


# -- searching ------------------------------------------------------------------------------------------


class _Search:
    """Counts the lines that match, and keeps the best: the first or the last."""

    def __init__(
        self,
        pattern: Pattern,
        limit: int,
        newest_first: bool,
        count_all: bool,
        place: int | None,
        borders: Sequence[int],
    ) -> None:
        self.best: list[Match] = []
        self.count = 0
        self.between = [0] * (len(borders) + 1)
        self._place, self._borders = place, borders
        self._cuts = borders if place is None else sorted({*borders, place})
        self._pattern, self._newest_first, self._count_all = pattern, newest_first, count_all
        self._has_counted: dict[int, bool] = {}  # of a stream: whether its last lines had a match
        # One more than the limit tells that there are more.
        self._most = limit if count_all else limit + 1

    def through(self, cells: Iterable[Cell], streams: Sequence[int], out_of_time: Callable[[], bool]) -> bool:
        """Return False if it ran out of time, or the pattern takes too long on a line."""
        joiners = {stream: Backward() if self._newest_first else Forward() for stream in streams}
        for cell in cells:
            if out_of_time() or self._pattern.gave_up:
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
        return not self._pattern.gave_up

    def _needs(self, joiner: Forward) -> bool:
        """Whether later lines of a stream have to be counted, or can be among the best."""
        if self._count_all or len(self.best) < self._most:
            return True
        waiting = joiner.unfinished
        return waiting is not None and self._rank(waiting.place(0)[0]) < self._rank(self.best[-1].offset)

    def _rank(self, offset: int) -> int:
        return -offset if self._newest_first else offset

    def _look_into(self, blocks: Iterator[Lines], stream: int) -> None:
        for lines in blocks:
            if lines.is_rest and self._has_counted[stream]:
                continue
            before = self.count
            for some in _cut_at(self._cuts, lines):
                self._look_into_some(some, stream)
            self._has_counted[stream] = self.count > before

    def _look_into_some(self, lines: Lines, stream: int) -> None:
        """Lines that begin between the same two borders."""
        before, begin = self.count, lines.text.place(lines.start)[0]
        is_wanted = self._is_wanted(begin)
        if is_wanted and self._may_have_the_best(lines):
            self._keep([shown(lines.text, one, stream) for one in self._best_of(lines)])
        elif is_wanted or self._count_all:
            self.count += count_matching_lines(self._pattern, lines)
        self.between[bisect_right(self._borders, begin)] += self.count - before

    def _is_wanted(self, offset: int) -> bool:
        return self._place is None or (offset < self._place if self._newest_first else offset >= self._place)

    def _best_of(self, lines: Lines) -> Iterable[Found]:
        found = self._counted(matching_lines(self._pattern, lines))
        if self._newest_first:
            return deque(found, maxlen=self._most)
        kept = list(islice(found, self._most))
        deque(found, maxlen=0)
        return kept

    def _counted(self, found: Iterator[Found]) -> Iterator[Found]:
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


def _cut_at(borders: Sequence[int], lines: Lines) -> Iterator[Lines]:
    """The same lines, in as many parts as there are borders between where they begin."""
    text, start, end = lines.text, lines.start, lines.end
    first, last = text.place(start)[0], text.place(end - 1)[0]
    for border in borders[bisect_right(borders, first) : bisect_right(borders, last)]:
        # A line begins behind a newline, which may be the byte before the border.
        begin = text.data.find(b"\n", text.position(border) - 1, end) + 1 or end
        if start < begin:
            yield Lines(text, start, begin, is_rest=lines.is_rest)
        start = max(start, begin)
    if start < end:
        yield Lines(text, start, end, is_rest=lines.is_rest)


# -- what is shown --------------------------------------------------------------------------------------


def shown(text: Text, found: Found, stream: int, most: int = SHOWN_BYTES) -> Match:
    data, start, last = _line(text, found)
    offset, time_us = text.place(found.start)
    spare = max(0, most - (found.span[1] - found.span[0]))
    left = max(start, min(found.span[0] - spare // 2, last - most))
    return Match(
        offset,
        text.end_of(found.end),
        stream,
        time_us,
        _cut(data, start, left, last, most),
        starts_late=left > start,
        ends_early=left + most < last,
    )


def _line(text: Text, found: Found) -> tuple[bytes, int, int]:
    """The bytes in which the match is, and where in them the line begins and ends."""
    if found.plain is not None:
        return found.plain, 0, len(found.plain)
    return text.data, found.start, found.end - text.data.endswith(b"\n", found.start, found.end)


def _cut(data: bytes, start: int, left: int, last: int, most: int = SHOWN_BYTES) -> bytes:
    """The line data[start:last], shown from `left` on: at most `most` bytes, in whole characters."""
    part = data[left : min(last, left + most)]
    if left > start:
        part = part[stray_bytes(part) :]
    if left + most < last:
        part = part[: len(part) - unfinished_bytes(part)]
    return part


def _with_context(log: LogReader, match: Match, lines: int, window: tuple[int, int]) -> Match:
    """Read from a byte of the line itself, so that a gap beside the line is seen. Empty if the line was
    deleted meanwhile."""
    around = partial(_nearest, log, match.stream, lines + 1)
    before = around(window[0], match.offset + 1, newest_first=True)[1:]
    after = around(match.end - 1, window[1], newest_first=False)[1:]
    return replace(match, before=tuple(reversed(before)), after=tuple(after))


def _nearest(log: LogReader, stream: int, most: int, start: int, end: int, newest_first: bool) -> list[bytes]:
    """Lines of a stream, until there are enough or bytes are missing."""
    found: list[bytes] = []
    joiner = Backward() if newest_first else Forward()
    for cell in cells(log, start, end, newest_first):
        if cell.is_cut_off(stream):
            break
        if text := cell.text(stream):
            found += islice(_whole(joiner.lines(text), newest_first), most - len(found))
        if len(found) == most:
            return found
    found += islice(_whole(joiner.flush(), newest_first), most - len(found))
    return found


def _whole(blocks: Iterator[Lines], newest_first: bool) -> Iterator[bytes]:
    """Each line once, however many parts it was given in."""
    return (line for lines in blocks if not lines.is_rest for line in _each(lines, newest_first))


def _each(lines: Lines, newest_first: bool) -> Iterator[bytes]:
    data, start, end = lines.text.data, lines.start, lines.end
    while start < end:
        if newest_first:
            left, right = data.rfind(b"\n", start, end - 1) + 1 or start, end
            end = left
        else:
            left, right = start, data.find(b"\n", start, end) + 1 or end
            start = right
        yield _beginning(data, left, right - data.endswith(b"\n", left, right))


def _beginning(data: bytes, start: int, last: int) -> bytes:
    is_cut = last - start > SHOWN_BYTES
    return _cut(data, start, start, last) + "…".encode() * is_cut
