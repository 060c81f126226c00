"""The log, for any sequence of prints and any limit: what is read is what was printed, less what is said to be gone."""

import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bgjob.home.log_format import HEADER, RUN, RUNS_SUFFIX, STDERR, STDOUT, segment_name
from bgjob.output.log_reader import LogReader
from tests.support.logs import SLACK_BYTES, STREAMS, PipedLog, assert_readers_tell_the_truth, joined

LIMITS = st.integers(1 << 10, 64 << 10)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(STREAMS),
        st.one_of(st.integers(1, 40), st.integers(1, 9000)),
        st.one_of(st.none(), st.integers(1, 5000)),  # how much is taken then; None: all that both have
    ),
    max_size=60,
)
RELAXED = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
Steps = list[tuple[int, int, int | None]]


def play(log: PipedLog, steps: Steps) -> None:
    for stream, size, most in steps:
        log.print(stream, size)
        if most is None:
            log.take_all()
        else:
            log.take(stream, most)
        assert log.disk_use() <= log.limit_bytes + SLACK_BYTES


@RELAXED
@given(steps=STEPS, limit=LIMITS, splice=st.booleans())
def test_what_is_read_is_what_was_printed_minus_the_gaps_that_are_told(
    steps: Steps, limit: int, splice: bool
) -> None:
    with tempfile.TemporaryDirectory() as scratch, PipedLog(Path(scratch), limit, splice=splice) as log:
        play(log, steps)
        log.take_all()
        assert_readers_tell_the_truth(log)


@RELAXED
@given(steps=STEPS, limit=LIMITS)
def test_it_is_true_at_every_moment_too(steps: Steps, limit: int) -> None:
    with tempfile.TemporaryDirectory() as scratch, PipedLog(Path(scratch), limit) as log:
        for step in steps[:15]:
            play(log, [step])
            assert_readers_tell_the_truth(log)


@RELAXED
@given(steps=STEPS, limit=LIMITS)
def test_the_head_and_the_newest_bytes_always_stay(steps: Steps, limit: int) -> None:
    with tempfile.TemporaryDirectory() as scratch, PipedLog(Path(scratch), limit) as log:
        play(log, [(STDOUT, 1, None), *steps])
        log.take_all()
        head = (log.directory / segment_name(0)).read_bytes()
        assert head == log.everything[: len(head)]
        newest = b"".join(piece.data for piece in log.reader().interleaved(0, log.writer.end))[-200:]
        assert log.everything.endswith(newest)
        assert len(newest) == min(200, len(log.everything))


@RELAXED
@given(limit=LIMITS)
def test_one_busy_stream_uses_at_least_half_of_its_limit(limit: int) -> None:
    with tempfile.TemporaryDirectory() as scratch, PipedLog(Path(scratch), limit) as log:
        play(log, [(STDOUT, 9000, None)] * (3 * limit // 9000 + 1))
        assert log.reader().kept(STDOUT, 0, log.writer.end) >= limit * 0.5


@RELAXED
@given(steps=STEPS, limit=LIMITS, cuts=st.lists(st.integers(0, 300_000), max_size=8))
def test_any_cut_of_the_offsets_gives_the_same_bytes(steps: Steps, limit: int, cuts: list[int]) -> None:
    with tempfile.TemporaryDirectory() as scratch, PipedLog(Path(scratch), limit) as log:
        play(log, steps)
        log.take_all()
        reader = log.reader()
        marks = sorted({0, reader.end, *(min(cut, reader.end) for cut in cuts)})
        for stream in STREAMS:
            whole = joined(list(reader.forward(stream, 0, reader.end)))
            parts = [list(reader.forward(stream, *span)) for span in pairwise(marks)]
            assert b"".join(map(joined, parts)) == whole
            assert sum(reader.kept(stream, *span) for span in pairwise(marks)) == len(whole)


@RELAXED
@given(steps=STEPS, limit=LIMITS)
def test_the_interleaved_view_is_the_log_in_its_order(steps: Steps, limit: int) -> None:
    with tempfile.TemporaryDirectory() as scratch, PipedLog(Path(scratch), limit) as log:
        play(log, steps)
        log.take_all()
        at = 0
        for piece in log.reader().interleaved(0, log.writer.end):
            assert piece.start >= at
            assert piece.data == log.everything[piece.start : piece.end]
            assert set(log.owner[piece.start : piece.end]) == {piece.stream}
            at = piece.end
        assert at == log.writer.end


def test_a_dry_pipe_leaves_no_bytes_and_no_lie(tmp_path: Path) -> None:
    """Looking at an empty pipe may label a run of no bytes; readers do not see it."""
    with PipedLog(tmp_path / "log", 4096) as log:
        for _ in range(20):
            for stream in STREAMS:
                assert log.take(stream) == 0
        log.print(STDERR, 10)
        log.take_all()
        assert_readers_tell_the_truth(log)


def test_a_run_torn_by_a_crash_is_none(tmp_path: Path) -> None:
    with PipedLog(tmp_path / "log", 4096) as log:
        log.print(STDOUT, 100)
        log.take_all()
        log.close()
        with (log.directory / f"{segment_name(0)}.runs").open("ab") as runs:
            runs.write(b"\1\2\3\4\5")
        reader = log.reader()
        assert joined(list(reader.forward(STDOUT, 0, reader.end))) == log.everything
        log._pipes.clear()


def test_a_job_that_printed_nothing_has_an_empty_log(tmp_path: Path) -> None:
    with PipedLog(tmp_path / "log", 4096) as log:
        assert log.reader().end == 0
        assert list(log.reader().forward(STDOUT, 0, 10)) == []
        assert log.reader().gaps(STDOUT, 0, 10) == []


@pytest.mark.parametrize("written", range(RUN.size))
def test_a_run_of_which_a_power_cut_left_a_part_and_zeros_is_none(tmp_path: Path, written: int) -> None:
    whole, torn = RUN.pack(0, 1 << 58 | STDOUT), RUN.pack(4, 1 << 58 | STDERR)[:written]
    (tmp_path / segment_name(0)).write_bytes(b"out\nerr\n")
    (tmp_path / (segment_name(0) + RUNS_SUFFIX)).write_bytes(
        HEADER.pack(0, 0) + whole + torn.ljust(3 * RUN.size, b"\0")
    )
    pieces = LogReader(str(tmp_path)).forward(STDOUT, 0, 8)
    assert b"".join(piece.data for piece in pieces) == b"out\nerr\n"
