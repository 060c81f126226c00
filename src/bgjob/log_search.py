"""Finds lines in a job's log. What it costs is what it reads: 1 GB in a second or two, in flat memory.

A line is a line of one stream: what the other stream printed in its middle does not cut it, nor does the end of
a segment; bytes that were dropped do. The log is walked through in cells, forward or backward. What a cell has of
a stream is mostly whole lines, which are searched at once; the line that a cell border cuts waits for its rest.

Read, not mapped: it is as fast, and a file that is truncated under us (a full disk) is a short read and not a
SIGBUS for the whole server. A segment that is deleted under us is a gap: we go on behind it.
"""

import os
import sys
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from bgjob import output_text
from bgjob.log_format import HEADER, STDERR, STDOUT
from bgjob.log_reader import LogReader, Rotated, Segment
from bgjob.patterns import Pattern

# cells grow, so that a near match is near, and so that a search which is slow is soon asked whether it may go on
CELL_MIN_BYTES, CELL_MAX_BYTES = 1 << 12, 1 << 18
LINE_MAX_BYTES = 1 << 18  # what has no newline for so long is searched in parts
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
    window = _window(log, since, log.end if until is None else until, after_us, before_us)
    hunt = _Hunt(pattern, limit, newest_first, count)
    complete = hunt.through(cells(log, *window, newest_first), streams, out_of_time)
    matches = hunt.best[:limit]
    if context_lines:
        matches = [_with_context(log, match, context_lines, window) for match in matches]
    return Result(matches, hunt.count if count else None, hunt.count > len(matches), complete)


# -- the log, cell by cell ------------------------------------------------------------------------------


