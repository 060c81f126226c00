"""What each stream of a log printed last, as its writer tells it."""

import os
from pathlib import Path

import pytest

from bgjob.home.log_format import STDERR, STDOUT
from bgjob.home.log_writer import LogWriter


def pour(writer: LogWriter, stream: int, data: bytes) -> None:
    source, sink = os.pipe()
    try:
        os.write(sink, data)
        while data:
            data = data[writer.take(source, stream) :]
    finally:
        os.close(source)
        os.close(sink)


@pytest.fixture
def log(tmp_path: Path) -> str:
    return str(tmp_path / "log")


def test_each_stream_has_its_end_in_whatever_order_they_printed(log: str) -> None:
    writer = LogWriter(log, 1 << 20)
    assert writer.stream_ends(100) == [b"", b""]
    pour(writer, STDOUT, b"Cmd: ")
    pour(writer, STDERR, b"INFO ")
    pour(writer, STDERR, b"started\n")
    assert writer.stream_ends(100) == [b"Cmd: ", b"INFO started\n"]
    assert writer.stream_ends(3) == [b"d: ", b"ed\n"]


def test_a_writer_that_goes_on_knows_them_too(log: str) -> None:
    before = LogWriter(log, 1 << 20)
    pour(before, STDOUT, b"Cmd: ")
    pour(before, STDERR, b"INFO\n")
    assert LogWriter(log, 1 << 20).stream_ends(100) == before.stream_ends(100) == [b"Cmd: ", b"INFO\n"]


def test_they_are_of_the_newest_segment(log: str) -> None:
    writer = LogWriter(log, 4096)
    pour(writer, STDOUT, b"old: ")
    for _ in range(100):
        pour(writer, STDERR, b"x" * 99 + b"\n")
    assert writer.stream_ends(10) == [b"", b"x" * 9 + b"\n"]
    pour(writer, STDOUT, b"new: ")
    assert writer.stream_ends(10)[0] == b"new: "
