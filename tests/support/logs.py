"""A log under test: real pipes into a real LogWriter, and a model that remembers every byte that went in."""

import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from bgjob.api import Jobs
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.home.log_writer import LogWriter
from bgjob.output.log_reader import Gap, LogReader, Piece

STREAMS = (STDOUT, STDERR)
PRINTED = {stream: random.Random(stream).randbytes(1 << 20) for stream in STREAMS}
PIPE_BYTES = 1 << 16
SLACK_BYTES = 64  # a segment may end a run record and a byte late


class PipedLog:
    """Each stream prints its part of PRINTED; `everything` and `owner` are the log as if nothing were ever dropped."""

    def __init__(
        self, directory: Path, limit_bytes: int, *, splice: bool = True, contents: dict[int, bytes] = PRINTED
    ) -> None:
        directory.mkdir(exist_ok=True)
        self.directory, self.limit_bytes, self._contents = directory, limit_bytes, contents
        self.writer = LogWriter(str(directory), limit_bytes)
        self.writer._can_splice = self.writer._can_splice and splice
        self._pipes = {stream: os.pipe() for stream in STREAMS}
        self._waiting = dict.fromkeys(STREAMS, 0)
        self._written = dict.fromkeys(STREAMS, 0)
        self.printed = dict.fromkeys(STREAMS, 0)
        self.everything, self.owner = bytearray(), bytearray()
        self.takes: list[tuple[int, int]] = []  # (stream, how many bytes)
        for source, _ in self._pipes.values():
            os.set_blocking(source, False)

    def print(self, stream: int, size: int) -> None:
        """Into the pipe; taken into the log only as far as the pipe has no room for it."""
        while self._waiting[stream] + size > PIPE_BYTES // 2:
            self.take(stream)
        start = self._written[stream]
        assert os.write(self._pipes[stream][1], self._contents[stream][start : start + size]) == size
        self._written[stream] += size
        self._waiting[stream] += size

    def take(self, stream: int, most: int = 1 << 30) -> int:
        try:
            count = self.writer.take(self._pipes[stream][0], stream, most)
        except BlockingIOError:
            assert not self._waiting[stream]
            return 0
        self._remember(stream, count)
        return count

    def _remember(self, stream: int, count: int) -> None:
        start = self.printed[stream]
        self.everything += self._contents[stream][start : start + count]
        self.owner += bytes([stream]) * count
        self.takes.append((stream, count))
        self.printed[stream] += count
        self._waiting[stream] -= count

    def take_all(self) -> None:
        for stream in STREAMS:
            while self.take(stream):
                pass

    def reader(self) -> LogReader:
        return LogReader(str(self.directory))

    def disk_use(self) -> int:
        return sum(file.stat().st_size for file in self.directory.iterdir())

    def close(self) -> None:
        self.writer._close()
        for pair in self._pipes.values():
            for fd in pair:
                os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def assert_readers_tell_the_truth(log: PipedLog) -> None:
    """Each stream, as read, is what was printed minus exactly the gaps that are reported; offsets are absolute."""
    reader = log.reader()
    assert reader.end == log.writer.end == len(log.everything)
    for stream in STREAMS:
        pieces = list(reader.forward(stream, 0, reader.end))
        gaps = reader.gaps(stream, 0, reader.end)
        assert_pieces_are_in_place(log, stream, pieces)
        assert_every_byte_is_there_or_gone(log, stream, pieces, gaps)
        assert joined(pieces) == joined(list(reader.backward(stream, 0, reader.end))[::-1])
        assert reader.kept(stream, 0, reader.end) == sum(len(piece.data) for piece in pieces)


def assert_pieces_are_in_place(log: PipedLog, stream: int, pieces: list[Piece]) -> None:
    for piece in pieces:
        assert piece.data == log.everything[piece.start : piece.end]
        assert set(log.owner[piece.start : piece.end]) == {stream}


def assert_every_byte_is_there_or_gone(
    log: PipedLog, stream: int, pieces: list[Piece], gaps: list[Gap]
) -> None:
    kept = joined(pieces)
    at = read = 0
    for gap in gaps:
        before = sum(len(piece.data) for piece in pieces if piece.end <= gap.start) - read
        assert kept[read : read + before] == log._contents[stream][at : at + before]
        read, at = read + before, at + before + gap.count
        assert gap.count == log.owner[gap.start : gap.end].count(stream)
    assert kept[read:] == log._contents[stream][at : log.printed[stream]]
    assert len(kept) + sum(gap.count for gap in gaps) == log.printed[stream]


def joined(pieces: list[Piece]) -> bytes:
    return b"".join(piece.data for piece in pieces)


def pour(writer: LogWriter, stream: int, data: bytes) -> None:
    """All of it into the log, through a pipe."""
    source, sink = os.pipe()
    try:
        for start in range(0, len(data), PIPE_BYTES):
            piece = data[start : start + PIPE_BYTES]
            assert os.write(sink, piece) == len(piece)
            left = len(piece)
            while left:
                left -= writer.take(source, stream, left)
    finally:
        os.close(source)
        os.close(sink)


def kept_pieces(log: Path) -> Iterator[tuple[int, int, bytes]]:
    """(stream, where in that stream, bytes), by the documented format alone."""
    segments = {int(path.name): path.read_bytes() for path in log.glob("*") if path.name.isdigit()}
    for start, data in sorted(segments.items()):
        index = (log / f"{start:020}.runs").read_bytes()
        at = dict(zip(STREAMS, struct.unpack_from("<QQ", index), strict=True))
        runs = list(struct.iter_unpack("<QQ", index[16 : len(index) // 16 * 16]))
        for (left, stamp), (right, _) in zip(runs, [*runs[1:], (start + len(data), 0)], strict=True):
            stream, piece = stamp & 0xFF, data[left - start : right - start]
            yield stream, at[stream], piece
            at[stream] += len(piece)
    for stream, offset, at_stream, piece in share_pieces(log):
        if not any(start <= offset < start + len(data) for start, data in segments.items()):
            yield stream, at_stream, piece


def share_pieces(log: Path) -> Iterator[tuple[int, int, int, bytes]]:
    """(stream, where in the log, where in that stream, bytes) of what is kept of segments that were deleted."""
    for stream, suffix in zip(STREAMS, ("stdout", "stderr"), strict=True):
        for path in log.glob(f"*.{suffix}"):
            data = path.read_bytes()
            at_stream, place = struct.unpack_from("<QQ", data)[STREAMS.index(stream)], 16
            while place < len(data):
                offset, _, count = struct.unpack_from("<QQQ", data, place)
                place += 24
                yield stream, offset, at_stream, data[place : place + count]
                at_stream, place = at_stream + count, place + count


def missing_bytes(jobs: Jobs, job_id: str, log: Path, printed: dict[int, bytes]) -> int:
    """How much of what it printed is not in the log. What is must be right, and what is not must be told."""
    kept = {STDOUT: 0, STDERR: 0}
    for stream, at, piece in kept_pieces(log):
        wanted = printed[stream][at : at + len(piece)]
        assert piece == wanted, f"stream {stream} has {piece[:60]!r} at {at}, not {wanted[:60]!r}"
        kept[stream] += len(piece)
    output = jobs.output(job_id)
    told = {STDOUT: output.stdout_dropped_bytes, STDERR: output.stderr_dropped_bytes}
    missing = {stream: len(printed[stream]) - kept[stream] for stream in printed}
    assert told == missing, f"missing are {missing}, told are {told}"
    return sum(missing.values())
