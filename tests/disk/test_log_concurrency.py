"""Readers beside a writer that rotates: Rotated is all that may happen to them, and no byte is ever wrong."""

import random
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from bgjob.home.log_format import HEADER, RUN, STDERR, STDOUT, segment_name
from bgjob.home.log_writer import LogWriter
from bgjob.output.log_reader import LogReader
from bgjob.output.log_segments import Rotated
from tests.support.logs import STREAMS, joined

BLOCK_BYTES = 100
BYTES = random.Random(7).randbytes(1 << 20)
# Prints BYTES in blocks, stdout and stderr in turn: of each offset everybody knows whose byte it is, and which.
WRITER = f"""
import os, random, sys
from bgjob.home.log_writer import LogWriter
directory, limit, size, unit = sys.argv[1], *map(int, sys.argv[2:])
content = random.Random(7).randbytes(1 << 20)
log = LogWriter(directory, limit)
pipes = [os.pipe(), os.pipe()]
for start in range(0, size, {BLOCK_BYTES}):
    source, sink = pipes[start // {BLOCK_BYTES} % 2]
    left = os.write(sink, content[start:start + {BLOCK_BYTES}])
    while left:
        left -= log.take(source, start // {BLOCK_BYTES} % 2 + 1, unit)
"""


def writer_process(directory: Path, limit: int, size: int, unit: int = 1 << 30) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, directory, str(limit), str(size), str(unit)])


def of_stream(stream: int, start: int, end: int) -> bytes:
    spans = [
        (max(block, start), min(block + BLOCK_BYTES, end))
        for block in range(start - start % BLOCK_BYTES, end, BLOCK_BYTES)
        if block // BLOCK_BYTES % 2 + 1 == stream
    ]
    return b"".join(BYTES[left:right] for left, right in spans)


def check_snapshot(reader: LogReader) -> None:
    for stream in STREAMS:
        pieces = list(reader.forward(stream, 0, reader.end))
        for piece in pieces:
            assert piece.data == of_stream(stream, piece.start, piece.end)
        gaps = reader.gaps(stream, 0, reader.end)
        for gap in gaps:
            assert gap.count == len(of_stream(stream, gap.start, gap.end))
        assert len({gap.start for gap in gaps}) <= 1  # only ever behind the head
        printed = len(of_stream(stream, 0, reader.end))
        assert sum(len(piece.data) for piece in pieces) + sum(gap.count for gap in gaps) == printed
        assert joined(list(reader.backward(stream, 0, reader.end))[::-1]) == joined(pieces)


@pytest.mark.parametrize("limit", [1 << 10, 8 << 10, 64 << 10])
def test_a_reader_of_a_log_that_rotates_sees_only_what_was_printed(tmp_path: Path, limit: int) -> None:
    writer = writer_process(tmp_path, limit, 400_000)
    looks = 0
    while writer.poll() is None:
        try:
            check_snapshot(LogReader(str(tmp_path)))
            looks += 1
        except Rotated:
            continue
    assert writer.returncode == 0
    check_snapshot(LogReader(str(tmp_path)))
    assert looks > 0


def test_readers_in_threads_of_the_writers_own_process(tmp_path: Path) -> None:
    wrong: list[BaseException] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            try:
                check_snapshot(LogReader(str(tmp_path)))
            except Rotated:
                continue
            except BaseException as error:  # noqa: BLE001  # shown by the test's own thread
                wrong.append(error)
                return

    readers = [threading.Thread(target=look) for _ in range(3)]
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    for thread in readers:
        thread.start()
    try:
        write_blocks(LogWriter(str(tmp_path), 4096), 60_000)
    finally:
        done.set()
        sys.setswitchinterval(switch_s)
        for thread in readers:
            thread.join()
    assert wrong == []


def write_blocks(log: LogWriter, size: int) -> None:
    import os

    pipes = [os.pipe(), os.pipe()]
    for start in range(0, size, BLOCK_BYTES):
        side = start // BLOCK_BYTES % 2
        left = os.write(pipes[side][1], BYTES[start : start + BLOCK_BYTES])
        while left:
            left -= log.take(pipes[side][0], side + 1, left)
    log._close()
    for fd in [fd for pipe in pipes for fd in pipe]:
        os.close(fd)


def test_one_who_reads_on_from_where_the_last_look_ended_misses_nothing(tmp_path: Path) -> None:
    """Nothing is deleted here, segments only follow each other: no look may take a new one for a gap."""
    writer = writer_process(tmp_path, 1 << 20, 500_000, unit=37)
    at, read = 0, {STDOUT: b"", STDERR: b""}
    ended = False
    while not ended:
        ended = writer.poll() is not None
        reader = LogReader(str(tmp_path))
        for stream in STREAMS:
            assert reader.gaps(stream, at, reader.end) == []
            read[stream] += joined(list(reader.forward(stream, at, reader.end)))
        at = reader.end
    assert read == {stream: of_stream(stream, 0, 500_000) for stream in STREAMS}


def test_a_segment_deleted_between_the_look_and_the_read_is_rotated(tmp_path: Path) -> None:
    write_blocks(LogWriter(str(tmp_path), 4096), 20_000)
    reader = LogReader(str(tmp_path))
    victim = sorted(tmp_path.glob("[0-9]" * 20))[2]
    for path in (victim, victim.with_suffix(".runs")):
        path.unlink()
    with pytest.raises(Rotated):
        list(reader.forward(STDOUT, 0, reader.end))
    check_gap_is_told(LogReader(str(tmp_path)), int(victim.name))


def check_gap_is_told(reader: LogReader, offset: int) -> None:
    assert any(gap.start <= offset < gap.end for gap in reader.gaps(STDOUT, 0, reader.end))


def test_the_instant_in_which_a_segment_has_no_header_yet_is_no_gap_of_less_than_nothing(
    tmp_path: Path,
) -> None:
    """Between two syscalls of the writer, after a full disk: the data file is there, its header is not."""
    (tmp_path / segment_name(0)).write_bytes(b"x" * 50)
    (tmp_path / f"{segment_name(0)}.runs").write_bytes(HEADER.pack(0, 0) + RUN.pack(0, STDOUT))
    (tmp_path / segment_name(80)).write_bytes(b"")
    (tmp_path / f"{segment_name(80)}.runs").write_bytes(b"")
    reader = LogReader(str(tmp_path))
    assert [gap for gap in reader.gaps(STDOUT, 0, 100) if gap.count < 0] == []


def test_the_newest_segment_never_begins_before_the_one_before_it_ends(tmp_path: Path) -> None:
    write_blocks(LogWriter(str(tmp_path), 1 << 20), 300_000)
    segments = LogReader(str(tmp_path))._segments
    assert all(left.end == right.start for left, right in pairwise(segments))
