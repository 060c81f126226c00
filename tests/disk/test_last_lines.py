"""Where the last lines of a log begin: each stream's lines whole, both streams counted together."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output.last_lines import begin_of_last_lines
from bgjob.output.log_reader import LogReader
from tests.support.logs import PipedLog

BOTH = (STDOUT, STDERR)


def written(directory: Path, pieces: Sequence[bytes]) -> LogReader:
    """The pieces are of stdout and of stderr by turns."""
    contents = {STDOUT: b"".join(pieces[::2]), STDERR: b"".join(pieces[1::2])}
    with PipedLog(directory, 1 << 20, contents=contents) as log:
        for number, piece in enumerate(pieces):
            log.print(BOTH[number % 2], len(piece))
            log.take(BOTH[number % 2])
        return log.reader()


@pytest.mark.parametrize(
    ("printed", "lines", "begins"),
    [
        (b"a\nb\nc\n", 2, (2, 6)),
        (b"a\nb\nc", 2, (2, 5)),
        (b"a\nb\nc", 9, (0, 5)),
        (b"a\nb\nc", 0, (5, 5)),
        (b"\n\n\n", 2, (1, 3)),
    ],
)
def test_of_one_stream(tmp_path: Path, printed: bytes, lines: int, begins: tuple[int, int]) -> None:
    found = begin_of_last_lines(written(tmp_path, [printed]), lines, BOTH, 0)
    assert (found[STDOUT], found[STDERR]) == begins


def test_of_nothing(tmp_path: Path) -> None:
    assert begin_of_last_lines(LogReader(str(tmp_path)), 3, BOTH, 0) == {STDOUT: 0, STDERR: 0}


def test_a_line_that_the_other_stream_cuts_is_whole(tmp_path: Path) -> None:
    log = written(tmp_path, [b"one", b"err\n", b"two\nthree\n"])
    assert begin_of_last_lines(log, 1, BOTH, 0) == {STDOUT: 11, STDERR: log.end}
    assert begin_of_last_lines(log, 2, BOTH, 0) == {STDOUT: 11, STDERR: 3}
    assert begin_of_last_lines(log, 3, BOTH, 0) == {STDOUT: 0, STDERR: 3}
    assert begin_of_last_lines(log, 2, (STDOUT,), 0) == {STDOUT: 0}
    assert begin_of_last_lines(log, 9, BOTH, 7) == {STDOUT: 7, STDERR: log.end}


def test_a_line_may_begin_where_the_other_stream_has_ended_its_own(tmp_path: Path) -> None:
    log = written(tmp_path, [b"a\n", b"err\n", b"b\n", b"err\n", b"c\n"])
    assert begin_of_last_lines(log, 3, BOTH, 0) == {STDOUT: 6, STDERR: 8}
    assert begin_of_last_lines(log, 2, (STDOUT,), 0) == {STDOUT: 6}
