"""A job's log as whole lines of a stream, forward or backward, in flat memory.

A line is a line of one stream: output of the other stream does not cut it, nor does the end of a segment;
dropped bytes do. The log is read in cells. A cell has mostly whole lines of a stream, which are given at
once; a line that the border of a cell cuts waits for its rest.

The log is read, not mapped: that is as fast, and a file that is truncated meanwhile (a full disk) is a short
read, not a SIGBUS for the whole server. If a segment is deleted meanwhile, we read what is kept of it, and go
on behind it.
"""

from bisect import bisect_right
from collections.abc import Iterator

from bgjob.output.log_reader import LogReader, Source
from bgjob.output.log_runs import Runs
from bgjob.output.log_segments import Rotated, Segment

# Cells grow: a near match is found fast, and a slow search soon checks its deadline.
CELL_MIN_BYTES, CELL_MAX_BYTES = 1 << 12, 1 << 18
# A longer line is given in parts.
LINE_MAX_BYTES = 1 << 18


# -- the log, cell by cell ------------------------------------------------------------------------------


class Text:
    """Bytes of one stream in their order, and where in the log they lie."""

    def __init__(self, data: bytes, places: list[tuple[int, int, int]], end: int) -> None:
        self.data, self.end = data, end
        # (position in data, offset in the log, time in µs).
        self._places = places

    def place(self, position: int) -> tuple[int, int]:
        """(offset in the log, time in µs)"""
        start, offset, time_us = self._places[bisect_right(self._places, position, key=lambda it: it[0]) - 1]
        return offset + position - start, time_us

    def position(self, offset: int) -> int:
        """Of the first byte at an offset of the log or behind it."""
        number = bisect_right(self._places, offset, key=lambda it: it[1]) - 1
        if number < 0:
            return 0
        start, begin, _ = self._places[number]
        end = self._places[number + 1][0] if number + 1 < len(self._places) else len(self.data)
        return min(start + offset - begin, end)

    def end_of(self, position: int) -> int:
        """The offset behind the byte before a position."""
        return self.end if position == len(self.data) else self.place(position - 1)[0] + 1

    def part(self, start: int, end: int) -> "Text | None":
        """A part of it, as one line or part of a line: only its ends have places."""
        if start >= end:
            return None
        return Text(self.data[start:end], [(0, *self.place(start))], self.end_of(end))

    def followed_by(self, rest: "Text | None") -> "Text":
        return Text(self.data + rest.data, self._places, rest.end) if rest else self


class Cell:
    """Some bytes of a segment; `jump` if the cell before it does not lie beside it."""

    def __init__(
        self, source: Source, runs: Runs, start: int, end: int, jump: tuple[Runs, Runs] | None
    ) -> None:
        self._source, self._runs, self.start, self.end, self._jump = source, runs, start, end, jump
        self._data: bytes | None = None

    @property
    def has_holes(self) -> bool:
        return bool(self._runs.segment.kept)

    def text(self, stream: int) -> Text | None:
        """What the stream printed here. The file is read only if there is something."""
        spans = [span for span in self._runs.within(self.start, self.end) if span[2] == stream]
        if not spans:
            return None
        if self.has_holes:
            data = [self._source.read(left, right) for left, right, _, _ in spans]
            return Text(b"".join(data), _places(spans), spans[-1][1])
        if self._data is None:
            self._data = self._source.read(self.start, self.end)
        return _text(self._data, self.start, spans)

    def is_cut_off(self, stream: int) -> bool:
        """Whether bytes of the stream are gone between the cell before it and this one."""
        if self._jump is None:
            return False
        older, newer = self._jump
        return newer.printed_before(stream) != older.printed_by_its_end(stream)


def _text(data: bytes, start: int, spans: list[tuple[int, int, int, int]]) -> Text:
    """The parts of the data that the spans name; the data begins at offset `start`."""
    if sum(right - left for left, right, _, _ in spans) < len(data):
        view = memoryview(data)
        data = b"".join([view[left - start : right - start] for left, right, _, _ in spans])
    return Text(data, _places(spans), spans[-1][1])


def _places(spans: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int]]:
    places, at = [], 0
    for left, right, _, time_us in spans:
        places.append((at, left, time_us))
        at += right - left
    return places


