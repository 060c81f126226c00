"""What a list of jobs says of each: its columns, from what the api knows of a job."""

import os
import time
from collections.abc import Callable, Iterator, Sequence

from bgjob.api.activity import Listening
from bgjob.api.filter import started_by
from bgjob.api.results import JobStatus
from bgjob.api.survey import cpu_share, phase_word
from bgjob.cli.amounts import age, duration, size
from bgjob.cli.colours import Paint, plain
from bgjob.cli.outcome import end
from bgjob.cli.table import Column, Row, fitted, piped
from bgjob.core.job import SHORT_ID_CHARACTERS, Ended, Job, Queued, reason, status_word
from bgjob.output.tty_text import cut, one_line

Cell = Callable[[JobStatus, float], str]
Columns = Sequence[tuple[Column, Cell]]

STYLES = {
    "waiting": "bold yellow",
    "running": "green",
    "paused": "magenta",
    "restarting": "yellow",
    "queued": "cyan",
}
ENDED_STYLES = {"completed": "dim"}
FAILED_STYLE = "red"
NOTE_STYLES = {"waiting": "yellow"}
TARGET = "TARGET"
"""A column that only a list with a job of a target has."""
MOST_COMMAND = 150  # where no terminal says how much fits


def standing(status: JobStatus) -> str:
    """In a word or two: how it runs, or how it ended."""
    phase = phase_word(status)
    if phase != "ended":
        return phase
    return end(status.job.state) + (f", {status.left_running} left" if status.left_running else "")


def standing_style(status: JobStatus) -> str:
    word = status_word(status.job.state)
    return STYLES.get(phase_word(status)) or ENDED_STYLES.get(word, FAILED_STYLE)


def time_s(status: JobStatus, now: float) -> float | None:
    """How long it has run, or waited in the queue; None: not known."""
    state = status.job.state
    if isinstance(state, Queued):
        return now - status.job.spec.created_at
    return state.duration_s if isinstance(state, Ended) else status.ran_s


def ports(listening: Sequence[Listening] | None) -> str:
    return ",".join(map(str, sorted({each.port for each in listening or ()})))


def unreachable(job: Job) -> str:
    """Since when and why its machine does not answer; empty: it does, or the job is of this machine."""
    remote = job.remote
    if remote is None or remote.unreachable_since is None:
        return ""
    since = time.strftime("%F %R", time.localtime(remote.unreachable_since))
    return one_line(f"{remote.target} is unreachable since {since}: {remote.unreachable}")


def note(status: JobStatus) -> str:
    """Return its question, why it waits or why it ended; or that its machine does not answer."""
    if gone := unreachable(status.job):
        return gone
    if phase_word(status) == "waiting":
        return asks(status)
    return one_line((status.place.reason if status.place else reason(status.job.state)) or "")


def asks(status: JobStatus) -> str:
    """The job sits at a prompt: that, or where to see it."""
    if prompt := one_line(" ".join((status.prompt or "").split())):
        return f"asks: {prompt}"
    return "waits for input" + (": bgjob attach shows its screen" if status.job.spec.pty else "")


def _time(status: JobStatus, now: float) -> str:
    seconds = time_s(status, now)
    return "" if seconds is None else duration(seconds)


def _ended(status: JobStatus, now: float) -> str:
    state = status.job.state
    return f"{age(now - state.ended_at)} ago" if isinstance(state, Ended) else ""


def _cpu(status: JobStatus, _now: float) -> str:
    share = cpu_share(status)
    return "" if share is None else f"{share:.0%}"


def _memory(status: JobStatus, _now: float) -> str:
    count = status.activity.memory_bytes if status.activity else None
    return "" if count is None else size(count)


def _ports(status: JobStatus, _now: float) -> str:
    return ports(status.activity.listening) if status.activity else ""


def _command(status: JobStatus, _now: float) -> str:
    return one_line(" ".join(status.job.spec.command.split()))


def _cwd(status: JobStatus, _now: float) -> str:
    return one_line(status.job.spec.cwd)


def _cwd_from_home(status: JobStatus, _now: float) -> str:
    path, home = status.job.spec.cwd, os.path.expanduser("~").rstrip("/")
    return one_line(f"~{path[len(home) :]}" if home and f"{path}/".startswith(f"{home}/") else path)


# in the order in which they are shown
_BEFORE: Columns = [
    (Column("ID", 0), lambda status, _: status.job.id[:SHORT_ID_CHARACTERS]),
    (Column("STATUS", 0), lambda status, _: standing(status)),
    (
        Column("NAME", 0, least=12, readable=16, most=24),
        lambda status, _: one_line(status.job.spec.name or ""),
    ),
    (Column(TARGET, 3, least=6, most=16), lambda status, _: status.job.spec.target or ""),
    (Column("TIME", 2, is_right=True), _time),
    (Column("ENDED", 4, is_right=True), _ended),
    (Column("CPU", 5, is_right=True), _cpu),
    (Column("MEM", 6, is_right=True), _memory),
    (Column("PORTS", 3, least=5, most=12), _ports),
    (Column("BY", 8, least=8, most=20), lambda status, _: one_line(started_by(status.job))),
]
ON_A_TERMINAL: Columns = [
    *_BEFORE,
    (Column("CWD", 7, least=10, most=30, is_path=True), _cwd_from_home),
    (Column("COMMAND", 1, least=12, readable=24, most=40), _command),
]
IN_A_PIPE: Columns = [
    *_BEFORE,
    (Column("CWD", 0), _cwd),
    (Column("NOTE", 0), lambda status, _: note(status)),
    (Column("COMMAND", 0), lambda status, now: cut(_command(status, now), MOST_COMMAND)),
]


def lines(
    statuses: Sequence[JobStatus],
    now: float,
    room: int | None,
    paint: Paint = plain,
    *,
    titled: bool = True,
    below: Callable[[JobStatus], Sequence[str]] | None = None,
) -> Iterator[str]:
    """A table of them. room: of the terminal; None: there is none, and names are whole.

    below: what is told under each; by default what it asks, or why it waits.
    """
    columns, below = IN_A_PIPE if room is None else ON_A_TERMINAL, below or _note_below
    if not any(status.job.spec.target for status in statuses):
        columns = [each for each in columns if each[0].title != TARGET]
    rows = [_row(columns, status, now, below(status)) for status in statuses]
    heads = [column for column, _ in columns]
    yield from piped(heads, rows, paint) if room is None else fitted(heads, rows, room, paint, titled=titled)


def _note_below(status: JobStatus) -> list[str]:
    return list(filter(None, [note(status)]))


def _row(columns: Columns, status: JobStatus, now: float, below: Sequence[str]) -> Row:
    styles = [standing_style(status) if column.title == "STATUS" else "" for column, _ in columns]
    cells = [cell(status, now) for _, cell in columns]
    return Row(cells, styles, below, NOTE_STYLES.get(phase_word(status), "dim"))
