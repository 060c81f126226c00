"""Each stream has a share of the log of its own: whatever the other prints, its newest bytes stay."""

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from bgjob.core.patterns import compile_pattern
from bgjob.home import log_shares, log_writer
from bgjob.home.log_format import HEADER, PIECE, STDERR, STDOUT
from bgjob.home.log_writer import LogWriter
from bgjob.output import excerpt
from bgjob.output.log_reader import LogReader
from bgjob.output.log_search import search
from bgjob.output.timeline import interleaved
from tests.support.logs import (
    SLACK_BYTES,
    STREAMS,
    PipedLog,
    assert_pieces_are_in_place,
    assert_readers_tell_the_truth,
    joined,
    pour,
)

pytestmark = pytest.mark.timeout(900)
RELEASE = Path(__file__).parents[1] / "contracts/releases/bgjob-0.1.0.zip"
LIMITS = st.integers(1 << 10, 64 << 10)
# most mixes have a stream that is chatty and one that is not; sizes are of one print
STEPS = st.lists(
    st.tuples(
        st.sampled_from(STREAMS),
        st.one_of(st.integers(1, 40), st.integers(1, 9000)),
        st.integers(1, 12),  # how often, each time taken at once
    ),
    max_size=40,
)
RELAXED = settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
Steps = list[tuple[int, int, int]]


@pytest.fixture(scope="module", autouse=True)
def hasty_clock() -> Iterator[None]:
    """Every look at it is 7 ms later: runs are short."""
    ticks = count(1_700_000_000_000_000_000, 7_000_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bgjob.home.log_writer.time.time_ns", lambda: next(ticks))
        yield


def play(log: PipedLog, steps: Steps) -> None:
    for stream, size, times in steps:
        for _ in range(times):
            log.print(stream, size)
            log.take_all()
        assert log.disk_use() <= log.limit_bytes + SLACK_BYTES


def bytes_in_share(log: PipedLog, stream: int) -> int:
    """How many of the newest bytes fit into the share, with what it costs to say where each run of them lies."""
    file_bytes = log.writer._kept_file_bytes()
    left = log.writer._share(stream) * (1 - (HEADER.size + PIECE.size) / file_bytes) - 2 * PIECE.size
    size = 0
    for whose, taken in reversed(log.takes):
        if whose == stream:
            left -= PIECE.size + taken
            if left < 0:
                return size + max(0, taken + int(left))
            size += taken
    return size


def assert_each_stream_has_its_share(log: PipedLog) -> None:
    reader = log.reader()
    for stream in STREAMS:
        newest = bytes_in_share(log, stream)
        printed = log._contents[stream][: log.printed[stream]]
        kept = joined(list(reader.backward(stream, 0, reader.end))[::-1])
        assert kept[len(kept) - newest :] == printed[len(printed) - newest :]


# -- any mix --------------------------------------------------------------------------------------------


@RELAXED
@given(steps=STEPS, limit=LIMITS, splice=st.booleans())
@example([(STDOUT, 5000, 1), (STDERR, 21, 1), (STDOUT, 9000, 12)], 10_000, True)
@example([(STDERR, 5000, 1), (STDOUT, 21, 1), (STDERR, 9000, 12)], 10_000, True)
@example([(STDOUT, 3, 1), (STDERR, 5, 1)] * 40 + [(STDOUT, 9000, 9), (STDERR, 9000, 9)], 9_000, True)
def test_whatever_one_stream_prints_the_newest_bytes_of_the_other_stay(
    steps: Steps, limit: int, splice: bool
) -> None:
    with tempfile.TemporaryDirectory() as scratch, PipedLog(Path(scratch), limit, splice=splice) as log:
        play(log, steps)
        assert_readers_tell_the_truth(log)
        assert_each_stream_has_its_share(log)
        assert_the_order_is_that_of_the_log(log)


def assert_the_order_is_that_of_the_log(log: PipedLog) -> None:
    at = 0
    for piece in log.reader().interleaved(0, log.writer.end):
        assert piece.start >= at
        assert piece.data == log.everything[piece.start : piece.end]
        assert set(log.owner[piece.start : piece.end]) == {piece.stream}
        at = piece.end
    assert at == log.writer.end


@RELAXED
@given(steps=STEPS, limit=LIMITS, cuts=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_what_is_missing_in_any_window_is_told(steps: Steps, limit: int, cuts: tuple[float, float]) -> None:
    """To the byte, unless both streams have lost bytes in one place, of which an edge of the window cuts a part."""
    with tempfile.TemporaryDirectory() as scratch, PipedLog(Path(scratch), limit) as log:
        play(log, steps)
        reader = log.reader()
        window = sorted(int(reader.end * cut) for cut in cuts)
        size = window[1] - window[0]
        kept = {stream: reader.kept(stream, *window) for stream in STREAMS}
        gone = {stream: sum(gap.count for gap in reader.gaps(stream, *window)) for stream in STREAMS}
        for stream, other in zip(STREAMS, STREAMS[::-1], strict=True):
            printed = log.owner[slice(*window)].count(stream)
            assert printed <= kept[stream] + gone[stream] <= size - kept[other]
            assert gone[other] or kept[stream] + gone[stream] == printed


# -- kills ----------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here: nobody cleans up."""


Kill = tuple[
    int, str
]  # at which call that changes something, and "before" it, "after" it or when it is "half" done
KILLS = st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["before", "half", "after"])), max_size=15)


