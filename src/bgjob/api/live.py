"""All jobs as they stand now, looked at again and again: the model of a live view.

An ended job never changes: it is read once, and a look costs no more than what runs. The first jobs are known
at once, the rest is read bit by bit.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Literal

from bgjob.api.activity import Activity, activity
from bgjob.api.context import Context
from bgjob.api.meter import Meter
from bgjob.api.processes import left_running, processes_of
from bgjob.api.prompt import SHIM_PATIENCE_S
from bgjob.api.queue import places_of
from bgjob.api.results import Hold
from bgjob.api.snapshot import Snapshot
from bgjob.api.status import status_of
from bgjob.api.survey import PhaseWord, phase_word
from bgjob.core.errors import JobNotFound, StoreUnusable
from bgjob.core.frozen import Frozen, replace
from bgjob.core.job import Ended, Job, Queued, Running
from bgjob.link.control import SOME, Patience
from bgjob.store.job_names import JobNames

Group = Literal["asking", "running", "queued", "ended"]
"""asking: it sits at a prompt. A job that has ended and left processes running counts as running."""

# To ask why a job is queued wakes the dispatcher, which then looks at the whole queue.
REASONS_EVERY_S = 5.0


class Row(Frozen):
    """One job, as it was at the last look."""

    job: Job
    group: Group = "ended"
    prompt: str | None = None
    reason: str | None = None
    """Why it is still queued."""
    cpu_percent: float | None = None
    """Of one processor; None: it is not known, or not yet."""
    memory_bytes: int | None = None
    ports: tuple[int, ...] = ()
    left_running: int = 0
    """How many processes an ended job has left."""
    cpu_history: tuple[float, ...] = ()
    """Oldest first."""
    memory_history: tuple[float, ...] = ()
    phase: PhaseWord = "ended"
    held: Hold | None = None
    """By a person who is attached and types."""
    output_bytes: int = 0
    restarts: int = 0


class Live(Frozen):
    """All jobs that are known at one moment, in no order."""

    current: tuple[Row, ...] = ()
    """Those that are not over."""
    ended: tuple[Row, ...] = ()
    """The same object until a job ends or is removed."""
    is_complete: bool = False
    """False: there are older jobs, which are not read yet."""
    problem: str | None = None
    """Why the last look failed; what is told here was before it."""
    looked_at: float = 0.0
    """When those that are not over were looked at last, all of them; in seconds since the epoch."""


class LiveJobs:
    """For one thread."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._names = JobNames(context.store.jobs_directory)
        self._unread: Iterator[tuple[str, str]] | None = None
        self._is_all_read = self._is_complete = False
        self._meters: dict[str, Meter] = {}
        """Of the jobs that are not over."""
        self._current: dict[str, Row] = {}
        self._ended: dict[str, Row] = {}
        self._ended_rows: tuple[Row, ...] | None = ()
        self._reasons: dict[str, str] = {}
        self._reasons_at = -REASONS_EVERY_S
        self._looked_at = 0.0
        self._patience = Patience(0.0)

    def snapshot(self, problem: str | None = None) -> Live:
        if self._ended_rows is None:
            self._ended_rows = tuple(self._ended.values())
        return Live(
            tuple(self._current.values()), self._ended_rows, self._is_complete, problem, self._looked_at
        )

    def read_more(self, until: float) -> bool:
        """Reads jobs that are not known yet, newest first, until a time of the monotonic clock.

        False: all are known.
        """
        if self._is_all_read:
            return False
        self._patience = Patience(SHIM_PATIENCE_S, SOME)
        try:
            self._unread = self._unread or self._context.store.ids()
            for _, job_id in self._unread:
                self._read(job_id)
                if time.monotonic() >= until:
                    return True
        except StoreUnusable:
            self._unread = None  # from the newest again: those that are known cost nothing
            raise
        self._unread, self._is_all_read, self._is_complete = None, True, True
        return False

    def look(self) -> None:
        """At the jobs that are not over, and for removed ones. New ones are for read_more."""
        self._context.store.check_home_exists()
        if self._names.have_changed():
            self._is_all_read = False
            for job_id in (self._meters.keys() | self._ended.keys()) - self._names.names:
                self._forget(job_id)
        self._ask_for_reasons()
        self._patience = Patience(SHIM_PATIENCE_S, len(self._meters))
        for job_id in list(self._meters):
            self._look_at(job_id)
        self._looked_at = time.time()

    def look_at(self, job_ids: Iterable[str]) -> None:
        """At these alone, to which something has just happened. New ones are read."""
        self._patience = Patience(SHIM_PATIENCE_S, SOME)
        for job_id in job_ids:
            if job_id in self._meters:
                self._look_at(job_id)
            else:
                self._read(job_id)

    def _read(self, job_id: str) -> None:
        if job_id in self._meters or job_id in self._ended:
            return
        try:
            job = self._context.store.load(job_id)
        except JobNotFound:  # it was removed meanwhile, or is not visible yet
            return
        self._names.note(job_id)
        if isinstance(job.state, Running) or left_running(self._context, job):
            self._meters[job_id] = Meter()
            self._look_at(job_id)
        else:
            self._end(job)

    def _look_at(self, job_id: str) -> None:
        try:
            snapshot = Snapshot(self._context, job_id)
            match snapshot.job.state:
                case Queued():
                    row = Row(snapshot.job, "queued", reason=self._reasons.get(job_id), phase="queued")
                case Running():
                    row = self._running(snapshot)
                case _:
                    self._look_at_ended(snapshot.job)
                    return
        except JobNotFound:
            self._forget(job_id)
        else:
            self._current[job_id] = row

    def _running(self, snapshot: Snapshot) -> Row:
        status = status_of(self._context, snapshot, detail=True, deadline=self._patience.until())
        row = Row(
            status.job,
            "asking" if status.waits_for_input else "running",
            status.prompt,
            phase=phase_word(status),
            held=status.held,
            output_bytes=status.output_bytes,
            restarts=status.history.restarts if status.history else 0,
        )
        return self._measured(row, status.activity)

    def _look_at_ended(self, job: Job) -> None:
        if left := left_running(self._context, job):
            row = replace(self._ended_row(job), group="running", left_running=left)
            self._current[job.id] = self._measured(row, activity(processes_of(self._context, job)))
        else:
            self._end(job)

    def _measured(self, row: Row, used: Activity | None) -> Row:
        if used is None:
            return row
        meter = self._meters[row.job.id]
        meter.add(used, time.monotonic())
        return replace(
            row,
            cpu_percent=meter.cpu_percent,
            memory_bytes=meter.memory_bytes,
            ports=tuple(sorted({held.port for held in used.listening or ()})),
            cpu_history=tuple(meter.cpu_history),
            memory_history=tuple(meter.memory_history),
        )

    def _ask_for_reasons(self) -> None:
        queued = [row.job for row in self._current.values() if row.group == "queued"]
        is_new = any(job.id not in self._reasons for job in queued)
        if queued and (is_new or time.monotonic() >= self._reasons_at + REASONS_EVERY_S):
            places = places_of(self._context, queued)
            self._reasons = {job_id: place.reason for job_id, place in places.items()}
            self._reasons_at = time.monotonic()

    def _end(self, job: Job) -> None:
        self._forget(job.id)
        self._ended[job.id] = self._ended_row(job)

    def _ended_row(self, job: Job) -> Row:
        printed, history = job.state, self._context.store.history(job)
        return Row(
            job,
            output_bytes=printed.output_bytes if isinstance(printed, Ended) else 0,
            restarts=history.restarts if history else 0,
        )

    def _forget(self, job_id: str) -> None:
        self._meters.pop(job_id, None)
        self._current.pop(job_id, None)
        self._ended.pop(job_id, None)
        self._ended_rows = None
