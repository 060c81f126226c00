"""Logs of any kind, and what a plain reading of their files finds in them, byte by byte."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from bgjob.home.log_format import HEADER, KEPT_SUFFIXES, RUN, pieces_of
from bgjob.home.log_writer import LogWriter
from bgjob.output.log_reader import LogReader
from tests.support.logs import STREAMS, PipedLog


@dataclass(frozen=True)
class Story:
    """How a log came to be."""

    seed: int
    newlines: int
    steps: list[tuple[int, int]]
    segment_bytes: int
    limit_bytes: int
    cell_bytes: int
    is_redrawn: bool = False


STORIES = st.builds(
    Story,
    seed=st.integers(0, 1 << 32),
    newlines=st.integers(0, 4),
    steps=st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(1, 60)), max_size=60),
    segment_bytes=st.integers(17, 400),
    limit_bytes=st.sampled_from([300, 1000, 1 << 20]),
    cell_bytes=st.sampled_from([1, 2, 7, 64, 1 << 12]),
    is_redrawn=st.booleans(),
)


@dataclass(frozen=True)
class Byte:
    offset: int
    value: int
    stream: int
    time_us: int


def plainly(log: PipedLog, stream: int, window: tuple[int, int]) -> Iterator[list[list[Byte]]]:
    """The lines of a stream, from the files as they are; one list for what lies between two gaps."""
    gaps = [gap.end for gap in log.reader().gaps(stream, 0, log.writer.end)]
    texts: dict[int, list[Byte]] = {}
    for byte in bytes_on_disk(log.directory):
        if byte.stream == stream and window[0] <= byte.offset < window[1]:
            texts.setdefault(sum(byte.offset >= gap for gap in gaps), []).append(byte)
    for text in texts.values():
        lines: list[list[Byte]] = [[]]
        for byte in text:
            lines[-1].append(byte)
            if byte.value == ord("\n"):
                lines.append([])
        yield [line for line in lines if line]


def bytes_on_disk(directory: Path) -> list[Byte]:
    return sorted([*bytes_of_segments(directory), *bytes_kept(directory)], key=lambda byte: byte.offset)


def bytes_kept(directory: Path) -> Iterator[Byte]:
    """What is kept of segments that were deleted."""
    for path in directory.glob("*.std*"):
        data = path.read_bytes()
        for offset, stamp, at, length in pieces_of(data):
            assert path.suffix == KEPT_SUFFIXES[stamp & 0xFF]
            for number in range(length):
                yield Byte(offset + number, data[at + number], stamp & 0xFF, stamp >> 8)


def bytes_of_segments(directory: Path) -> Iterator[Byte]:
    for path in sorted(directory.glob("*[0-9]")):
        start, data = int(path.name), path.read_bytes()
        runs = list(RUN.iter_unpack((directory / f"{path.name}.runs").read_bytes()[HEADER.size :]))
        for at, value in enumerate(data, start):
            stamp = [stamp for offset, stamp in runs if offset <= at][-1]
            yield Byte(at, value, stamp & 0xFF, stamp >> 8)


def told(log: PipedLog, story: Story) -> PipedLog:
    log.writer.segment_bytes = story.segment_bytes
    for stream, size in story.steps:
        log.print(stream, size)
        log.take(stream)
    return log


def contents(story: Story) -> dict[int, bytes]:
    tokens = [b"a", b"a", b"b", b"b", b"A", b" ", b"\r"] + [b"\n"] * story.newlines
    tokens += [b"\b", b"\x1b[31m", b"\x1b[0m", b"\x1b[K"] if story.is_redrawn else []
    return {
        stream: b"".join(random.Random(story.seed + stream).choices(tokens, k=4000)) for stream in STREAMS
    }


def printed(directory: Path, *parts: tuple[int, bytes], segment_bytes: int = 1 << 20) -> LogReader:
    """A log into which these parts came one after the other."""
    directory.mkdir(exist_ok=True)
    writer = LogWriter(str(directory), 1 << 40)
    writer.segment_bytes = segment_bytes
    for stream, data in parts:
        source, sink = os.pipe()
        for at in range(0, len(data), 1 << 15):
            size = os.write(sink, data[at : at + (1 << 15)])
            while size:
                size -= writer.take(source, stream)
        os.close(source)
        os.close(sink)
    writer._close()
    return LogReader(str(directory))
