"""Writes a job's log: bounded, and in one syscall from the job's pipe to the page cache.

`splice` moves bytes without reading them into memory, so that a kill -9 cannot lose bytes that were read and
not written. The log is bounded: the first segment and the newest bytes stay, the segments between are
deleted. Each stream has a share: however much one stream prints, the newest bytes of the other stay. With
`keeps_first`, all bytes up to the limit stay instead, and later ones are dropped. A full disk costs output (a
gap, counted), never the job.
"""

import errno
import itertools
import os
import time

from bgjob.home.jobdir import write_all
from bgjob.home.log_format import (
    HEADER,
    PIECE,
    RUN,
    RUN_RESOLUTION_US,
    RUNS_SUFFIX,
    STDERR,
    STDOUT,
    segment_name,
)
from bgjob.home.log_shares import KeptStream, Runs

SEGMENTS_PER_LOG = 8
# A quarter of the limit.
STDERR_SHARE = 4
KEPT_FILES_PER_SEGMENT, KEPT_FILE_MIN_BYTES = 8, 96
SEGMENT_MIN_BYTES, SEGMENT_MAX_BYTES = 128, 8 << 20
COPY_BYTES = 1 << 16
DISK_RETRY_S = 1.0


class LogWriter:
    def __init__(self, directory: str, limit_bytes: int, *, keeps_first: bool = False) -> None:
        self.directory = directory
        self.limit_bytes, self._keeps_first = limit_bytes, keeps_first
        self.segment_bytes = segment_bytes(limit_bytes)
        self.end = 0
        # Bytes of each stream so far, dropped bytes included.
        self.before = {STDOUT: 0, STDERR: 0}
        # (begin, end) of what each stream printed last, without bytes of the other between.
        self._newest = {STDOUT: (0, 0), STDERR: (0, 0)}
        # (start, weight, charges) of the closed segments.
        self._segments: list[tuple[int, int, dict[int, int]]] = []
        self._kept = {stream: KeptStream(directory, stream) for stream in (STDOUT, STDERR)}
        # What of the open segment counts towards each stream's share.
        self._charges = {STDOUT: 0, STDERR: 0}
        self._start = self._room = 0
        self._data = self._runs = -1
        self._stream = self._stamped_us = 0
        # Where the last run begins.
        self._labelled = -1
        self._disk_full_until = 0.0
        self._can_splice = hasattr(os, "splice")
        if os.path.isdir(directory):
            self._resume()

    def take(self, source: int, stream: int, most: int = 1 << 30) -> int:
        """Move at most `most` bytes; 0 at the end of the stream, BlockingIOError if the pipe is empty."""
        if self._disk_is_full() or self._is_full():
            return self._drop(source, stream, most)
        try:
            self._label(stream)
        except OSError:
            return self._on_full_disk(source, stream, most)
        try:
            count = self._move(source, min(most, self._room, self._left()))
        except BlockingIOError:
            raise
        except OSError:
            return self._on_full_disk(source, stream, most)
        self._room -= count
        self._charges[stream] += count
        self._advance(stream, count)
        return count

    def _is_full(self) -> bool:
        return self._keeps_first and self.end >= self.limit_bytes

    def _left(self) -> int:
        return self.limit_bytes - self.end if self._keeps_first else self._room

    def stream_ends(self, most: int) -> list[bytes]:
        """What each stream printed last; from the newest segment only. Empty if it cannot be read."""
        return [self._last_bytes(*newest, most) for newest in self._newest.values()]

    def _last_bytes(self, begin: int, end: int, most: int) -> bytes:
        begin = max(begin, end - most, self._start)
        if self._data < 0 or begin >= end:
            return b""
        try:
            with open(f"{self.directory}/{segment_name(self._start)}", "rb", buffering=0) as segment:
                segment.seek(begin - self._start)
                return segment.read(end - begin) or b""
        except OSError:
            return b""

    def _advance(self, stream: int, count: int) -> None:
        self._extend_newest(stream, self.end, count)
        self.end += count
        self.before[stream] += count

    def _extend_newest(self, stream: int, start: int, count: int) -> None:
        begin, end = self._newest[stream]
        self._newest[stream] = (begin if end == start else start, start + count)

    def _label(self, stream: int) -> None:
        """Write a run before its bytes: which stream they are of, and when they came."""
        if self._room <= 0:
            self._roll()
        now_us = time.time_ns() // 1000
        if stream != self._stream or not 0 <= now_us - self._stamped_us < RUN_RESOLUTION_US:
            if self._labelled == self.end:  # no byte has come since the last run was written
                os.lseek(self._runs, -RUN.size, os.SEEK_CUR)
                self._charges[self._stream] -= PIECE.size
            else:
                self._room = max(1, self._room - RUN.size)
            write_all(self._runs, RUN.pack(self.end, now_us << 8 | stream))
            self._charges[stream] += PIECE.size
            self._stream, self._stamped_us, self._labelled = stream, now_us, self.end

    def _move(self, source: int, most: int) -> int:
        if not self._can_splice:
            return self._copy(source, most)
        try:
            return os.splice(source, self._data, most)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            self._can_splice = False  # this file system cannot
            return self._copy(source, most)

    def _copy(self, source: int, most: int) -> int:
        data = os.read(source, min(most, COPY_BYTES))
        try:
            write_all(self._data, data)
        except OSError:
            # The bytes were read and cannot be written: all of them become a gap.
            os.ftruncate(self._data, self.end - self._start)
            self._disk_full_until = time.monotonic() + DISK_RETRY_S
            self._room = 0
        return len(data)

    # -- segments -----------------------------------------------------------------------------------

    def _roll(self) -> None:
        self._close()
        while self._is_heavy() and self._segments[2:]:
            self._retire()
        if not self._segments and not os.path.isdir(self.directory):
            os.mkdir(self.directory, 0o700)  # a silent job has no log
        path = f"{self.directory}/{segment_name(self.end)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._runs = os.open(path + RUNS_SUFFIX, flags, 0o600)
        # The header first: a segment never has data without a header.
        write_all(self._runs, HEADER.pack(*self.before.values()))
        self._data = os.open(path, flags, 0o600)
        self._start, self._stream, self._labelled = self.end, 0, -1
        self._charges = {STDOUT: 0, STDERR: 0}
        self._room = max(1, self.segment_bytes - HEADER.size)

    def _close(self) -> None:
        if self._runs >= 0:
            os.close(self._runs)
            self._runs = -1
        if self._data >= 0:
            os.close(self._data)
            self._data = -1
            self._segments.append((self._start, self._weigh(self._start), self._charges))

    def _is_heavy(self) -> bool:
        return not self._keeps_first and self._weight() + self.segment_bytes > self.limit_bytes

    def _weight(self) -> int:
        return sum(weight for _, weight, _ in self._segments) + sum(
            kept.weight for kept in self._kept.values()
        )

    def _weigh(self, start: int) -> int:
        path = f"{self.directory}/{segment_name(start)}"
        return os.stat(path).st_size + os.stat(path + RUNS_SUFFIX).st_size

    def _retire(self) -> None:
        """Delete the second segment: the beginning of a log is worth more than its middle. The newest bytes
        of each stream in it are copied first, up to the share of the stream."""
        start, _, charges = self._segments[1]
        left = {stream: self._share(stream) - self._charged(stream) for stream in self._kept}
        for stream, kept in self._kept.items():
            if charges[stream] > left[stream]:
                kept.trim(0)  # all kept bytes are older than the share
            if charges[stream] and left[stream] > PIECE.size:
                self._copy_newest(start, stream, left[stream])
        self._delete(1)
        for stream, kept in self._kept.items():
            kept.trim(left[stream])

    def _copy_newest(self, start: int, stream: int, most: int) -> None:
        runs = self._newest_runs(start, stream, most)
        try:
            self._kept[stream].copy(start, runs, self._kept_file_bytes())
        except OSError:
            pass  # no room, and new output is worth more

    def _share(self, stream: int) -> int:
        """How much of a stream stays however much the other prints: a quarter of the limit for stderr; for
        stdout the rest, without the first segment, the open one, and what the files of kept streams have
        beyond a share."""
        stderr = self.limit_bytes // STDERR_SHARE
        if stream == STDERR:
            return stderr
        return self.limit_bytes - stderr - 2 * self.segment_bytes - 2 * self._kept_file_bytes() - RUN.size

    def _kept_file_bytes(self) -> int:
        return max(self.segment_bytes // KEPT_FILES_PER_SEGMENT, KEPT_FILE_MIN_BYTES)

    def _charged(self, stream: int) -> int:
        """How much of a stream's share the segments after the second one take."""
        return sum(charges[stream] for _, _, charges in self._segments[2:])

    def _newest_runs(self, start: int, stream: int, most: int) -> Runs:
        """The newest runs of one stream in a segment; the oldest of them is cut to what still fits."""
        newest: Runs = []
        for offset, stamp, before, length in reversed(self._runs_of(start)):
            count = min(length, most - PIECE.size)
            if stamp & 0xFF == stream and count > 0:
                newest.append((offset + length - count, stamp, before + length - count, count))
                most -= PIECE.size + count
        return newest[::-1]

    def _runs_of(self, start: int) -> Runs:
        path = f"{self.directory}/{segment_name(start)}"
        with open(path + RUNS_SUFFIX, "rb", buffering=0) as file:
            return runs_of(file.readall(), start + os.stat(path).st_size)

    def _delete(self, index: int) -> None:
        start, _, _ = self._segments.pop(index)
        path = f"{self.directory}/{segment_name(start)}"
        # The data first: a reader that finds no data does not read the runs.
        os.unlink(path)
        os.unlink(path + RUNS_SUFFIX)

    def _resume(self) -> None:
        """Go on where another writer was killed, perhaps while it made or deleted a segment."""
        names = os.listdir(self.directory)
        starts = sorted(int(name) for name in names if name.isascii() and name.isdecimal())
        for name in names:
            if name.endswith(RUNS_SUFFIX) and name.removesuffix(RUNS_SUFFIX) not in names:
                os.unlink(f"{self.directory}/{name}")
        if not starts:
            return
        self._segments = [self._closed(start) for start in starts[:-1]]
        for kept in self._kept.values():
            kept.resume(starts[1] if starts[1:] else 0)
        self._start = starts[-1]
        path = f"{self.directory}/{segment_name(self._start)}"
        self._data = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        self._runs = os.open(path + RUNS_SUFFIX, os.O_RDWR | os.O_CLOEXEC)
        size = os.lseek(self._data, 0, os.SEEK_END)
        self.end = self._start + size
        self._room = self.segment_bytes - size - self._count_runs()

    def _closed(self, start: int) -> tuple[int, int, dict[int, int]]:
        return start, self._weigh(start), charges_of(self._runs_of(start))

    def _count_runs(self) -> int:
        """Count the streams' bytes in the last segment, from its runs; the size of the runs."""
        index = os.pread(self._runs, os.fstat(self._runs).st_size, 0)
        whole = len(index) - len(index) % RUN.size
        runs = runs_of(index, self.end)
        self._charges = charges_of(runs)
        self.before = dict(zip((STDOUT, STDERR), HEADER.unpack_from(index), strict=True))
        for self._labelled, stamp, before, length in runs:
            self._stream, self._stamped_us = stamp & 0xFF, stamp >> 8
            self.before[self._stream] = before + length
            self._extend_newest(self._stream, self._labelled, length)
        os.ftruncate(self._runs, whole)
        return os.lseek(self._runs, whole, os.SEEK_SET)

    # -- a full disk --------------------------------------------------------------------------------

    def _disk_is_full(self) -> bool:
        if self._disk_full_until and time.monotonic() >= self._disk_full_until:
            self._disk_full_until = 0.0
        return self._disk_full_until > 0.0

    def _on_full_disk(self, source: int, stream: int, most: int) -> int:
        """Delete our own oldest middle segment; failing that, drop output for a while."""
        self._close_empty_or_short()
        if self._segments[2:]:
            self._delete(1)  # without a copy of the shares: that would need room
        elif not any(kept.delete_oldest() for kept in self._kept.values()):
            self._disk_full_until = time.monotonic() + DISK_RETRY_S
        return self._drop(source, stream, most)

    def _close_empty_or_short(self) -> None:
        half_made = self._runs >= 0 and self._data < 0
        try:
            self._close()
            if self._segments and self._segments[-1][0] == self.end:
                self._delete(-1)
            if half_made:
                os.unlink(f"{self.directory}/{segment_name(self.end)}{RUNS_SUFFIX}")
        except OSError:
            pass
        self._room = 0

    def _drop(self, source: int, stream: int, most: int) -> int:
        count = len(os.read(source, min(most, COPY_BYTES)))
        # After the gap a new segment begins.
        self._room = 0
        self._advance(stream, count)
        return count


def segment_bytes(limit_bytes: int) -> int:
    """Return how large a segment becomes, including its runs."""
    return min(max(limit_bytes // SEGMENTS_PER_LOG, SEGMENT_MIN_BYTES), SEGMENT_MAX_BYTES)


def runs_of(index: bytes, end: int) -> Runs:
    """The runs of a segment that ends at `end`, from its header and runs."""
    before = dict(zip((STDOUT, STDERR), HEADER.unpack_from(index), strict=True))
    stamps = [*RUN.iter_unpack(index[HEADER.size : len(index) - len(index) % RUN.size]), (end, 0)]
    runs: Runs = []
    for (left, stamp), (right, _) in itertools.pairwise(stamps):
        runs.append((left, stamp, before[stamp & 0xFF], right - left))
        before[stamp & 0xFF] += right - left
    return runs


def charges_of(runs: Runs) -> dict[int, int]:
    charges = {STDOUT: 0, STDERR: 0}
    for _, stamp, _, length in runs:
        charges[stamp & 0xFF] += PIECE.size + length
    return charges
