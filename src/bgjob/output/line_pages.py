"""Some whole lines before or after any place of a log: a page of it. What that costs does not depend on the log.

A line belongs where its first byte lies, and is read to its end, however far behind lines of the other stream
that is. A line ends with its newline, where bytes of its stream were dropped, or with the log.

A very long line is given in parts. Where a part begins depends on the line alone, not on the place from which
it is read: at a multiple of PART_BYTES, counted in bytes of its stream, if no line begins in so many bytes
before it. So pages that lie side by side have every line once.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import dropwhile, islice, takewhile
from operator import attrgetter
from typing import NamedTuple

from bgjob.core.frozen import Frozen
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output.log_reader import LogReader
from bgjob.output.log_runs import Runs
from bgjob.output.text import unfinished_bytes

PART_BYTES = 1 << 20
# Of a page: one with longer lines has fewer.
PAGE_BYTES = 4 << 20
# Of a line.
SHOWN_BYTES = 4096
STREAMS = (STDOUT, STDERR)
_by_offset = attrgetter("offset")


class Line(NamedTuple):
    offset: int
    """Of its first byte."""
    end: int
    """Behind its last byte."""
    stream: int
    time_us: int
    """When its first byte came, in microseconds since the epoch."""
    size: int
    """In bytes, without what ends the line."""
    skipped: int
    """How many bytes of it lie before `text`."""
    text: bytes
    """Its beginning; of a long one that redraws itself, its end."""
    is_rest: bool
    """It is a part of a very long line, which begins before it."""
    is_open: bool
    """It has no end yet: more of it may come."""


class DroppedBytes(NamedTuple):
    offset: int
    """From here on they are missing."""
    stream: int
    size: int


class LinePage(Frozen):
    lines: list[Line]
    """In the order in which they begin."""
    dropped: list[DroppedBytes]
    more: bool
    """There are lines beyond: before a page that ends at a place, behind one that begins there."""


def lines_before(log: LogReader, place: int, count: int) -> LinePage:
    """The last lines that begin before a place."""
    place = min(place, log.end)
    begins = merge(*(_begins(log, stream, place) for stream in STREAMS), key=_by_offset, reverse=True)
    first = _first_of_page(begins, count)
    streams = [takewhile(lambda line: line.offset < place, _lines(log, begin)) for begin in first.values()]
    lines, more = list(merge(*streams, key=_by_offset)), next(begins, None) is not None
    return LinePage(lines, _dropped(log, lines[0].offset if more and lines else 0, place), more)


def lines_after(log: LogReader, place: int, count: int) -> LinePage:
    """The first lines that begin at a place or behind it."""
    begins = [next(_begins(log, stream, place), _Begin(place, 0, stream)) for stream in STREAMS]
    streams = [dropwhile(lambda line: line.offset < place, _lines(log, begin)) for begin in begins]
    found = merge(*streams, key=_by_offset)
    lines, room = list[Line](), PAGE_BYTES
    while len(lines) < count and room > 0 and (line := next(found, None)):
        lines.append(line)
        room -= line.size
    more = next(found, None) is not None
    return LinePage(lines, _dropped(log, place, lines[-1].offset + 1 if more else log.end), more)


def around_place(log: LogReader, place: int) -> tuple[int, int]:
    """From where to where lines reach that begin before a place and end behind it; else the place alone."""
    begins = [begin for stream in STREAMS for begin in islice(_begins(log, stream, place), 1)]
    lines = [line for begin in begins for line in islice(_lines(log, begin), 1)]
    crossing = [line for line in lines if line.end > place]
    return min([place, *(line.offset for line in crossing)]), max([place, *(line.end for line in crossing)])


class _Begin(NamedTuple):
    """The first byte of a line."""

    offset: int
    position: int
    """How many bytes of its stream lie before it."""
    stream: int
    is_rest: bool = False


def _first_of_page(begins: Iterator[_Begin], count: int) -> dict[int, _Begin]:
    """The oldest of each stream, of the newest `count`."""
    oldest: dict[int, _Begin] = {}
    room = PAGE_BYTES
    while count > 0 and room > 0 and (begin := next(begins, None)):
        room -= oldest.get(begin.stream, begin).position - begin.position
        oldest[begin.stream] = begin
        count -= 1
    return oldest


def _dropped(log: LogReader, start: int, end: int) -> list[DroppedBytes]:
    """Of the gaps that begin between two offsets."""
    return sorted(
        DroppedBytes(gap.start, stream, gap.count)
        for stream in STREAMS
        for gap in log.gaps_begun(stream, start, end)
    )


# -- lines of one stream --------------------------------------------------------------------------------


class _Piece(NamedTuple):
    """Bytes of a stream that lie side by side."""

    position: int
    """How many bytes of the stream lie before it."""
    offset: int
    data: bytes
    runs: Runs

    def begin(self, index: int, stream: int, *, is_rest: bool = False) -> _Begin:
        return _Begin(self.offset + index, self.position + index, stream, is_rest)


def _forward(log: LogReader, stream: int, start: int) -> Iterator[_Piece]:
    for segment in log.segments_of(stream, start, log.end):
        runs = log.runs(segment)
        position = runs.printed_before(stream) + runs.size(stream, segment.start, start)
        for piece in log.pieces(segment, stream, start, log.end):
            yield _Piece(position, piece.start, piece.data, runs)
            position += len(piece.data)


def _backward(log: LogReader, stream: int, end: int) -> Iterator[_Piece]:
    for segment in log.segments_of(stream, 0, end, newest_first=True):
        runs = log.runs(segment)
        position = runs.printed_before(stream) + runs.size(stream, segment.start, end)
        for piece in log.pieces(segment, stream, 0, end, newest_first=True):
            position -= len(piece.data)
            yield _Piece(position, piece.start, piece.data, runs)


def _begins(log: LogReader, stream: int, place: int) -> Iterator[_Begin]:
    """Where lines begin before a place, newest first."""
    first: _Begin | None = None  # of the bytes that were looked at
    borders: list[_Begin] = []  # in the line of that byte, newest first: parts of it may begin there
    for piece in _backward(log, stream, place):
        if first and first.position != piece.position + len(piece.data):
            yield from _with_parts(first, borders)
            first, borders = None, []
        line_end = len(piece.data)
        while (newline := piece.data.rfind(b"\n", 0, line_end)) >= 0:
            borders += _borders(piece, newline + 1, line_end, stream)
            begin = piece.begin(newline + 1, stream) if newline + 1 < len(piece.data) else first
            if begin:
                yield from _with_parts(begin, borders)
            line_end, borders = newline, []
        borders += _borders(piece, 0, line_end, stream)
        first = piece.begin(0, stream)
        known = [border for border in borders if border.position - PART_BYTES >= first.position]
        yield from known
        borders = borders[len(known) :]
    if first:
        yield from _with_parts(first, borders)


def _borders(piece: _Piece, start: int, line_end: int, stream: int) -> list[_Begin]:
    """Multiples of PART_BYTES between two indexes, newest first; also the newline of the line is one of its bytes."""
    last = piece.position + min(line_end, len(piece.data) - 1)
    multiples = range(last // PART_BYTES * PART_BYTES, piece.position + start - 1, -PART_BYTES)
    return [piece.begin(at - piece.position, stream, is_rest=True) for at in multiples]


def _with_parts(line: _Begin, borders: Sequence[_Begin]) -> Iterator[_Begin]:
    yield from (border for border in borders if border.position - PART_BYTES >= line.position)
    yield line


def _lines(log: LogReader, begin: _Begin) -> Iterator[Line]:
    """The lines of a stream, from this one on."""
    line, is_rest = None, begin.is_rest
    for piece in _forward(log, begin.stream, begin.offset):
        if line and line.position != piece.position:
            yield line.ended()
            line, is_rest = None, False
        at = 0
        while at < len(piece.data):
            line = line or _Growing(piece.begin(at, begin.stream, is_rest=is_rest), piece.runs)
            most = min(len(piece.data), at + line.room)
            newline = piece.data.find(b"\n", at, most) + 1
            line.add(piece, at, newline or most)
            at = newline or most
            if newline or not line.room:
                yield line.ended()
                line, is_rest = None, not newline
    if line:
        yield line.ended(is_open=True)


class _Growing:
    """A line, as far as it was read."""

    def __init__(self, begin: _Begin, runs: Runs) -> None:
        self._begin, self._time_us = begin, runs.time_us(begin.offset)
        self._parts: list[bytes] = []
        self._end = begin.offset
        self.position = begin.position
        """Of the byte behind it, in its stream."""

    @property
    def room(self) -> int:
        """How many bytes it may have before its next part begins."""
        return -(-self._begin.position // PART_BYTES) * PART_BYTES + PART_BYTES - self.position

    def add(self, piece: _Piece, start: int, end: int) -> None:
        self._parts.append(piece.data[start:end])
        self._end, self.position = piece.offset + end, piece.position + end

    def ended(self, *, is_open: bool = False) -> Line:
        line = b"".join(self._parts).rstrip(b"\r\n")
        skipped, text = _shown(line)
        offset, _, stream, is_rest = self._begin
        return Line(offset, self._end, stream, self._time_us, len(line), skipped, text, is_rest, is_open)


def _shown(line: bytes) -> tuple[int, bytes]:
    """(bytes left out before it, the part that is shown)."""
    if len(line) <= SHOWN_BYTES:
        return 0, line
    if redrawn := line.find(b"\r", len(line) - SHOWN_BYTES) + 1:
        return redrawn, line[redrawn:]
    return 0, line[: SHOWN_BYTES - unfinished_bytes(line[:SHOWN_BYTES])]
