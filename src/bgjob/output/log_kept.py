"""What is kept of the streams in a deleted segment, read as if it were a segment with holes.

The files of the two streams overlap. Between the beginnings of two files there is at most one file of each
stream, and the bytes that are missing there of a stream lie behind all that is kept of it.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from bgjob.home.log_format import HEADER, RUN, STDOUT, pieces_of

# The stream of bytes that no run names, or that are gone.
NO_STREAM = 0
# Offset, stamp of its run, bytes of its stream before it, its bytes.
Part = tuple[int, int, int, memoryview]


def stretches(files: Sequence[tuple[int, str]], end: int) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """(start, end, names of files), from (start, name) of the files in order."""
    newest: dict[str, str] = {}
    for (start, name), (right, _) in pairwise([*files, (end, "")]):
        newest[name.rpartition(".")[2]] = name
        if start < right:
            yield start, right, tuple(newest.values())


def parts_of(files: Iterable[tuple[int, bytes]], start: int, end: int) -> list[Part]:
    """What the files, each (stream, content), have between two offsets; empty if they contradict."""
    found = [part for stream, data in files for part in _parts(stream, data) if start <= part[0] < end]
    found.sort(key=lambda part: part[0])
    ends = [offset + len(data) for offset, _, _, data in found]
    beginnings = [*(offset for offset, *_ in found[1:]), end]
    return found if all(map(int.__le__, ends, beginnings)) else []


def _parts(stream: int, data: bytes) -> Iterator[Part]:
    if len(data) < HEADER.size:
        return
    view, before = memoryview(data), HEADER.unpack_from(data)[stream - 1]
    for offset, stamp, at, length in pieces_of(data):
        if stamp & 0xFF != stream or before > offset:
            return
        yield offset, stamp, before, view[at : at + length]
        before += length


def index_of(parts: Sequence[Part], start: int, end: int) -> bytes:
    """Header and runs of a segment. A hole is a run of no stream, with the time of the run before it."""
    if not parts:
        return bytes(HEADER.size)
    offset, stamp, before, _ = parts[0]
    other = offset - before
    runs = [HEADER.pack(before, other) if stamp & 0xFF == STDOUT else HEADER.pack(other, before)]
    at = start
    for offset, next_stamp, _, data in [*parts, (end, stamp, 0, memoryview(b""))]:
        if at < offset:
            runs.append(RUN.pack(at, stamp >> 8 << 8 | NO_STREAM))
        if data:
            runs.append(RUN.pack(offset, next_stamp))
        at, stamp = offset + len(data), next_stamp
    return b"".join(runs)


class Parts:
    """The bytes of a segment with holes, by their offsets in the log."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._offsets = [part[0] for part in parts]

    def read(self, start: int, end: int) -> bytes:
        """The bytes of a stretch without a hole."""
        first = max(0, bisect_right(self._offsets, start) - 1)
        last = bisect_right(self._offsets, end - 1)
        return b"".join(
            data[max(0, start - offset) : end - offset] for offset, _, _, data in self._parts[first:last]
        )
