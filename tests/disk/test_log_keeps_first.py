"""A log that keeps its first bytes: for a job that is ended when it prints more."""

import os
import random
from pathlib import Path

import pytest

from bgjob.home.log_format import STDERR, STDOUT
from bgjob.home.log_writer import LogWriter
from bgjob.output.log_reader import LogReader

LIMIT_BYTES = 10_000


def printed_into(writer: LogWriter, data: bytes, stream: int = STDOUT) -> None:
    source, sink = os.pipe()
    try:
        os.write(sink, data)
        os.close(sink)
        while writer.take(source, stream):
            pass
    finally:
        os.close(source)


def kept(directory: Path, stream: int = STDOUT) -> bytes:
    log = LogReader(str(directory))
    return b"".join(piece.data for piece in log.forward(stream, 0, log.end))


@pytest.mark.parametrize("splice", [True, False], ids=["splice", "copy"])
def test_its_first_bytes_stay_to_the_last_of_them_and_the_rest_is_counted(
    tmp_path: Path, splice: bool
) -> None:
    writer = LogWriter(str(tmp_path / "log"), LIMIT_BYTES, keeps_first=True)
    writer._can_splice = writer._can_splice and splice
    data = random.Random(1).randbytes(30_000)
    for start in range(0, len(data), 700):
        printed_into(writer, data[start : start + 700])
    assert kept(tmp_path / "log") == data[:LIMIT_BYTES]
    assert writer.end == writer.before[STDOUT] == len(data)


def test_a_job_that_prints_less_keeps_all_of_it(tmp_path: Path) -> None:
    writer = LogWriter(str(tmp_path / "log"), LIMIT_BYTES, keeps_first=True)
    data = random.Random(2).randbytes(LIMIT_BYTES)
    printed_into(writer, data)
    assert kept(tmp_path / "log") == data
    assert writer.end == LIMIT_BYTES


def test_streams_that_alternate_keep_theirs(tmp_path: Path) -> None:
    """The runs, which come on top, do not cost a byte of output."""
    writer = LogWriter(str(tmp_path / "log"), LIMIT_BYTES, keeps_first=True)
    for _ in range(100):
        printed_into(writer, b"o" * 60, STDOUT)
        printed_into(writer, b"e" * 60, STDERR)
    counts = len(kept(tmp_path / "log", STDOUT)), len(kept(tmp_path / "log", STDERR))
    assert sum(counts) == LIMIT_BYTES
    assert abs(counts[0] - counts[1]) <= 60


def test_a_writer_that_takes_over_goes_on_to_the_same_byte(tmp_path: Path) -> None:
    data = random.Random(3).randbytes(2 * LIMIT_BYTES)
    printed_into(LogWriter(str(tmp_path / "log"), LIMIT_BYTES, keeps_first=True), data[:4321])
    printed_into(LogWriter(str(tmp_path / "log"), LIMIT_BYTES, keeps_first=True), data[4321:])
    assert kept(tmp_path / "log") == data[:LIMIT_BYTES]
