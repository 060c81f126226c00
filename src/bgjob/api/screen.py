"""A job's terminal as a person would see it now. What it costs does not depend on the length of the log."""

from bgjob.api.context import Context
from bgjob.api.results import Output, Picture
from bgjob.api.snapshot import Snapshot
from bgjob.core.errors import InvalidArgument
from bgjob.core.job import Running
from bgjob.home.log_format import STDOUT
from bgjob.output.fitted import weight
from bgjob.output.log_reader import LogReader
from bgjob.terminal import full_screen
from bgjob.terminal.full_screen import is_full_screen

# (offset, rows, columns) of the terminal, from its first size on.
Sizes = list[tuple[int, int, int]]


def has_full_screen(context: Context, snapshot: Snapshot) -> bool:
    """Whether the screen tells more than the text: on the alternate screen, or after cursor addressing."""
    job = snapshot.job
    if not job.spec.pty:
        return False
    rows, is_running = context.store.terminal_sizes(job)[-1][1], isinstance(job.state, Running)
    return snapshot.read(
        lambda log: is_full_screen(_end_of(log, full_screen.WINDOW_BYTES)[0], rows, is_running)
    )


def screen_of(context: Context, snapshot: Snapshot, most_bytes: int) -> Output:
    job = snapshot.job
    if not job.spec.pty:
        raise InvalidArgument(
            f"Job {job.id} has no terminal, so it has no screen. Start it with pty=true for one."
        )
    sizes = context.store.terminal_sizes(job)
    return snapshot.read(lambda log: Output("", "", str(log.end), picture=_drawn(log, sizes, most_bytes)))


def _drawn(log: LogReader, sizes: Sizes, most_bytes: int) -> Picture:
    from bgjob.terminal import screen  # pyte takes its time to import

    drawn = screen.end_of_log(*_end_of(log, screen.WINDOW_BYTES), sizes)
    return Picture(
        _cut(drawn.lines, most_bytes - sum(map(weight, drawn.highlight))),
        drawn.cursor_row,
        drawn.cursor_column,
        drawn.title or None,
        drawn.highlight,
        drawn.exact,
    )


def _end_of(log: LogReader, most_bytes: int) -> tuple[bytes, int]:
    """The last part of the log, and where it begins."""
    start = max(0, log.end - most_bytes)
    return b"".join(piece.data for piece in log.forward(STDOUT, start, log.end)), start


def _cut(lines: list[str], most_bytes: int) -> str:
    """Of a screen that is too large for an answer, the rows at the top and at the bottom."""
    head, tail = _fitting(lines, most_bytes // 2), _fitting(lines[::-1], most_bytes // 2)
    left_out = len(lines) - head - tail
    if left_out <= 0:
        return "\n".join(lines)
    note = f"[bgjob: {left_out} rows left out here, as many as max_tokens has no room for]"
    return "\n".join([*lines[:head], note, *lines[len(lines) - tail :]])


def _fitting(lines: list[str], most_bytes: int) -> int:
    """How many of the first lines have room."""
    for count, line in enumerate(lines):
        most_bytes -= weight(line)
        if most_bytes < 0:
            return count
    return len(lines)
