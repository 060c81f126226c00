"""Pages of a log, side by side, are the log: no line is torn, missing or there twice, whatever place they begin at."""

import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output import line_pages, log_reader
from bgjob.output.line_pages import DroppedBytes, Line, LinePage, lines_after, lines_before
from bgjob.output.log_reader import LogReader
from tests.support.log_stories import STORIES, Byte, Story, contents, plainly, printed, told
from tests.support.logs import STREAMS, PipedLog

RELAXED = settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
Read = tuple[int, int, int, int, bytes]
"""Of a line: offset, end, stream, time, text."""


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def expected(log: PipedLog, part_bytes: int) -> list[Read]:
    """From the files as they are, byte by byte."""
    found = []
    for stream in STREAMS:
        for lines in plainly(log, stream, (0, log.writer.end)):
            for line in lines:
                position = log.owner[: line[0].offset].count(stream)
                for part in parts(line, position, part_bytes):
                    text = bytes(byte.value for byte in part).rstrip(b"\r\n")
                    found.append((part[0].offset, part[-1].offset + 1, stream, part[0].time_us, text))
    return sorted(found)


def parts(line: list[Byte], position: int, part_bytes: int) -> list[list[Byte]]:
    """A line as it is given: cut at the multiples that lie far enough behind its beginning."""
    ends = range(0, position + len(line), part_bytes)
    cuts = [end - position for end in ends if end - part_bytes >= position]
    edges = [0, *cuts, len(line)]
    return [line[left:right] for left, right in pairwise(edges)]


def read(lines: list[Line]) -> list[Read]:
    return [(line.offset, line.end, line.stream, line.time_us, line.text) for line in lines]


def walked_forward(log: LogReader, count: int) -> list[LinePage]:
    pages = [lines_after(log, 0, count)]
    while pages[-1].more:
        pages.append(lines_after(log, pages[-1].lines[-1].offset + 1, count))
    return pages


def walked_backward(log: LogReader, count: int) -> list[LinePage]:
    pages = [lines_before(log, 1 << 53, count)]
    while pages[-1].more:
        pages.append(lines_before(log, pages[-1].lines[0].offset, count))
    return pages[::-1]


def lines_of(pages: list[LinePage]) -> list[Read]:
    return [line for page in pages for line in read(page.lines)]


def dropped_in(pages: list[LinePage]) -> dict[int, int]:
    return {
        stream: sum(each.size for page in pages for each in page.dropped if each.stream == stream)
        for stream in STREAMS
    }


@RELAXED
@given(
    story=STORIES,
    count=st.integers(1, 9),
    share=st.floats(0, 1),
    part_bytes=st.sampled_from([8, 50, 1 << 20]),
    piece_bytes=st.sampled_from([1, 7, 1 << 16]),
)
@example(Story(0, 0, [(STDOUT, 60), (STDERR, 60)] * 20, 400, 1 << 20, 64), 1, 0.5, 8, 7)
def test_pages_side_by_side_are_the_log(
    scratch: Path, story: Story, count: int, share: float, part_bytes: int, piece_bytes: int
) -> None:
    with (
        pytest.MonkeyPatch.context() as patch,
        PipedLog(scratch / os.urandom(8).hex(), story.limit_bytes, contents=contents(story)) as log,
    ):
        patch.setattr(line_pages, "PART_BYTES", part_bytes)
        patch.setattr(line_pages, "PAGE_BYTES", 4 * part_bytes)
        patch.setattr(log_reader, "PIECE_BYTES", piece_bytes)
        told(log, story)
        reader, everything = log.reader(), expected(log, part_bytes)
        dropped = {stream: sum(gap.count for gap in reader.gaps(stream, 0, reader.end)) for stream in STREAMS}
        for pages in (walked_forward(reader, count), walked_backward(reader, count)):
            assert lines_of(pages) == everything
            assert dropped_in(pages) == dropped
            assert all(len(page.lines) <= count for page in pages)
        place = int(share * (reader.end + 1))
        before, after = lines_before(reader, place, 1 << 20), lines_after(reader, place, 1 << 20)
        patch.undo()
    edges = (
        [line for line in everything if line[0] < place],
        [line for line in everything if line[0] >= place],
    )
    if part_bytes == 1 << 20:
        assert (read(before.lines), read(after.lines)) == edges
        assert dropped_in([before, after]) == dropped
        assert all(each.offset < place for each in before.dropped)
        assert all(each.offset >= place for each in after.dropped)
    else:  # a page has so many bytes at most
        assert read(before.lines) == edges[0][len(edges[0]) - len(before.lines) :]
        assert read(after.lines) == edges[1][: len(after.lines)]
        assert (not edges[0] or before.lines, not edges[1] or after.lines) != ([], [])


# -- one by one -----------------------------------------------------------------------------------------


def texts(page: LinePage) -> list[bytes]:
    return [line.text for line in page.lines]


def test_a_line_lies_around_any_number_of_lines_of_the_other_stream(tmp_path: Path) -> None:
    """And belongs where it begins, for each page that reaches there."""
    parts = (STDERR, b"half a line and "), (STDOUT, b"other\n" * 5000), (STDERR, b"its rest\n")
    log = printed(tmp_path, *parts, segment_bytes=2000)
    assert texts(lines_after(log, 0, 2)) == [b"half a line and its rest", b"other"]
    assert texts(lines_before(log, 1 << 53, 2)) == [b"other", b"other"]
    assert texts(lines_before(log, 16 + 6, 9)) == [b"half a line and its rest", b"other"]
    assert {line.stream for line in lines_after(log, 1, 9999).lines} == {STDOUT}