class MortalOs:
    """The os module of a writer that is killed."""

    CHANGES = frozenset({"open", "write", "splice", "unlink", "truncate", "ftruncate", "mkdir"})

    def __init__(self, kills: list[Kill]) -> None:
        self._kills, self._open = iter(kills), set[int]()
        self._calls_left, self._when = next(self._kills, (sys.maxsize, ""))

    def close(self, fd: int) -> None:
        if fd in self._open:
            self._open.remove(fd)
            os.close(fd)

    def __getattr__(self, name: str) -> Any:
        call = getattr(os, name)
        return partial(self._call, name, call) if name in self.CHANGES else call

    def _call(self, name: str, call: Callable[..., Any], *args: Any) -> Any:
        self._calls_left -= 1
        if self._calls_left >= 0 or self._when == "after":
            answer = call(*args)
            if name == "open":
                self._open.add(answer)
            if self._calls_left >= 0:
                return answer
        elif self._when == "half" and name == "write":
            call(args[0], args[1][: len(args[1]) // 2])
        self._die()

    def _die(self) -> None:
        self._calls_left, self._when = next(self._kills, (sys.maxsize, ""))
        for fd in list(self._open):
            self.close(fd)
        raise Killed


class MortalLog(PipedLog):
    """Its writer is killed now and then, and another one takes over."""

    def __init__(self, directory: Path, limit_bytes: int, kills: list[Kill]) -> None:
        self._patch, mortal = pytest.MonkeyPatch(), MortalOs(kills)
        self._patch.setattr(log_writer, "os", mortal)
        self._patch.setattr(log_shares, "os", mortal)
        super().__init__(directory, limit_bytes)

    def take(self, stream: int, most: int = 1 << 30) -> int:
        try:
            return super().take(stream, most)
        except Killed:
            moved = self.reader().end - len(self.everything)
            self._remember(stream, moved)
            self.writer.end = len(self.everything)
            assert_readers_tell_the_truth(self)
            self._take_over()
            return moved or self.take(stream)

    def _take_over(self) -> None:
        try:
            self.writer = LogWriter(str(self.directory), self.limit_bytes)
        except Killed:
            return self._take_over()
        assert list(self.writer.before.values()) == list(self.printed.values())
        assert_readers_tell_the_truth(self)

    def close(self) -> None:
        super().close()
        self._patch.undo()


@RELAXED
@given(steps=STEPS, limit=LIMITS, kills=KILLS)
def test_a_writer_killed_at_any_call_costs_nothing_of_a_share(
    steps: Steps, limit: int, kills: list[Kill]
) -> None:
    with tempfile.TemporaryDirectory() as scratch, MortalLog(Path(scratch), limit, kills) as log:
        play(log, steps)
        assert_readers_tell_the_truth(log)
        assert_each_stream_has_its_share(log)


@pytest.mark.parametrize("when", ["before", "half", "after"])
def test_writers_killed_one_after_the_other_cost_nothing_of_a_share(tmp_path: Path, when: str) -> None:
    """Most segments that go leave something behind; at each of the calls that takes some writer is killed."""
    for calls in range(30, 37):  # more than one of them needs to take over and to get on
        with MortalLog(tmp_path / str(calls), 16_000, [(calls, when)] * 1000) as log:
            play(log, [(STDOUT, 2000, 1), (STDERR, 60, 2)] * 16)
            assert_each_stream_has_its_share(log)


# -- readers --------------------------------------------------------------------------------------------


def test_a_search_finds_what_is_kept_of_segments_that_go_while_it_reads(tmp_path: Path) -> None:
    """It has looked at the log when all was there; by the time it reads, most of it is in other files or gone."""
    for newest_first in (False, True):
        directory = tmp_path / str(newest_first)
        writer = LogWriter(str(directory), 64 << 10)
        for number in range(40):
            pour(writer, STDOUT, b"x" * 999 + b"\n")
            pour(writer, STDERR, b"error %d\n" % number)
        reader = LogReader(str(directory))
        pour(writer, STDOUT, b"y" * 500_000)
        found = search(reader, compile_pattern("error"), limit=99, newest_first=newest_first)
        writer._close()
        lines = [b"error %d" % number for number in range(40)]
        assert [match.line for match in found.matches] == lines[:: -1 if newest_first else 1]
        assert [match.stream for match in found.matches] == [STDERR] * 40


def test_an_answer_has_as_much_as_it_may_however_far_apart_what_is_kept_lies(tmp_path: Path) -> None:
    writer = LogWriter(str(tmp_path), 64 << 10)
    for number in range(100):
        pour(writer, STDERR, b"error %d\n" % number)
        pour(writer, STDOUT, b"x" * 4999 + b"\n")
    writer._close()
    log = LogReader(str(tmp_path))
    gap = next(gap for gap in log.gaps(STDOUT, 0, log.end))
    view = excerpt.window(f"{gap.start}-{gap.end}", log.end)
    shown = interleaved(log, view, 1000, is_running=True)
    head, note, tail = re.split(r"(\[bgjob: .* bytes left out .*\]\n)", shown.text)
    assert 300 < len(head) < 600
    assert 300 < len(tail) < 600
    assert f"{shown.left_out_bytes} bytes left out here" in note
    dropped = [int(count) for count in re.findall(r"(\d+) bytes dropped here", shown.text)]
    assert 5000 in dropped
    assert shown.dropped_bytes == gap.count == sum(dropped)


def test_the_release_before_shares_sees_a_gap_and_no_wrong_byte(tmp_path: Path) -> None:
    with PipedLog(tmp_path / "log", 20_000) as log:
        play(log, [(STDOUT, 700, 1), (STDERR, 60, 2)] * 40 + [(STDOUT, 9000, 2), (STDERR, 9000, 2)])
        assert list(log.directory.glob("*.std*"))
        read = subprocess.run(
            [sys.executable, "-c", OLD_READER, RELEASE, log.directory],
            check=True,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"]},
        ).stdout
        seen = ast.literal_eval(read.decode())
        assert seen["end"] == log.writer.end
        for stream in STREAMS:
            pieces, gaps = seen[stream]
            for start, data in pieces:
                assert data == log.everything[start : start + len(data)]
                assert set(log.owner[start : start + len(data)]) == {stream}
            assert sum(len(data) for _, data in pieces) + sum(gaps) == log.printed[stream]


def test_a_kept_file_that_is_something_else_stops_no_reader(tmp_path: Path) -> None:
    """What can be read of it is what was printed; the rest is a gap."""
    with PipedLog(tmp_path / "log", 20_000) as log:
        play(log, [(STDOUT, 700, 1), (STDERR, 60, 2)] * 40)
        victim = sorted(log.directory.glob("*.stderr"))[1]
        whole = victim.read_bytes()
        for content in (b"", b"\0", bytes(300), b"\xff" * 300, whole[:-1], whole[:50], whole[8:], whole[16:]):
            victim.write_bytes(content)
            assert_no_byte_is_wrong(log)
        victim.unlink()
        for make in (victim.mkdir, partial(os.mkfifo, victim), partial(victim.symlink_to, "/etc/passwd")):
            make()
            assert_no_byte_is_wrong(log)
            victim.rmdir() if victim.is_dir() else victim.unlink()


def assert_no_byte_is_wrong(log: PipedLog) -> None:
    reader = log.reader()
    for stream in STREAMS:
        pieces = list(reader.forward(stream, 0, reader.end))
        assert_pieces_are_in_place(log, stream, pieces)
        assert joined(pieces) == joined(list(reader.backward(stream, 0, reader.end))[::-1])
        reader.gaps(stream, 0, reader.end)
    assert_the_order_is_that_of_the_log(log)
    for newest_first in (False, True):
        assert search(reader, compile_pattern("."), limit=5, newest_first=newest_first).complete


OLD_READER = """
import sys
sys.path.insert(0, sys.argv[1])
import bgjob
from bgjob.log_reader import LogReader
assert bgjob.__file__.startswith(sys.argv[1])
log = LogReader(sys.argv[2])
seen = {"end": log.end}
for stream in (1, 2):
    pieces = [(piece.start, piece.data) for piece in log.forward(stream, 0, log.end)]
    seen[stream] = pieces, [gap.count for gap in log.gaps(stream, 0, log.end)]
print(seen)
"""
