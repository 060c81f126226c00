"""Which stream wrote the bytes of a segment, and when. A segment may have 100,000s of runs: a question about a
part of it looks at the runs of that part only."""

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from itertools import compress
from operator import sub

from bgjob.home.log_format import HEADER, RUN, STDERR, STDOUT
from bgjob.output.log_kept import NO_STREAM
from bgjob.output.log_segments import Segment

# Of a run: start, end, stream, µs since the epoch.
Run = tuple[int, int, int, int]
Span = tuple[int, int]
# Position of the byte that names the stream, in a run.
STREAM_BYTE = 8
BYTES = bytes(range(256))
_KNOWN = bytes(byte if byte in (STDOUT, STDERR) else NO_STREAM for byte in BYTES)
_IS_STREAM = {stream: bytes(byte == stream for byte in BYTES) for stream in (NO_STREAM, STDOUT, STDERR)}


class Runs:
    def __init__(self, segment: Segment, index: bytes) -> None:
        """index: header and runs, one behind the other."""
        self.segment = segment
        self._before: tuple[int, int] = HEADER.unpack_from(index)
        numbers = array("Q", index[HEADER.size :])
        if sys.byteorder == "big":
            numbers.byteswap()
        self._offsets, self._stamps = numbers[::2], numbers[1::2]
        self._streams = index[HEADER.size + STREAM_BYTE :: RUN.size].translate(_KNOWN)
        if not self._offsets or self._offsets[0] > segment.start:
            self._label_the_beginning()

    def _label_the_beginning(self) -> None:
        """Bytes before the first run are of no stream."""
        self._offsets.insert(0, self.segment.start)
        self._stamps.insert(0, 0)
        self._streams = bytes([NO_STREAM]) + self._streams

    def within(self, start: int, end: int, newest_first: bool = False) -> Iterator[Run]:
        """The runs between two offsets, cut to them."""
        numbers = self._numbers(start, end)
        return self._cut(reversed(numbers) if newest_first else numbers, start, end)

    def spans(self, stream: int, start: int, end: int, newest_first: bool = False) -> Iterator[Span]:
        """Where the stream's bytes lie between two offsets; neighbours are joined."""
        numbers = self._numbers_of(stream, self._numbers(start, end), newest_first)
        return joined((left, right) for left, right, _, _ in self._cut(numbers, start, end))

    def labelled(self, start: int, end: int) -> Iterator[Span]:
        """Where the bytes of either stream lie between two offsets; neighbours are joined."""
        if NO_STREAM not in self._streams_of(self._numbers(start, end)):
            return joined([(max(start, self.segment.start), min(end, self.segment.end))])
        runs = self.within(start, end)
        return joined((left, right) for left, right, whose, _ in runs if whose != NO_STREAM)

    def size(self, stream: int, start: int, end: int) -> int:
        """How many bytes of the stream lie between two offsets."""
        start, end = max(start, self.segment.start), min(end, self.segment.end)
        if start >= end:
            return 0
        numbers = self._numbers(start, end)
        borders = self._offsets[numbers.start : numbers.stop]
        borders[0] = start
        borders.append(end)
        is_its = self._streams_of(numbers).translate(_IS_STREAM[stream])
        return sum(compress(map(sub, borders[1:], borders), is_its))

    def time_us(self, offset: int) -> int:
        """When the byte at an offset came."""
        return self._stamps[bisect_right(self._offsets, offset) - 1] >> 8

    def printed_before(self, stream: int) -> int:
        """Bytes of the stream before this segment, whether they are still here or not."""
        return self._before[stream - 1]

    def printed_by_its_end(self, stream: int) -> int:
        return self.printed_before(stream) + self.size(stream, self.segment.start, self.segment.end)

    def _numbers(self, start: int, end: int) -> range:
        """Of the runs that may have bytes between two offsets."""
        first = max(0, bisect_right(self._offsets, start) - 1)
        return range(first, bisect_left(self._offsets, min(end, self.segment.end)))

    def _numbers_of(self, stream: int, numbers: range, newest_first: bool) -> Iterator[int]:
        """Of the runs of one stream: those of the other are passed over without a look at each."""
        wanted, first, last = bytes([stream]), numbers.start, numbers.stop
        find = self._streams.rfind if newest_first else self._streams.find
        while (number := find(wanted, first, last)) >= 0:
            yield number
            first, last = (first, number) if newest_first else (number + 1, last)

    def _cut(self, numbers: Iterable[int], start: int, end: int) -> Iterator[Run]:
        """These runs, as far as they lie between two offsets."""
        end = min(end, self.segment.end)
        for number in numbers:
            left, right = max(self._offsets[number], start), min(self._end(number), end)
            if left < right:
                yield left, right, self._streams[number], self._stamps[number] >> 8

    def _streams_of(self, numbers: range) -> bytes:
        return self._streams[numbers.start : numbers.stop]

    def _end(self, number: int) -> int:
        return self._offsets[number + 1] if number + 1 < len(self._offsets) else self.segment.end


def joined(spans: Iterable[Span]) -> Iterator[Span]:
    """The spans that are not empty, oldest or newest first; neighbours are joined."""
    last: Span | None = None
    for left, right in spans:
        if left >= right:
            continue
        if last is None:
            last = left, right
        elif last[1] == left:
            last = last[0], right
        elif last[0] == right:
            last = left, last[1]
        else:
            yield last
            last = left, right
    if last is not None:
        yield last
