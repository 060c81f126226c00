"""The segments of a job's log on disk: which files there are, what offsets they have, and their bytes.

Readers take no lock: a segment may grow, or be deleted, while the files are listed or read.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from bgjob.core.frozen import Frozen
from bgjob.home.layout import READ_ONLY, is_directory
from bgjob.home.log_format import segment_name
from bgjob.output.log_kept import stretches

# Twice what a segment may weigh.
FILE_MAX_BYTES = 16 << 20
SEGMENT = re.compile(r"(0[0-9]{19})(\.std(?:out|err))?", re.ASCII)
# No such file, or something else in its place.
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)


class Segment(Frozen):
    start: int
    end: int
    kept: tuple[str, ...] = ()
    """Names of the files that keep parts of a deleted segment; empty if the segment is whole."""


class Whole:
    """The bytes of a whole segment, by their offsets in the log."""

    def __init__(self, fd: int, start: int) -> None:
        self._fd, self._start = fd, start

    def read(self, start: int, end: int) -> bytes:
        return os.pread(self._fd, end - start, start - self._start)


class Held:
    """The same, read once and for all."""

    def __init__(self, data: bytes, start: int) -> None:
        self._data, self._start = data, start

    def read(self, start: int, end: int) -> bytes:
        return self._data[start - self._start : end - self._start]


class Rotated(Exception):
    """A segment was deleted while it was read: open the log again."""


def content(path: str, most: int = FILE_MAX_BYTES) -> bytes:
    """The first `most` bytes of a plain file that is not too large; else empty."""
    with opened(path) as fd:
        info = os.fstat(fd)
        is_ours = stat.S_ISREG(info.st_mode) and info.st_size <= FILE_MAX_BYTES
        return os.pread(fd, min(info.st_size, most), 0) if is_ours else b""


@contextmanager
def opened(path: str) -> Iterator[int]:
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


def segments_in(directory: str) -> tuple[list[Segment], float]:
    """The segments, oldest first; and when the newest byte came."""
    sizes = [(start, _size(entry)) for start, suffix, entry in _files(directory) if not suffix]
    found = [Segment(start, start + size) for start, size in sizes if size is not None]
    found.sort(key=lambda segment: segment.start)
    whole = [_grown(directory, *pair) for pair in pairwise(found)] + found[-1:]
    return _with_kept(directory, whole), _mtime(directory, whole)


def _files(directory: str) -> list[tuple[int, str | None, os.DirEntry[str]]]:
    """(offset, suffix, entry) of each file that has bytes of the log."""
    try:
        if not is_directory(directory):
            return []
        with os.scandir(directory) as entries:
            files = [(SEGMENT.fullmatch(entry.name), entry) for entry in entries]
    except OSError as error:
        if error.errno not in NOT_THERE:
            raise
        return []
    return [
        (int(name[1]), name[2], entry)
        for name, entry in files
        if name and entry.is_file(follow_symlinks=False)
    ]


def _with_kept(directory: str, whole: list[Segment]) -> list[Segment]:
    """Kept streams count only in gaps: a segment that is still there is just being copied.

    They are listed after the segments: of a segment that was deleted meanwhile, the copy is complete by now.
    """
    if all(left.end == right.start for left, right in pairwise(whole)):
        return whole
    kept = sorted((start, entry.name) for start, suffix, entry in _files(directory) if suffix)
    segments = whole[:1]
    for left, right in pairwise(whole):
        if left.end < right.start:
            files = [file for file in kept if left.end <= file[0] < right.start]
            segments += [Segment(*stretch) for stretch in stretches(files, right.start)]
        segments.append(right)
    return segments


def _grown(directory: str, segment: Segment, next_one: Segment) -> Segment:
    """A segment may have grown before the next one was listed: then there is no gap."""
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


def _size(entry: os.DirEntry[str]) -> int | None:
    """None if the file was deleted since it was listed: kept parts are in other files."""
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        return None
