"""Reads a job's log, while it is written or after. What a read costs is what its answer costs.

Positions are absolute offsets (see log_format); a reader takes nothing from the writer or from other readers,
and a segment that is deleted under it is a gap like any other.
"""

import errno
import os
import re
import stat
import sys
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import le
from struct import iter_unpack

from bgjob.log_format import HEADER, RUN, RUNS_SUFFIX, STDERR, STDOUT, segment_name

PIECE_BYTES = 1 << 16
INDEX_MAX_BYTES = 16 << 20  # twice what a segment may weigh
SEGMENT = re.compile(r"0[0-9]{19}", re.ASCII)
NO_STREAM = 0  # of bytes that no run speaks of
READ_ONLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # or something else in its place


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


@dataclass(frozen=True)
class TimedPiece(Piece):
    stream: int
    time_us: int


class Rotated(Exception):
    """A segment was deleted while it was read: take a new look at the log."""


class LogReader:
    """The log as it is at this moment: what is written later is not in it."""

    def __init__(self, directory: str, printed: tuple[int, int] = (0, 0)) -> None:
        """`printed`: bytes of stdout and of stderr, where more is known than the log has (a full disk, at the end)."""
        self._directory = directory
        self._segments = _segments(directory)
        self._indexes: dict[int, bytes] = {}
        self._printed = printed
        self.end = max(self._segments[-1].end if self._segments else 0, sum(printed))
        self.written_at = _mtime(directory, self._segments)
        """When the newest byte came, in seconds since the epoch; 0 if there is none."""

    def forward(self, stream: int, start: int, end: int) -> Iterator[Piece]:
        """What the stream printed between two offsets, oldest first."""
        for segment in self.segments(start, end):
            yield from self._pieces(segment, stream, start, end)

    def backward(self, stream: int, start: int, end: int) -> Iterator[Piece]:
        """The same, newest first."""
        for segment in reversed(self.segments(start, end)):
            yield from self._pieces(segment, stream, start, end, newest_first=True)
            if not self._printed_before(segment, stream):
                return  # nothing of it further back

    def interleaved(self, start: int, end: int) -> Iterator[TimedPiece]:
        """What both streams printed between two offsets, in the order of the log."""
        for segment in self.segments(start, end):
            with _opened(self._path(segment)) as fd:
                for left, right, stream, time_us in self._runs(segment):
                    if stream == NO_STREAM:
                        continue
                    for begin, stop in _cut(max(left, start), min(right, end)):
                        data = os.pread(fd, stop - begin, begin - segment.start)
                        yield TimedPiece(begin, data, stream, time_us)

    def kept(self, stream: int, start: int, end: int) -> int:
        """How many bytes of the stream between two offsets are still here."""
        return sum(self._kept_in(segment, stream, start, end) for segment in self.segments(start, end))

    def gaps(self, stream: int, start: int, end: int) -> list[Gap]:
        """Where bytes of this stream are gone."""
        found = []
        for left, right in pairwise([Segment(0, 0), *self._segments, Segment(self.end, self.end)]):
            if left.end < right.start and left.end < end and right.start > start:
                count = self._printed_before(right, stream) - self._printed_up_to(left, stream)
                within = min(right.start, end) - max(
                    left.end, start
                )  # what lies before `start` is not missed
                found.append(Gap(left.end, right.start, min(count, within)))
        if stream == STDOUT:  # bytes that nobody can tell whose they are are told once
            found += [Gap(left, right, right - left) for left, right in self._unlabelled(start, end)]
        return [gap for gap in found if gap.count > 0]

    def _unlabelled(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        for segment in self.segments(start, end):
            yield from self._spans(segment, NO_STREAM, start, end)

    def _printed_up_to(self, segment: Segment, stream: int) -> int:
        if not segment.end:
            return 0
        return self._printed_before(segment, stream) + self._kept_in(
            segment, stream, segment.start, segment.end
        )

    def segments(self, start: int, end: int) -> list[Segment]:
        """Those that have bytes between two offsets, oldest first."""
        return [segment for segment in self._segments if segment.end > start and segment.start < end]

    @contextmanager
    def opened(self, segment: Segment) -> Iterator[tuple[int, bytes]]:
        """(descriptor of its bytes, its header and runs); Rotated if it is gone."""
        with _opened(self._path(segment)) as fd:
            yield fd, self._index(segment)

    def _kept_in(self, segment: Segment, stream: int, start: int, end: int) -> int:
        return sum(right - left for left, right in self._spans(segment, stream, start, end))

    def _printed_before(self, segment: Segment, stream: int) -> int:
        """Bytes of the stream before this segment, whether they are still here or not."""
        counts = self._printed
        if segment.start < segment.end or segment in self._segments:
            counts = HEADER.unpack_from(self._index(segment))
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
        for left, right, whose, _ in self._runs(segment):
            left, right = max(left, start), min(right, end)
            if whose != stream or left >= right:
                continue
            if spans and spans[-1][1] == left:
                left = spans.pop()[0]
            spans.append((left, right))
        return spans

    def _runs(self, segment: Segment) -> Iterator[tuple[int, int, int, int]]:
        """(start, end, stream, µs since the epoch): all of the segment as it was when we looked, in order."""
        left, label = segment.start, 0
        for offset, stamp in iter_unpack(RUN.format, self._index(segment)[HEADER.size :]):
            offset = min(offset, segment.end)
            if offset > left:
                yield left, offset, _stream(label), label >> 8
            left, label = offset, stamp
        if segment.end > left:
            yield left, segment.end, _stream(label), label >> 8

    def _index(self, segment: Segment) -> bytes:
        """The segment's runs; a torn last one is none."""
        if segment.start not in self._indexes:
            self._indexes[segment.start] = self._read_index(segment)
        return self._indexes[segment.start]

    def _read_index(self, segment: Segment) -> bytes:
        data = self._read_runs(segment)
        zeros = data.find(bytes(RUN.size), HEADER.size)  # of a power cut: no time is zero
        data = data[: len(data) - len(data) % RUN.size if zeros < 0 else zeros]
        return data if _is_index(data, segment) else bytes(HEADER.size)

    def _read_runs(self, segment: Segment) -> bytes:
        """Nothing, where there is none or something else in its place: then nobody knows whose its bytes are."""
        path = self._path(segment)
        try:
            with _opened(path + RUNS_SUFFIX) as fd:
                info = os.fstat(fd)
                if stat.S_ISREG(info.st_mode) and info.st_size <= INDEX_MAX_BYTES:
                    return os.pread(fd, info.st_size, 0)
        except Rotated:
            if not os.path.lexists(path):
                raise
        return b""  # a writer deletes the data first: this name was lost in a power cut, or is not ours

    def _path(self, segment: Segment) -> str:
        return f"{self._directory}/{segment_name(segment.start)}"


@contextmanager
def _opened(path: str) -> Iterator[int]:
    try:
        fd = os.open(path, READ_ONLY)
    except OSError as error:
        if error.errno not in NOT_THERE:
            raise
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
                if SEGMENT.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                    start = int(entry.name)
                    found.append(Segment(start, start + _size(entry)))
    except OSError as error:
        if error.errno not in NOT_THERE:
            raise
        return []
    found.sort(key=lambda segment: segment.start)
    return [_grown(directory, *pair) for pair in pairwise(found)] + found[-1:]


def _grown(directory: str, segment: Segment, next_one: Segment) -> Segment:
    """It may have grown after we saw its size and before we saw the next one begin: then there is no gap."""
    if segment.end == next_one.start:
        return segment
    try:
        size = os.stat(f"{directory}/{segment_name(segment.start)}").st_size
    except FileNotFoundError:
        return segment
    return Segment(segment.start, min(segment.start + size, next_one.start))


def _mtime(directory: str, segments: list[Segment]) -> float:
    for segment in reversed(segments):
        if segment.end > segment.start:
            try:
                return os.stat(f"{directory}/{segment_name(segment.start)}").st_mtime
            except FileNotFoundError:
                break
    return 0.0


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        return 0


def _is_index(data: bytes, segment: Segment) -> bool:
    """Its runs lie in the segment, one after the other."""
    numbers = array("Q", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    offsets = numbers[2::2]
    return bool(data) and all(map(le, chain([segment.start], offsets), offsets))


def _stream(label: int) -> int:
    stream = label & 0xFF
    return stream if stream in (STDOUT, STDERR) else NO_STREAM


def _cut(left: int, right: int, newest_first: bool = False) -> Iterator[tuple[int, int]]:
    """Into pieces that memory does not notice."""
    begins = range(left, right, PIECE_BYTES)
    for begin in reversed(begins) if newest_first else begins:
        yield begin, min(begin + PIECE_BYTES, right)
