"""bgjob alone, in a terminal: who waits for you, what runs, what has ended since you last looked."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from bgjob.api.context import open_context
from bgjob.api.last_look import Unseen, note_look, unseen
from bgjob.api.results import JobStatus
from bgjob.api.survey import Survey, survey
from bgjob.cli import streams
from bgjob.cli.amounts import age
from bgjob.cli.colours import Paint, painter
from bgjob.cli.columns import asks, lines
from bgjob.core.job import SHORT_ID_CHARACTERS

MOST_RUNNING, MOST_QUEUED, MOST_ENDED = 15, 5, 10
NO_JOBS = "No jobs yet. bgjob run -- COMMAND starts one."
NEXT = "Next: bgjob logs ID, bgjob attach ID, bgjob ps, bgjob --help"


def show(environ: Mapping[str, str]) -> int:
    context = open_context(environ, many=False)
    now, new = survey(context, most=MOST_QUEUED), unseen(context)
    for line in _Overview(now, new, painter(sys.stdout, environ)).lines():
        streams.say(line)
    note_look(context, new)
    return 0


class _Overview:
    def __init__(self, now: Survey, new: Unseen, paint: Paint) -> None:
        self._jobs, self._new, self._paint = now, new, paint
        self._room = streams.columns() or 80

    def lines(self) -> Iterator[str]:
        if not any(True for _ in self._jobs):
            yield NO_JOBS
            return
        yield from self._section("Waiting for you", self._jobs.waiting, None, below=_answer)
        yield from self._section("Running", self._jobs.running, MOST_RUNNING)
        yield from self._section("Queued", self._jobs.queued, MOST_QUEUED, more=self._jobs.more_queued)
        ended = [status for status in self._new.ended if status.job.id not in self._running_ids()]
        yield from self._section(self._ended_title(), ended, MOST_ENDED, more=self._new.more)
        if not (self._jobs.waiting or self._jobs.running or self._jobs.queued):
            yield from self._nothing(has_ended=bool(ended))
        yield self._paint(NEXT, "dim")

    def _running_ids(self) -> set[str]:
        """Also those that have ended and left processes running."""
        return {status.job.id for status in self._jobs.running}

    def _section(
        self,
        title: str,
        jobs: Sequence[JobStatus],
        most: int | None,
        *,
        more: bool = False,
        below: Callable[[JobStatus], Sequence[str]] | None = None,
    ) -> Iterator[str]:
        if not jobs:
            return
        yield self._paint(title, "bold")
        is_titled = jobs is self._jobs.running
        yield from lines(jobs[:most], time.time(), self._room, self._paint, titled=is_titled, below=below)
        if more or (most is not None and len(jobs) > most):
            yield "and more: bgjob ps --all"
        yield ""

    def _ended_title(self) -> str:
        looked_at = self._new.looked_at
        if looked_at is None:
            return "Ended last"
        return f"Ended since you last looked, {age(time.time() - looked_at)} ago"

    def _nothing(self, *, has_ended: bool) -> Iterator[str]:
        if has_ended or self._new.looked_at is None:
            yield "Nothing runs."
        else:
            ago = age(time.time() - self._new.looked_at)
            yield f"Nothing runs, and nothing ended since you last looked, {ago} ago."


def _answer(status: JobStatus) -> list[str]:
    short = status.job.id[:SHORT_ID_CHARACTERS]
    return [asks(status), f"bgjob attach {short}, bgjob send {short} TEXT"]
