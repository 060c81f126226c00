"""The runs of a segment: a question about a part of a log is answered from the runs of that part."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bgjob.api import Jobs
from bgjob.api.conditions import Awaited, Conditions
from bgjob.home.jobdir import MERGED
from bgjob.home.log_format import HEADER, RUN, RUNS_SUFFIX, STDERR, STDOUT, segment_name
from bgjob.output.excerpt import Window, whole
from bgjob.output.log_kept import NO_STREAM
from bgjob.output.log_reader import LogReader, Piece
from bgjob.output.log_runs import Run, Runs
from bgjob.output.log_segments import Segment
from bgjob.output.merged import log_file
from bgjob.output.tail import tail
from bgjob.output.timeline import interleaved_tail

LINE, LINES = b"a line\n", 400_000
UNKNOWN_STREAM = 7
LABELS = st.sampled_from([STDOUT, STDERR, UNKNOWN_STREAM])


@given(
    lengths=st.lists(st.tuples(st.integers(0, 5), LABELS), max_size=12),
    unlabelled=st.integers(0, 3),
    cut_off=st.integers(0, 8),
    window=st.tuples(st.integers(90, 170), st.integers(90, 170)),
)
def test_runs_tell_of_every_byte_of_a_window_whose_it_is(
    lengths: list[tuple[int, int]], unlabelled: int, cut_off: int, window: tuple[int, int]
) -> None:
    """Also before the first run, in runs without a byte, and behind the end of the segment as it was listed."""
    owners, index = [NO_STREAM] * unlabelled, HEADER.pack(0, 0)
    for number, (length, label) in enumerate(lengths):
        index += RUN.pack(100 + len(owners), number << 8 | label)
        owners += [label if label != UNKNOWN_STREAM else NO_STREAM] * length
    owners = owners[: max(0, len(owners) - cut_off)]
    runs = Runs(Segment(100, 100 + len(owners)), index)
    inside = {100 + at: owner for at, owner in enumerate(owners) if window[0] <= 100 + at < window[1]}
    assert owned(runs.within(*window)) == inside
    assert list(runs.within(*window, newest_first=True)) == list(runs.within(*window))[::-1]
    for stream in (NO_STREAM, STDOUT, STDERR):
        mine = [offset for offset, owner in inside.items() if owner == stream]
        spans = list(runs.spans(stream, *window))
        assert [offset for span in spans for offset in range(*span)] == mine
        assert all(left[1] < right[0] for left, right in pairwise(spans))
        assert list(runs.spans(stream, *window, newest_first=True)) == spans[::-1]
        assert runs.size(stream, *window) == len(mine)
    labelled = [offset for span in runs.labelled(*window) for offset in range(*span)]
    assert labelled == [offset for offset, owner in inside.items() if owner != NO_STREAM]


def owned(runs: Iterable[Run]) -> dict[int, int]:
    return {offset: stream for left, right, stream, _ in runs for offset in range(left, right)}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two segments; in each LINES, of stdout and stderr in turn."""
    log = tmp_path_factory.mktemp("job") / "log"
    log.mkdir()
    for start in (0, LINES * len(LINE)):
        (log / segment_name(start)).write_bytes(LINE * LINES)
        runs = (RUN.pack(start + number * len(LINE), 1 << 40 | number % 2 + 1) for number in range(LINES))
        header = HEADER.pack(start // 2, start // 2)
        (log / (segment_name(start) + RUNS_SUFFIX)).write_bytes(header + b"".join(runs))
    return log.parent


READS: dict[str, Callable[[LogReader, Window], object]] = {
    "what is new": lambda log, new: whole(log, STDOUT, new, 32_000, is_running=True),
    "the last lines": lambda log, new: tail(log, STDERR, 50, 32_000, Window(0, new.end)),
    "the last lines of both": lambda log, new: interleaved_tail(
        log, 50, 2000, Window(0, new.end), is_running=True
    ),
    "the last piece": lambda log, new: next(log.backward(STDERR, 0, new.end)),
}


def cpu_s(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def walk(directory: Path) -> None:
    """Through all runs of the log."""
    log = LogReader(str(directory / "log"))
    for segment in log.segments(0, log.end):
        assert sum(1 for _ in log.runs(segment).within(0, log.end)) == LINES


@pytest.mark.parametrize("what", READS)
def test_a_read_of_the_end_costs_little_however_many_lines_came_before(directory: Path, what: str) -> None:
    def read() -> None:
        log = LogReader(str(directory / "log"))
        READS[what](log, Window(log.end - 100 * len(LINE), log.end))

    assert min(cpu_s(read) for _ in range(3)) < cpu_s(lambda: walk(directory)) / 3


def test_segments_are_merged_without_a_look_at_each_line(directory: Path) -> None:
    def merge() -> None:
        (directory / MERGED).unlink(missing_ok=True)
        assert log_file(str(directory), LogReader(str(directory / "log"))) == str(directory / MERGED)

    assert min(cpu_s(merge) for _ in range(3)) < cpu_s(lambda: walk(directory))
    assert (directory / MERGED).read_bytes() == LINE * 2 * LINES


def test_a_wait_that_is_not_for_output_does_not_read_it(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = jobs.execute("echo some; exec sleep 60 < /dev/null").id
    assert jobs.wait_for([job_id], pattern="some")[0].met
    reads: list[int] = []
    real = LogReader.backward

    def counted(log: LogReader, *window: Any) -> Iterator[Piece]:
        reads.append(1)
        return real(log, *window)

    monkeypatch.setattr(LogReader, "backward", counted)
    for conditions in (Conditions(), Conditions(silence_s=60)):
        Awaited(jobs.context, job_id, None, conditions).check(math.inf)
    assert reads == []
