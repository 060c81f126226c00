"""How the command line tells of an end: in a word, in a sentence, as an exit code."""

import pytest

from bgjob.cli.outcome import end, last_words, result
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
from tests.support.stores import new_spec

ENDED = (0.0, 1.25, 0, 0)


@pytest.mark.parametrize(
    ("state", "word", "sentence", "code"),
    [
        (Exited(*ENDED, code=0), "exit 0", "completed: exit 0 after 1.2 s", 0),
        (Exited(*ENDED, code=3), "exit 3", "failed: exit 3 after 1.2 s", 3),
        (Signaled(*ENDED, signal=9), "SIGKILL", "killed: SIGKILL after 1.2 s", 137),
        (Killed(*ENDED, code=0, signal=None), "exit 0", "killed: exit 0 after 1.2 s", 1),
        (Killed(*ENDED, code=None, signal=15), "SIGTERM", "killed: SIGTERM after 1.2 s", 143),
        (Killed(*ENDED, code=None, signal=None), "killed", "killed: killed after 1.2 s", 1),
        (TimedOut(*ENDED, code=0, signal=None), "exit 0", "killed: exit 0 after 1.2 s, its time was up", 1),
        (OverLimit(*ENDED, limit="memory", code=None, signal=9), "memory", "killed: memory after 1.2 s", 137),
        (
            NeverStarted(*ENDED, reason="no\x1b[2J such shell"),
            "never_started",
            "failed: never_started after 1.2 s: no^[[2J such shell",
            1,
        ),
        (Lost("nobody saw its end"), "lost", "failed: lost: nobody saw its end", 1),
    ],
)
def test_each_end(state: State, word: str, sentence: str, code: int) -> None:
    job = Job(new_spec(), state, None)
    assert (end(state), last_words(job), result(state)) == (word, sentence, code)


@pytest.mark.parametrize("state", [Running(None), Queued(None)])
def test_what_has_not_ended_has_no_word_for_it(state: State) -> None:
    assert end(state) == "-"
