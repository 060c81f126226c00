"""How a job stands or ended: in a word, in a sentence, as an exit code."""

from bgjob.core.job import (
    Ended,
    Exited,
    Job,
    Lost,
    OverLimit,
    Running,
    Signaled,
    State,
    cause_word,
    end_details,
    exit_code,
    reason,
    signal_number,
    status_word,
)
from bgjob.home.jobdir import how_ended
from bgjob.output.tty_text import one_line
from bgjob.system.processes import signal_name

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
    """How the job ended, below its output."""
    how, why = how_ended(end_details(job.state)), reason(job.state)
    if why:
        return f"{how}: {one_line(why)}"
    return f"{how} after {job.state.duration_s:.1f} s" if isinstance(job.state, Ended) else how


def result(state: State) -> int:
    """As a shell has it for a command that ended so; never 0 for one that did not complete."""
    if status_word(state) == "completed":
        return 0
    number = signal_number(state)
    return exit_code(state) or (128 + number if number else 1)
