"""Where the last lines of a log begin: each stream's lines whole, both streams counted together."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import Jobs, JobStatus
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output.last_lines import begin_of_last_lines
from tests.support.waiting import wait_until

Ended = Callable[[str], JobStatus]
BOTH = (STDOUT, STDERR)


@pytest.mark.parametrize(
    ("command", "lines", "begins"),
    [
        (r"printf 'a\nb\nc\n'", 2, (2, 6)),
        (r"printf 'a\nb\nc'", 2, (2, 5)),
        (r"printf 'a\nb\nc'", 9, (0, 5)),
        (r"printf 'a\nb\nc'", 0, (5, 5)),
        (r"printf '\n\n\n'", 2, (1, 3)),
        ("true", 3, (0, 0)),
    ],
)
def test_of_one_stream(jobs: Jobs, ended: Ended, command: str, lines: int, begins: tuple[int, int]) -> None:
    job = jobs.execute(command)
    ended(job.id)
    found = begin_of_last_lines(jobs.log(job.id), lines, BOTH, 0)
    assert (found[STDOUT], found[STDERR]) == begins


def test_a_line_that_the_other_stream_cuts_is_whole(jobs: Jobs, ended: Ended, tmp_path: Path) -> None:
    """Pieces of both streams alternate: each is in the log before the next is printed."""
    os.mkfifo(tmp_path / "go")
    seen = f"read _ < {tmp_path}/go"
    job = jobs.execute(f"printf one; {seen}; printf 'err\n' >&2; {seen}; printf 'two\nthree\n'")
    for size in (3, 7):
        wait_until(lambda size=size: jobs.log(job.id).end >= size)  # type: ignore[misc]
        (tmp_path / "go").write_text("\n")
    ended(job.id)
    log = jobs.log(job.id)
    assert begin_of_last_lines(log, 1, BOTH, 0) == {STDOUT: 11, STDERR: log.end}
    assert begin_of_last_lines(log, 2, BOTH, 0) == {STDOUT: 11, STDERR: 3}
    assert begin_of_last_lines(log, 3, BOTH, 0) == {STDOUT: 0, STDERR: 3}
    assert begin_of_last_lines(log, 2, (STDOUT,), 0) == {STDOUT: 0}
    assert begin_of_last_lines(log, 9, BOTH, 7) == {STDOUT: 7, STDERR: log.end}
