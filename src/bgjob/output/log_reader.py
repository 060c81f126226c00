"""Reads a job's log, while it is written or after. What a read costs is what its answer costs.

Positions are absolute offsets (see log_format). A reader does not disturb the writer or other readers; a
segment that is deleted meanwhile is a gap like any other.
"""

import os
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, pairwise
from operator import le

from bgjob.core.frozen import Frozen, replace
from bgjob.home.log_format import HEADER, KEPT_SUFFIXES, RUN, RUNS_SUFFIX, STDERR, STDOUT, segment_name
from bgjob.output.log_kept import NO_STREAM, Part, Parts, index_of, parts_of
from bgjob.output.log_runs import Runs, joined
from bgjob.output.log_segments import (
    FILE_MAX_BYTES,
    Held,
    Rotated,
    Segment,
    Whole,
    content,
    opened,
    segments_in,
)

PIECE_BYTES = 1 << 16
Source = Whole | Held | Parts
STREAMS = {suffix: stream for stream, suffix in KEPT_SUFFIXES.items()}


class Gap(Frozen):
    """Bytes that are gone: `count` of one stream, somewhere between two offsets."""

    start: int
    end: int
    count: int


class Piece(Frozen):
    """Bytes of one stream that lie side by side in the log."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class TimedPiece(Piece):
    stream: int
    time_us: int


class LogReader:
    """The log as it is at this moment: what is written later is not in it."""

    def __init__(self, directory: str, printed: tuple[int, int] = (0, 0)) -> None:
        """`printed`: bytes of stdout and of stderr, by the outcome; on a full disk the log has fewer."""
        self._directory = directory
        self._segments, newest = segments_in(directory)
        self._indexes: dict[Segment, bytes] = {}
        self._headers: dict[Segment, tuple[int, int]] = {}
        self._runs: dict[Segment, Runs] = {}
        self._held: dict[Segment, Source] = {}
        self._last_parts: tuple[Segment | None, list[Part]] = None, []
        self._printed = printed
        self.end = max(self._segments[-1].end if self._segments else 0, sum(printed))
        self.written_at = newest
        """When the newest byte came, in seconds since the epoch; 0 if there is none."""

    def forward(self, stream: int, start: int, end: int) -> Iterator[Piece]:
        """What the stream printed between two offsets, oldest first."""
        for segment in self.segments(start, end):
            yield from self.pieces(segment, stream, start, end)

    def backward(self, stream: int, start: int, end: int) -> Iterator[Piece]:
        """The same, newest first."""
        for segment in reversed(self.segments(start, end)):
            yield from self.pieces(segment, stream, start, end, newest_first=True)
            if self._is_known(segment) and not self._printed_before(segment, stream):
                return  # the stream begins here

    def interleaved(self, start: int, end: int, newest_first: bool = False) -> Iterator[TimedPiece]:
        """What both streams printed between two offsets, in the order of the log, or newest first."""
        segments = self.segments(start, end)
        for segment in reversed(segments) if newest_first else segments:
            with self.opened(segment) as (source, runs):
                for left, right, stream, time_us in runs.within(start, end, newest_first):
                    if stream == NO_STREAM:
                        continue
                    for begin, stop in _cut(left, right, newest_first):
                        yield TimedPiece(begin, source.read(begin, stop), stream, time_us)

    def unparted(self, start: int, end: int) -> Iterator[Piece]:
        """The same bytes as `interleaved`, without what tells the streams apart: in few pieces."""
        for segment in self.segments(start, end):
            with self.opened(segment) as (source, runs):
                for left, right in runs.labelled(start, end):
                    for begin, stop in _cut(left, right):
                        yield Piece(begin, source.read(begin, stop))

    def kept(self, stream: int, start: int, end: int) -> int:
        """How many bytes of the stream between two offsets are still here."""
        return sum(self.runs(segment).size(stream, start, end) for segment in self.segments(start, end))

    def printed(self, stream: int) -> int:
        """How many bytes the stream has printed, whether they are still here or not."""
        by_log = self._printed_up_to(self._segments[-1], stream) if self._segments else 0
        return max(by_log, self._printed[stream - 1])

    def stretches(self, start: int, end: int) -> list[tuple[int, int]]:
        """Where bytes of either stream are here between two offsets, from gap to gap."""
        segments = self.segments(start, end)
        return list(joined(span for segment in segments for span in self.runs(segment).labelled(start, end)))

    def gaps(self, stream: int, start: int, end: int) -> list[Gap]:
        """Where bytes of this stream are gone."""
        found = _together(
            self._gap_between(left, right, stream, start, end) for left, right in self._neighbours(start, end)
        )
        if stream == STDOUT:  # bytes of an unknown stream are counted once
            found += [Gap(left, right, right - left) for left, right in self._unlabelled(start, end)]
        return [gap for gap in found if gap.count > 0]

    def gaps_begun(self, stream: int, start: int, end: int) -> list[Gap]:
        """Those that begin between two offsets, each with all its bytes."""
        found = [
            self._gap_between(left, right, stream, 0, self.end)
            for left, right in self._neighbours(start, end)
        ]
        if stream == STDOUT:
            for segment in self.segments(start, end):
                spans = self._unlabelled(segment.start, segment.end)
                found += [Gap(left, right, right - left) for left, right in spans]
        return _together(gap for gap in found if gap.count > 0 and start <= gap.start < end)

    def _neighbours(self, start: int, end: int) -> list[tuple[Segment, Segment]]:
        """Pairs of segments between which bytes may be gone, at or between two offsets."""
        known = [
            segment
            for segment in self._segments
            if _is_outside(segment, start, end) or self._is_known(segment)
        ]
        pairs = pairwise([Segment(0, 0), *known, Segment(self.end, self.end)])
        return [(left, right) for left, right in pairs if right.start > start and left.start < end]

    def _gap_between(self, left: Segment, right: Segment, stream: int, start: int, end: int) -> Gap:
        """From the last byte of a stream in a segment to the next segment; its count may be 0."""
        begin = self._end_of(stream, left)
        first, last = max(begin, start), min(right.start, end)  # bytes before `start` are not missing
        if first >= last:
            return Gap(begin, right.start, 0)
        count = self._printed_before(right, stream) - self._printed_up_to(left, stream)
        most = last - first
        if left.kept and most < right.start - begin:
            most -= sum(self.runs(left).size(whose, first, last) for whose in (STDOUT, STDERR))
        return Gap(begin, right.start, min(count, most))

    def _end_of(self, stream: int, segment: Segment) -> int:
        """Where the stream's part of a segment ends: the end of the segment, if it is whole."""
        if not segment.kept:
            return segment.end
        spans = self.runs(segment).spans(stream, segment.start, segment.end, newest_first=True)
        return next((right for _, right in spans), segment.start)

    def _unlabelled(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        for segment in self.segments(start, end):
            if not segment.kept:
                yield from self.runs(segment).spans(NO_STREAM, start, end)

    def _printed_up_to(self, segment: Segment, stream: int) -> int:
        return self.runs(segment).printed_by_its_end(stream) if segment.end else 0

    def segments(self, start: int, end: int) -> list[Segment]:
        """The segments that have bytes between two offsets, oldest first."""
        return [segment for segment in self._segments if segment.end > start and segment.start < end]

    def segments_of(self, stream: int, start: int, end: int, newest_first: bool = False) -> Iterator[Segment]:
        """Those of them in which the stream may have bytes. The others are not read, however many there are."""
        segments = self.segments(start, end)

        def before(segment: Segment) -> int:
            return self._header(segment)[stream - 1]

        if newest_first:
            at = len(segments) - 1
            while at >= 0:
                yield segments[at]
                at = bisect_left(segments, before(segments[at]), 0, at, key=before) - 1
        else:
            at = 0
            while at < len(segments):
                at = bisect_right(segments, before(segments[at]), at + 1, key=before)
                yield segments[at - 1]

    @contextmanager
    def opened(self, segment: Segment) -> Iterator[tuple[Source, Runs]]:
        """(bytes of the segment, its runs); Rotated if it is gone."""
        if segment in self._held:
            yield self._held[segment], self.runs(segment)
        elif segment.kept:
            yield Parts(self._parts(segment)), self.runs(segment)
        else:
            with opened(self._path(segment)) as fd:
                yield Whole(fd, segment.start), self.runs(segment)

    def runs(self, segment: Segment) -> Runs:
        if segment not in self._runs:
            self._runs[segment] = Runs(segment, self._index(segment))
        return self._runs[segment]

    def replace_deleted(self, gone: Segment) -> list[Segment]:
        """What is kept of a deleted segment, which it replaces in this reader."""
        now = LogReader(self._directory).segments(gone.start, gone.end)
        left = [
            replace(it, start=max(it.start, gone.start), end=min(it.end, gone.end)) for it in now if it.kept
        ]
        rest = [segment for segment in self._segments if segment != gone]
        self._segments = sorted([*rest, *left], key=lambda segment: segment.start)
        return left

    def hold(self) -> None:
        """Read all of it now, newest first: it is not read again. A segment that is gone by then is a gap."""
        for segment in self._segments[::-1]:
            try:
                with self.opened(segment) as (source, _):
                    data = b"" if segment.kept else source.read(segment.start, segment.end)
                    self._held[segment] = source if segment.kept else Held(data, segment.start)
            except Rotated:
                self._segments.remove(segment)

    def _is_known(self, segment: Segment) -> bool:
        """False for kept files without a readable piece."""
        return not segment.kept or len(self._index(segment)) > HEADER.size

    def _printed_before(self, segment: Segment, stream: int) -> int:
        """Bytes of the stream before this segment, whether they are still here or not."""
        counts = self._printed
        if segment.start < segment.end or segment in self._segments:
            counts = HEADER.unpack_from(self._index(segment))
        return counts[stream - 1]

    def _header(self, segment: Segment) -> tuple[int, int]:
        """Bytes of either stream before a segment, without a look at its runs."""
        if segment not in self._headers:
            if segment.kept or segment in self._indexes:
                header = self._index(segment)
            else:
                header = self._read_runs(segment, HEADER.size).ljust(HEADER.size, b"\0")
            self._headers[segment] = HEADER.unpack_from(header)
        return self._headers[segment]

    def pieces(
        self, segment: Segment, stream: int, start: int, end: int, newest_first: bool = False
    ) -> Iterator[Piece]:
        """What the stream printed in one segment."""
        spans = self.runs(segment).spans(stream, start, end, newest_first)
        if (first := next(spans, None)) is None:
            return
        with self.opened(segment) as (source, _):
            for left, right in chain([first], spans):
                for begin, stop in _cut(left, right, newest_first):
                    yield Piece(begin, source.read(begin, stop))

    def _index(self, segment: Segment) -> bytes:
        """Header and runs of a segment, without a torn last run."""
        if segment not in self._indexes:
            self._indexes[segment] = self._read_index(segment)
        return self._indexes[segment]

    def _read_index(self, segment: Segment) -> bytes:
        if segment.kept:
            return index_of(self._parts(segment), segment.start, segment.end)
        data = self._read_runs(segment)
        zeros = data.find(bytes(RUN.size), HEADER.size)  # left by a power cut: no time is zero
        end = len(data) if zeros < 0 else zeros
        data = data[: end - end % RUN.size]
        return data if _is_index(data, segment) else bytes(HEADER.size)

    def _read_runs(self, segment: Segment, most: int = FILE_MAX_BYTES) -> bytes:
        """Empty if there is no such file: then the streams of its bytes are unknown."""
        path = self._path(segment)
        try:
            return content(path + RUNS_SUFFIX, most)
        except Rotated:
            if not os.path.lexists(path):
                raise
        # Not deleted by a writer, which deletes the data first: lost in a power cut, or not ours.
        return b""

    def _parts(self, segment: Segment) -> list[Part]:
        if self._last_parts[0] != segment:  # kept, as they are needed twice: for runs, then for bytes
            files = [(STREAMS[name[-7:]], content(f"{self._directory}/{name}")) for name in segment.kept]
            self._last_parts = segment, parts_of(files, segment.start, segment.end)
        return self._last_parts[1]

    def _path(self, segment: Segment) -> str:
        return f"{self._directory}/{segment_name(segment.start)}"


def _is_index(data: bytes, segment: Segment) -> bool:
    """Whether the runs lie in the segment, one after the other."""
    numbers = array("Q", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    offsets = numbers[2::2]
    return bool(data) and all(map(le, chain([segment.start], offsets), offsets))


def _is_outside(segment: Segment, start: int, end: int) -> bool:
    return segment.end <= start or segment.start >= end


def _together(gaps: Iterable[Gap]) -> list[Gap]:
    """Neighbours are one gap."""
    found: list[Gap] = []
    for gap in gaps:
        if found and found[-1].end == gap.start:
            gap = Gap(found[-1].start, gap.end, found.pop().count + gap.count)
        found.append(gap)
    return found


def _cut(left: int, right: int, newest_first: bool = False) -> Iterator[tuple[int, int]]:
    """Into pieces that need little memory."""
    begins = range(left, right, PIECE_BYTES)
    for begin in reversed(begins) if newest_first else begins:
        yield begin, min(begin + PIECE_BYTES, right)
