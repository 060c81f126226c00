"""What a job shows a person who looks over its shoulder: its screen, or the last lines that it printed."""

from bgjob.api.context import Context
from bgjob.api.screen import has_full_screen, screen_of
from bgjob.api.snapshot import Snapshot
from bgjob.core.frozen import Frozen
from bgjob.core.job import Running
from bgjob.output.cleaner import clean
from bgjob.output.log_reader import LogReader
from bgjob.output.text import unfinished_bytes

# A line is seldom longer, and no more than this is read at once.
BYTES_PER_LINE, LEAST_BYTES, MOST_BYTES = 200, 1 << 16, 1 << 22
SCREEN_BYTES = 1 << 20

# How much was printed, whether the job runs, and the sizes of its terminal: if all are the same, so is a preview.
Mark = tuple[int, bool, int]


class Preview(Frozen):
    job_id: str
    asked: int = 0
    """For so many lines."""
    lines: tuple[str, ...] = ()
    """As a terminal would show them, but not yet safe to be shown on one: see output.tty_text."""
    is_screen: bool = False
    """The lines are the screen of its terminal, from the first row on."""
    has_more: bool = False
    """It printed more before these lines."""
    problem: str | None = None
    """Why there are no lines."""


def mark_of(context: Context, snapshot: Snapshot) -> Mark:
    job = snapshot.job
    sizes = len(context.store.terminal_sizes(job)) if job.spec.pty else 0
    return snapshot.read(lambda log: log.end), isinstance(job.state, Running), sizes


def preview(context: Context, snapshot: Snapshot, lines: int) -> Preview:
    """StoreUnusable: its output cannot be read."""
    job_id = snapshot.job.id
    if has_full_screen(context, snapshot):
        picture = screen_of(context, snapshot, SCREEN_BYTES).picture
        return Preview(job_id, lines, tuple(picture.text.split("\n")) if picture else (), is_screen=True)
    return snapshot.read(lambda log: _last_lines(log, job_id, lines))


def _last_lines(log: LogReader, job_id: str, count: int) -> Preview:
    start = max(0, log.end - min(MOST_BYTES, max(LEAST_BYTES, count * BYTES_PER_LINE)))
    data = b"".join(piece.data for piece in log.unparted(start, log.end))
    text = clean(data[: len(data) - unfinished_bytes(data)].decode("utf-8", "replace"))
    lines = text.removesuffix("\n").split("\n") if text else []
    whole = lines[1:] if start and len(lines) > 1 else lines
    return Preview(job_id, count, tuple(whole[-count:]), has_more=start > 0 or len(whole) > count)