def cells(log: LogReader, start: int, end: int, newest_first: bool) -> Iterator[Cell]:
    """All of the log between two offsets."""
    size = CELL_MIN_BYTES
    last: Runs | None = None
    for runs, source in _opened(log, log.segments(start, end), newest_first):
        left, right = max(start, runs.segment.start), min(end, runs.segment.end)
        jump = _jump(runs, last, newest_first)
        while left < right:
            # A segment with holes is small, however far its offsets go.
            width = right - left if runs.segment.kept else size
            first = max(left, right - width) if newest_first else left
            yield Cell(source, runs, first, min(right, first + width), jump)
            left, right = (left, first) if newest_first else (first + width, right)
            jump, size = None, min(size * 2, CELL_MAX_BYTES)
        last = runs


def _opened(log: LogReader, segments: list[Segment], newest_first: bool) -> Iterator[tuple[Runs, Source]]:
    for segment in reversed(segments) if newest_first else segments:
        try:
            with log.opened(segment) as (source, runs):
                yield runs, source
        except Rotated:
            yield from _opened(log, log.replace_deleted(segment), newest_first)


def _jump(runs: Runs, last: Runs | None, newest_first: bool) -> tuple[Runs, Runs] | None:
    """(older, newer) if segments do not lie side by side, or the older lacks bytes at its end."""
    if last is None:
        return None
    older, newer = (runs, last) if newest_first else (last, runs)
    is_whole = older.segment.end == newer.segment.start and not older.segment.kept
    return None if is_whole else (older, newer)


def window_of(
    log: LogReader, start: int, end: int, after_us: int | None, before_us: int | None
) -> tuple[int, int]:
    """From the first byte that is not too old to the last that is not too new, also if the clock was set."""
    if after_us is not None:
        spans = (
            span
            for runs, _ in _opened(log, log.segments(start, end), False)
            for span in runs.within(start, end)
        )
        start = next((left for left, _, _, time_us in spans if time_us >= after_us), end)
    if before_us is not None:
        spans = (
            span
            for runs, _ in _opened(log, log.segments(start, end), True)
            for span in runs.within(start, end, newest_first=True)
        )
        end = next((right for _, right, _, time_us in spans if time_us < before_us), start)
    return start, end


# -- whole lines ----------------------------------------------------------------------------------------


class Lines:
    """Whole lines of one stream: a part of a text. `is_rest`: of a line of which a part was given before."""

    def __init__(self, text: Text, start: int, end: int, *, is_rest: bool = False) -> None:
        self.text, self.start, self.end, self.is_rest = text, start, end, is_rest


class Forward:
    """Takes the texts of a stream, oldest first, and gives whole lines."""

    def __init__(self) -> None:
        self.unfinished: Text | None = None
        self._is_rest = False

    def lines(self, text: Text) -> Iterator[Lines]:
        first, last = text.data.find(b"\n") + 1, text.data.rfind(b"\n") + 1
        if self.unfinished or self._is_rest:
            begun = text.part(0, first or len(text.data))
            self.unfinished = self.unfinished.followed_by(begun) if self.unfinished else begun
            if first or self._is_too_long():
                yield from self.flush(has_rest=not first)
            if not first:
                return
        else:
            first = 0
        if first < last:
            yield Lines(text, first, last)
        self.unfinished = text.part(last, len(text.data))

    def flush(self, *, has_rest: bool = False) -> Iterator[Lines]:
        """The unfinished line is a line: no more of it will come, or more than is held."""
        line, self.unfinished = self.unfinished, None
        is_rest, self._is_rest = self._is_rest, has_rest
        if line:
            yield Lines(line, 0, len(line.data), is_rest=is_rest)

    def _is_too_long(self) -> bool:
        return self.unfinished is not None and len(self.unfinished.data) > LINE_MAX_BYTES


class Backward(Forward):
    """The same, newest first."""

    def lines(self, text: Text) -> Iterator[Lines]:
        first, last = text.data.find(b"\n") + 1, text.data.rfind(b"\n") + 1
        if tail := text.part(last, len(text.data)):
            self.unfinished = tail.followed_by(self.unfinished)
        if last or self._is_too_long():
            yield from self.flush(has_rest=not last)
        if first < last:
            yield Lines(text, first, last)
        if first:
            self.unfinished = text.part(0, first)
