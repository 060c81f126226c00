"""What a person has not seen yet: the jobs that ended since they last looked, in whatever terminal that was."""

import contextlib
import time
from collections.abc import Sequence

from bgjob.api.context import Context
from bgjob.api.events import job_events
from bgjob.api.results import EventPage, JobStatus
from bgjob.api.survey import ended_status
from bgjob.core.errors import InvalidArgument, JobNotFound
from bgjob.core.frozen import Frozen
from bgjob.core.job import Running
from bgjob.home.jobdir import read_record, write_record
from bgjob.home.layout import LOOKED

FIRST_LOOK_JOBS = 5
MOST_TOKENS = 20_000


class Unseen(Frozen):
    ended: Sequence[JobStatus]
    """The newest end first; of a first look the newest few. Without those that were removed since."""
    looked_at: float | None
    """When the person last looked; None: never."""
    cursor: str
    """Of the events that were read: note_look has it for the next time."""
    more: bool
    """More jobs have ended than are told."""


def unseen(context: Context) -> Unseen:
    """Leaves it unseen: see note_look."""
    record = read_record(_path(context)) or {}
    looked_at, cursor = record.get("at"), record.get("cursor")
    if not isinstance(looked_at, int | float) or not isinstance(cursor, str):
        looked_at = cursor = None
    page = _ends(context, cursor)
    jobs = [status for event in reversed(page.events) if (status := _ended(context, event.job_id))]
    told = {status.job.id: status for status in jobs}  # a restarted watcher may tell an end twice
    return Unseen(list(told.values()), looked_at, page.cursor, page.more or page.gone_bytes > 0)


def note_look(context: Context, seen: Unseen) -> None:
    """What was told is seen. A home that cannot be written tells it again."""
    with contextlib.suppress(OSError):
        write_record(_path(context), {"format": 1, "at": round(time.time(), 3), "cursor": seen.cursor})


def _path(context: Context) -> str:
    return f"{context.store.home}/{LOOKED}"


def _ends(context: Context, cursor: str | None) -> EventPage:
    with contextlib.suppress(InvalidArgument):  # a cursor that is none any more
        if cursor:
            return job_events(context, cursor, kinds={"ended"}, max_tokens=MOST_TOKENS)
    return job_events(context, kinds={"ended"}, max_tokens=MOST_TOKENS, newest=FIRST_LOOK_JOBS)


def _ended(context: Context, job_id: str) -> JobStatus | None:
    """None: it was removed."""
    try:
        job = context.store.load(job_id)
    except JobNotFound:
        return None
    return None if isinstance(job.state, Running) else ended_status(job)
