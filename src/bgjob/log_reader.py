"""Reads a job's log, while it is written or after. What a read costs is what its answer costs.

Positions are absolute offsets (see log_format); a reader takes nothing from the writer or from other readers,
and a segment that is deleted under it is a gap like any other.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from struct import iter_unpack

from bgjob.log_format import HEADER, RUN, RUNS_SUFFIX, segment_name

PIECE_BYTES = 1 << 16
INDEX_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Segment:
    start: int
    end: int


@dataclass(frozen=True)
class Gap:
    """Bytes that are gone: `count` of one stream, somewhere between two offsets."""

    start: int
    end: int
    count: int


@dataclass(frozen=True)
class Piece:
    """Bytes of one stream that lie side by side in the log."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class Rotated(Exception):
    """A segment was deleted while it was read: take a new look at the log."""


class LogReader:
    """The log as it is at this moment: what is written later is not in it."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._segments = _segments(directory)
        self._indexes: dict[int, bytes] = {}
        self.end = self._segments[-1].end if self._segments else 0

    def forward(self, stream: int, start: int, end: int) -> Iterator[Piece]:
        """What the stream printed between two offsets, oldest first."""
        for segment in self._overlapping(start, end):
            yield from self._pieces(segment, stream, start, end)

    def backward(self, stream: int, start: int, end: int) -> Iterator[Piece]:
        """The same, newest first."""
        for segment in reversed(self._overlapping(start, end)):
            yield from self._pieces(segment, stream, start, end, newest_first=True)
            if not self._printed_before(segment, stream):
                return  # nothing of it further back

    def interleaved(self, start: int, end: int) -> Iterator[tuple[int, Piece]]:
        """(stream, piece) of both streams, in the order of the log."""
        for segment in self._overlapping(start, end):
            with _opened(self._path(segment)) as fd:
                for left, right, stream in self._runs(segment):
                    for begin, stop in _cut(max(left, start), min(right, end)):
                        yield stream, Piece(begin, os.pread(fd, stop - begin, begin - segment.start))

    def kept(self, stream: int, start: int, end: int) -> int:
        """How many bytes of the stream between two offsets are still here."""
        return sum(self._kept_in(segment, stream, start, end) for segment in self._overlapping(start, end))

    def gaps(self, stream: int, start: int, end: int) -> list[Gap]:
        """Where bytes of this stream are gone."""
        found = []
        for left, right in pairwise(self._segments):
            if left.end < right.start and left.end < end and right.start > start:
                by_left = self._printed_before(left, stream) + self._kept_in(
                    left, stream, left.start, left.end
                )
                found.append(Gap(left.end, right.start, self._printed_before(right, stream) - by_left))
        return [gap for gap in found if gap.count]

    def _overlapping(self, start: int, end: int) -> list[Segment]:
        return [segment for segment in self._segments if segment.end > start and segment.start < end]

    def _kept_in(self, segment: Segment, stream: int, start: int, end: int) -> int:
        return sum(right - left for left, right in self._spans(segment, stream, start, end))

    def _printed_before(self, segment: Segment, stream: int) -> int:
        """Bytes of the stream before this segment, whether they are still here or not."""
        counts: tuple[int, int] = HEADER.unpack_from(self._index(segment))
        return counts[stream - 1]

    def _pieces(
        self, segment: Segment, stream: int, start: int, end: int, newest_first: bool = False
    ) -> Iterator[Piece]:
        spans = self._spans(segment, stream, start, end)
        with _opened(self._path(segment)) as fd:
            for left, right in reversed(spans) if newest_first else spans:
                for begin, stop in _cut(left, right, newest_first):
                    yield Piece(begin, os.pread(fd, stop - begin, begin - segment.start))

    def _spans(self, segment: Segment, stream: int, start: int, end: int) -> list[tuple[int, int]]:
        """Where in the segment the stream's bytes lie, cut to start and end; neighbours are joined."""
        spans: list[tuple[int, int]] = []
        for left, right, whose in self._runs(segment):
            left, right = max(left, start), min(right, end)
            if whose != stream or left >= right:
                continue
            if spans and spans[-1][1] == left:
                left = spans.pop()[0]
            spans.append((left, right))
        return spans

    def _runs(self, segment: Segment) -> Iterator[tuple[int, int, int]]:
        """(start, end, stream), up to where the segment ended when we looked."""
        left, whose = segment.start, 0
        for offset, stamp in iter_unpack(RUN.format, self._index(segment)[HEADER.size :]):
            if whose and offset > left:
                yield left, min(offset, segment.end), whose
            left, whose = offset, stamp & 0xFF
        if whose and segment.end > left:
            yield left, segment.end, whose

    def _index(self, segment: Segment) -> bytes:
        """The segment's runs; a torn last one is none."""
        if segment.start not in self._indexes:
            with _opened(self._path(segment) + RUNS_SUFFIX) as fd:
                data = b"".join(iter(lambda: os.read(fd, INDEX_READ_BYTES), b""))
            whole = len(data) - (len(data) - HEADER.size) % RUN.size
            self._indexes[segment.start] = data[:whole] if whole >= HEADER.size else bytes(HEADER.size)
        return self._indexes[segment.start]

    def _path(self, segment: Segment) -> str:
        return f"{self._directory}/{segment_name(segment.start)}"


@contextmanager
def _opened(path: str) -> Iterator[int]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Rotated from None
    try:
        yield fd
    finally:
        os.close(fd)


def _segments(directory: str) -> list[Segment]:
    found = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.isdigit():
                    start = int(entry.name)
                    found.append(Segment(start, start + _size(entry)))
    except FileNotFoundError:
        return []
    found.sort(key=lambda segment: segment.start)
    return found


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        return 0


def _cut(left: int, right: int, newest_first: bool = False) -> list[tuple[int, int]]:
    """Into pieces that memory does not notice."""
    pieces = [(begin, min(begin + PIECE_BYTES, right)) for begin in range(left, right, PIECE_BYTES)]
    return pieces[::-1] if newest_first else pieces