def test_two_streams_without_newlines_are_two_lines(tmp_path: Path) -> None:
    log = printed(tmp_path, *[(STDOUT, b"out"), (STDERR, b"err")] * 400, segment_bytes=200)
    for page in (lines_after(log, 0, 9), lines_before(log, log.end, 9)):
        assert [(line.offset, line.stream, line.text, line.is_open) for line in page.lines] == [
            (0, STDOUT, b"out" * 400, True),
            (3, STDERR, b"err" * 400, True),
        ]
        assert not page.more


def test_an_unfinished_line_is_told_as_one(tmp_path: Path) -> None:
    page = lines_before(printed(tmp_path, (STDOUT, b"done\nPassword: ")), 1 << 53, 9)
    assert [(line.text, line.is_open) for line in page.lines] == [(b"done", False), (b"Password: ", True)]


def test_of_a_long_line_the_beginning_is_shown_and_its_length_told(tmp_path: Path) -> None:
    line = "é" * 5000
    [found] = lines_after(printed(tmp_path, (STDOUT, f"{line}\n".encode())), 0, 9).lines
    assert (found.size, found.skipped, found.is_rest) == (10_000, 0, False)
    assert found.text.decode() == "é" * (line_pages.SHOWN_BYTES // 2)


def test_of_a_long_progress_line_the_last_state_is_shown(tmp_path: Path) -> None:
    bar = b"\r".join(b"%5d of 10000" % part for part in range(10_001))
    [found] = lines_after(printed(tmp_path, (STDERR, bar + b"\r\n")), 0, 9).lines
    assert found.text.endswith(b"\r10000 of 10000")
    assert found.skipped + len(found.text) == found.size == len(bar)


def test_dropped_bytes_are_told_at_their_place(tmp_path: Path) -> None:
    with PipedLog(
        tmp_path / "log", 4000, contents={STDOUT: b"line\n" * 4000, STDERR: b"oops\n" * 4000}
    ) as log:
        for _ in range(40):
            log.print(STDOUT, 500)
            log.take_all()
        page = lines_after(log.reader(), 0, 1 << 20)
    [gap] = page.dropped
    assert gap == DroppedBytes(gap.offset, STDOUT, gap.size)
    before = [line for line in page.lines if line.offset < gap.offset]
    assert before[-1].end == gap.offset
    assert 5 * len(page.lines) <= log.printed[STDOUT] - gap.size + 5
    assert page.lines[len(before)].offset == gap.offset + gap.size


def test_dropped_bytes_of_a_stream_that_printed_no_more_are_told_too(tmp_path: Path) -> None:
    printed(tmp_path, (STDOUT, b"out\n" * 50), (STDERR, b"err\n" * 100), segment_bytes=100)
    for path in tmp_path.glob("*"):
        if 0 < int(path.name[:20]) < 300:
            path.unlink()
    page = lines_before(LogReader(str(tmp_path)), 1 << 53, 1000)
    assert {(each.stream, each.size > 0) for each in page.dropped} == {(STDOUT, True), (STDERR, True)}


@pytest.mark.parametrize("place", [0.0, 0.3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("lines", [2_000, 200_000])
def test_what_a_page_costs_does_not_depend_on_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: float, lines: int
) -> None:
    """Also where the other stream has printed at the ends of the log alone."""
    parts = [
        (STDERR, b"early\n"),
        (STDOUT, b"a line of text that is long enough\n" * lines),
        (STDERR, b"late\n"),
    ]
    log = printed(tmp_path, *parts, segment_bytes=1 << 16)
    read_bytes, files = 0, 0
    pread, opened = os.pread, os.open

    def counting_pread(fd: int, size: int, offset: int) -> bytes:
        nonlocal read_bytes
        data = pread(fd, size, offset)
        read_bytes += len(data)
        return data

    def counting_open(*arguments: object) -> int:
        nonlocal files
        files += 1
        return opened(*arguments)  # type: ignore[arg-type]  # as they are

    monkeypatch.setattr(os, "pread", counting_pread)
    monkeypatch.setattr(os, "open", counting_open)
    at = int(place * log.end)
    assert len(lines_before(log, at, 200).lines) == (200 if at else 0)
    assert len(lines_after(log, at, 200).lines) == (200 if place < 1 else 0)
    assert read_bytes < 700_000
    assert files < 60


def test_a_log_without_a_newline_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_pages, "PART_BYTES", 1000)
    log = printed(tmp_path, (STDOUT, b"x" * 10_500))
    page = lines_after(log, 0, 99)
    assert [(line.offset, line.size, line.is_rest) for line in page.lines] == [
        (at, 1000 if at < 10_000 else 500, at > 0) for at in range(0, 10_500, 1000)
    ]
    assert lines_before(log, 1 << 53, 99).lines == page.lines


def test_a_job_that_printed_nothing_has_no_lines(tmp_path: Path) -> None:
    log = LogReader(str(tmp_path / "log"))
    for page in (lines_before(log, 1 << 53, 9), lines_after(log, 0, 9)):
        assert (page.lines, page.dropped, page.more) == ([], [], False)
