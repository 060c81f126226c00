"""How the command line tells of an end: in a word, in a sentence, as an exit code."""

import pytest

from bgjob.cli.outcome import end, end_line, last_words, result
from bgjob.core.job import (
    Exited,
    Job,
    Killed,
    Lost,
    NeverStarted,
    OverLimit,
    Queued,
    Running,
    Signaled,
    State,
    TimedOut,
)
from bgjob.core.values import duration_words
from tests.support.stores import new_spec

ENDED = (0.0, 1.25, 0, 0)
MEMORY = OverLimit(*ENDED, limit="memory", code=None, signal=9)
GONE = NeverStarted(*ENDED, reason="no\x1b[2J such shell")


@pytest.mark.parametrize(
    ("state", "word", "sentence", "line", "code"),
    [
        (Exited(*ENDED, code=0), "exit 0", "completed after 1.2 s", "exit 0 after 1.2 s", 0),
        (Exited(*ENDED, code=3), "exit 3", "failed with exit code 3 after 1.2 s", "exit 3 after 1.2 s", 3),
        (
            Signaled(*ENDED, signal=9),
            "SIGKILL",
            "was killed by SIGKILL after 1.2 s",
            "SIGKILL after 1.2 s",
            137,
        ),
        (Killed(*ENDED, code=0, signal=None), "killed", "was killed after 1.2 s", "killed after 1.2 s", 1),
        (
            Killed(*ENDED, code=None, signal=15),
            "killed",
            "was killed after 1.2 s",
            "killed after 1.2 s",
            143,
        ),
        (Killed(*ENDED, code=None, signal=None), "killed", "was killed after 1.2 s", "killed after 1.2 s", 1),
        (
            TimedOut(*ENDED, code=0, signal=None),
            "timeout",
            "timed out after 1.2 s",
            "timed out after 1.2 s",
            124,
        ),
        (
            MEMORY,
            "memory",
            "went over its memory limit after 1.2 s",
            "went over its memory limit after 1.2 s",
            137,
        ),
        (
            OverLimit(*ENDED, limit="cpu", code=1, signal=None),
            "cpu",
            "went over its cpu limit after 1.2 s",
            "went over its cpu limit after 1.2 s",
            1,
        ),
        (
            GONE,
            "not started",
            "did not start: no^[[2J such shell",
            "did not start: no^[[2J such shell",
            125,
        ),
        (Lost("nobody saw its end"), "lost", "was lost: nobody saw its end", "lost: nobody saw its end", 125),
    ],
)
def test_each_end(state: State, word: str, sentence: str, line: str, code: int) -> None:
    job = Job(new_spec(), state, None)
    assert (end(state), last_words(job), end_line(job), result(state)) == (word, sentence, line, code)


@pytest.mark.parametrize("state", [Running(None), Queued(None)])
def test_what_has_not_ended_has_no_word_for_it(state: State) -> None:
    assert end(state) == "-"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (61.0, "1 min 1 s"), (7500.0, "2 h 5 min")]
)
def test_a_duration_has_its_two_largest_units(seconds: float, shown: str) -> None:
    assert duration_words(seconds) == shown