class _Runs:
    """Which stream wrote a segment, and when."""

    def __init__(self, segment: Segment, index: bytes) -> None:
        self.segment = segment
        self._before: tuple[int, int] = HEADER.unpack_from(index)
        numbers = array("Q", index[HEADER.size :])
        if sys.byteorder == "big":
            numbers.byteswap()
        self._offsets, self._stamps = numbers[::2], numbers[1::2]

    def within(self, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """(start, end, stream, time in µs), oldest first."""
        offsets, stamps = self._offsets, self._stamps
        end = min(end, self.segment.end)
        for number in range(max(0, bisect_right(offsets, start) - 1), len(offsets)):
            left = max(offsets[number], start)
            if left >= end:
                return
            right = min(offsets[number + 1], end) if number + 1 < len(offsets) else end
            if left < right:
                yield left, right, stamps[number] & 0xFF, stamps[number] >> 8

    def all(self) -> Iterator[tuple[int, int, int, int]]:
        return self.within(self.segment.start, self.segment.end)

    def printed_before(self, stream: int) -> int:
        return self._before[stream - 1]

    def printed_by_its_end(self, stream: int) -> int:
        own = sum(right - left for left, right, whose, _ in self.all() if whose == stream)
        return self.printed_before(stream) + own


class Text:
    """Bytes of one stream in their order, and where in the log they lie."""

    def __init__(self, data: bytes, places: list[tuple[int, int, int]], end: int) -> None:
        self.data, self.end = data, end
        self._places = places  # (position in data, offset in the log, time in µs)

    def place(self, position: int) -> tuple[int, int]:
        """(offset in the log, time in µs)"""
        start, offset, time_us = self._places[bisect_right(self._places, position, key=lambda it: it[0]) - 1]
        return offset + position - start, time_us

    def end_of(self, position: int) -> int:
        """The offset behind the byte before a position."""
        return self.end if position == len(self.data) else self.place(position - 1)[0] + 1

    def part(self, start: int, end: int) -> "Text | None":
        """Some of it, as one line or part of a line: only its ends are placed."""
        if start >= end:
            return None
        return Text(self.data[start:end], [(0, *self.place(start))], self.end_of(end))

    def followed_by(self, rest: "Text | None") -> "Text":
        return Text(self.data + rest.data, self._places, rest.end) if rest else self


class Cell:
    """Some bytes of a segment; `jump` where the cell before it does not lie beside it."""

    def __init__(self, fd: int, runs: _Runs, start: int, end: int, jump: tuple[_Runs, _Runs] | None) -> None:
        self._fd, self._runs, self.start, self.end, self._jump = fd, runs, start, end, jump
        self._data: bytes | None = None

    def text(self, stream: int) -> Text | None:
        """What the stream printed here. Read only if it is asked for and there is something."""
        spans = [span for span in self._runs.within(self.start, self.end) if span[2] == stream]
        if not spans:
            return None
        if self._data is None:
            self._data = os.pread(self._fd, self.end - self.start, self.start - self._runs.segment.start)
        return _text(self._data, self.start, spans)

    def is_cut_off(self, stream: int) -> bool:
        """Whether bytes of the stream are gone between the cell before it and this one."""
        if self._jump is None:
            return False
        older, newer = self._jump
        return newer.printed_before(stream) != older.printed_by_its_end(stream)


def _text(data: bytes, start: int, spans: list[tuple[int, int, int, int]]) -> Text:
    """What the spans have of the data, which lies in the log at `start`."""
    places, at = [], 0
    for left, right, _, time_us in spans:
        places.append((at, left, time_us))
        at += right - left
    if at < len(data):
        view = memoryview(data)
        data = b"".join([view[left - start : right - start] for left, right, _, _ in spans])
    return Text(data, places, spans[-1][1])


def cells(log: LogReader, start: int, end: int, newest_first: bool) -> Iterator[Cell]:
    """All of the log between two offsets."""
    size = CELL_MIN_BYTES
    last: _Runs | None = None
    for runs, fd in _opened(log, start, end, newest_first):
        left, right = max(start, runs.segment.start), min(end, runs.segment.end)
        jump = _jump(runs, last, newest_first)
        while left < right:
            first = max(left, right - size) if newest_first else left
            yield Cell(fd, runs, first, min(right, first + size), jump)
            left, right = (left, first) if newest_first else (first + size, right)
            jump, size = None, min(size * 2, CELL_MAX_BYTES)
        last = runs


def _opened(log: LogReader, start: int, end: int, newest_first: bool) -> Iterator[tuple[_Runs, int]]:
    segments = log.segments(start, end)
    for segment in reversed(segments) if newest_first else segments:
        with suppress(Rotated), log.opened(segment) as (fd, index):
            yield _Runs(segment, index), fd


def _jump(runs: _Runs, last: _Runs | None, newest_first: bool) -> tuple[_Runs, _Runs] | None:
    """(older, newer) where two segments do not lie side by side."""
    if last is None:
        return None
    older, newer = (runs, last) if newest_first else (last, runs)
    return None if older.segment.end == newer.segment.start else (older, newer)


def _window(
    log: LogReader, start: int, end: int, after_us: int | None, before_us: int | None
) -> tuple[int, int]:
    """From the first byte that is not too old to the last one that is not too new, by whatever the clock did."""
    if after_us is not None:
        spans = (span for runs, _ in _opened(log, start, end, False) for span in runs.within(start, end))
        start = next((left for left, _, _, time_us in spans if time_us >= after_us), end)
    if before_us is not None:
        spans = (
            span
            for runs, _ in _opened(log, start, end, True)
            for span in reversed(list(runs.within(start, end)))
        )
        end = next((right for _, right, _, time_us in spans if time_us < before_us), start)
    return start, end


# -- whole lines ----------------------------------------------------------------------------------------


class Lines:
    """Whole lines of one stream: a part of a text."""

    def __init__(self, text: Text, start: int, end: int) -> None:
        self.text, self.start, self.end = text, start, end


class Forward:
    """Takes the texts of a stream, oldest first, and gives whole lines."""

    def __init__(self) -> None:
        self.unfinished: Text | None = None

    def lines(self, text: Text) -> Iterator[Lines]:
        first, last = text.data.find(b"\n") + 1, text.data.rfind(b"\n") + 1
        if self.unfinished:
            text_end = first or len(text.data)
            self.unfinished = self.unfinished.followed_by(text.part(0, text_end))
            if first or len(self.unfinished.data) > LINE_MAX_BYTES:
                yield from self.flush()
            if not first:
                return
        else:
            first = 0
        if first < last:
            yield Lines(text, first, last)
        self.unfinished = text.part(last, len(text.data))

    def flush(self) -> Iterator[Lines]:
        """No more is to come: what waits is a line."""
        line, self.unfinished = self.unfinished, None
        if line:
            yield Lines(line, 0, len(line.data))


class _Backward(Forward):
    """The same, newest first."""

    def lines(self, text: Text) -> Iterator[Lines]:
        first, last = text.data.find(b"\n") + 1, text.data.rfind(b"\n") + 1
        if tail := text.part(last, len(text.data)):
            self.unfinished = tail.followed_by(self.unfinished)
        if last or (self.unfinished and len(self.unfinished.data) > LINE_MAX_BYTES):
            yield from self.flush()
        if first < last:
            yield Lines(text, first, last)
        if first:
            self.unfinished = text.part(0, first)


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
        joiners = {stream: _Backward() if self._newest_first else Forward() for stream in streams}
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
        part = part[output_text.stray_bytes(part) :]
    if left + most < last:
        part = part[: len(part) - output_text.unfinished_bytes(part)]
    return part


def _with_context(log: LogReader, match: Match, lines: int, window: tuple[int, int]) -> Match:
    """The walks begin with a byte of the line itself: then they see a gap that lies beside it."""
    around = partial(_nearest, log, match.stream, lines + 1)
    _, *before = around(window[0], match.offset + 1, newest_first=True)
    _, *after = around(match.end - 1, window[1], newest_first=False)
    return replace(match, before=tuple(reversed(before)), after=tuple(after))


def _nearest(log: LogReader, stream: int, most: int, start: int, end: int, newest_first: bool) -> list[bytes]:
    """Lines of a stream, until there are enough of them or bytes are gone."""
    found: list[bytes] = []
    joiner = _Backward() if newest_first else Forward()
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
