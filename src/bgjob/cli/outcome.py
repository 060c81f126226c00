"""How a job stands or ended: in a word, in a sentence, as an exit code."""

from collections.abc import Callable

from bgjob.cli import streams
from bgjob.core.errors import BgjobError
from bgjob.core.job import (
    Ended,
    Exited,
    Job,
    Killed,
    Lost,
    NeverStarted,
    OverLimit,
    Running,
    Signaled,
    State,
    TimedOut,
    cause_word,
    end_details,
    exit_code,
    reason,
    signal_number,
    status_word,
)
from bgjob.core.values import duration_words
from bgjob.home.jobdir import how_ended
from bgjob.output.tty_text import one_line
from bgjob.system.processes import signal_name

TIMED_OUT, OWN_FAILURE, BY_SIGNAL = 124, 125, 128
CODES = """\
Exit code: that of the job; 124 it timed out, 128 + n signal n ended it, 125 it was lost or could not be started,
or bgjob itself failed; 130 ctrl-c."""
ENDS = {"killed": "killed", "timed_out": "timeout", "never_started": "not started"}


def end(state: State) -> str:
    """Its cause in a word: exit 3, SIGKILL, killed, timeout, memory, not started, lost."""
    match state:
        case Running():
            return "-"
        case Lost():
            return "lost"
        case OverLimit(limit=limit):
            return limit
        case Exited(code=code):
            return f"exit {code}"
        case Signaled(signal=number):
            return signal_name(number)
        case ended:
            return ENDS[str(cause_word(ended))]


def last_words(job: Job) -> str:
    """How the job ended, in a sentence that follows its name."""
    how, why = how_ended(end_details(job.state)), reason(job.state)
    if why:
        return f"{how}: {one_line(why)}"
    return f"{how} after {job.state.duration_s:.1f} s" if isinstance(job.state, Ended) else how


def end_line(job: Job) -> str:
    """How the job ended, below its output: exit 2 after 1.0 s."""
    state, why = job.state, reason(job.state)
    after = f" after {duration_words(state.duration_s)}" if isinstance(state, Ended) else ""
    because = f": {one_line(why)}" if why else ""
    match state:
        case Exited(code=code):
            return f"exit {code}{after}{because}"
        case Signaled(signal=number):
            return f"{signal_name(number)}{after}{because}"
        case Killed():
            return f"killed{after}{because}"
        case TimedOut():
            return f"timed out{after}{because}"
        case OverLimit(limit=limit):
            return f"went over its {limit} limit{after}{because}"
        case NeverStarted():
            return f"did not start{because}"
        case Lost():
            return f"lost{because}"
        case _:
            return status_word(state)


def result(state: State) -> int:
    """As `timeout` and a shell have it for a command that ended so; never 0 for one that did not complete."""
    if status_word(state) == "completed":
        return 0
    match state:
        case TimedOut():
            return TIMED_OUT
        case Lost() | NeverStarted():
            return OWN_FAILURE
        case _:
            number = signal_number(state)
            return exit_code(state) or (BY_SIGNAL + number if number else 1)


def as_own_failure(act: Callable[[], int]) -> int:
    """What `act` returns. For commands that exit as their job did: an error of ours is no exit code of a job."""
    try:
        return act()
    except BgjobError as error:
        from bgjob.cli.words import in_our_words

        streams.complain(in_our_words(error))
        return OWN_FAILURE
