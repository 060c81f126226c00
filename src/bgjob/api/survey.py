"""All jobs in the order in which they matter to a person: who waits for one, what runs, waits its turn, ended."""

from collections.abc import Container, Iterator, Sequence
from typing import Literal

from bgjob.api.context import Context, ensure_watcher
from bgjob.api.filter import Matches
from bgjob.api.processes import left_running
from bgjob.api.prompt import SHIM_PATIENCE_S
from bgjob.api.queue import places_of
from bgjob.api.results import JobStatus
from bgjob.api.snapshot import Snapshot
from bgjob.api.status import status_of
from bgjob.core.errors import JobNotFound
from bgjob.core.frozen import Frozen
from bgjob.core.job import Ended, Job, Queued, Running, StatusWord, status_word
from bgjob.home import queue_dir, target_dir
from bgjob.link.control import SOME, Patience

PhaseWord = Literal["waiting", "running", "paused", "restarting", "queued", "ended"]
STOPPED = ("stopped", "traced")


class Survey(Frozen):
    waiting: Sequence[JobStatus]
    """They sit at a prompt: the next step is a person's."""
    running: Sequence[JobStatus]
    """Also jobs that have ended and left processes running."""
    queued: Sequence[JobStatus]
    """In the order in which they are to start."""
    ended: Sequence[JobStatus]
    """The newest job first. What a look at their processes or output would tell is not in it."""
    more_queued: bool
    """There are more than were asked for."""
    more_ended: bool

    @property
    def more(self) -> bool:
        return self.more_queued or self.more_ended

    def __iter__(self) -> Iterator[JobStatus]:
        yield from (*self.waiting, *self.running, *self.queued, *self.ended)


def survey(
    context: Context, wanted: Matches | None = None, status: StatusWord | None = None, most: int | None = None
) -> Survey:
    """`most`: of the queued jobs and of the ended ones; all that run are told, with CPU, memory and ports."""
    context.starts.finish_all()
    ensure_watcher(context)
    fits = wanted or (lambda _job: True)
    queue = list(map(queue_dir.job_of, context.store.waiting()))
    queued, more_queued = list[Job](), False
    if status in (None, "queued"):
        queued, more_queued = _first_queued(context, queue, fits, most)
        elsewhere = _queued_elsewhere(context, fits)
        more_queued = more_queued or (most is not None and len(queued) + len(elsewhere) > most)
        queued = [*queued, *elsewhere][:most]
    others = _Others(context, fits, status, most)
    if status != "queued":
        others.look({job.id for job in queued}, set(queue))
    places = places_of(context, queued)
    told = [JobStatus(job, 0, 0, place=places.get(job.id)) for job in queued]
    return Survey(others.waiting, others.running, told, others.ended, more_queued, others.more)


def phase_word(status: JobStatus) -> PhaseWord:
    """How the job stands, finer than its status: `paused` is a job whose processes are all stopped."""
    if not isinstance(status.job.state, Running):
        return "ended"
    if isinstance(status.job.state, Queued):
        return "queued"
    if status.history and status.history.pauses:
        return "restarting"
    tree = status.activity.tree if status.activity else None
    if tree and all(process.state in STOPPED for process in tree):
        return "paused"
    return "waiting" if status.waits_for_input else "running"


def ended_status(job: Job) -> JobStatus:
    """Of a job that has ended and left nothing running, by its records alone."""
    return JobStatus(job, job.state.output_bytes if isinstance(job.state, Ended) else 0, 0)


def cpu_share(status: JobStatus) -> float | None:
    """Of one processor, on average since the job was started; None: not running, or the kernel does not tell."""
    cpu_s = status.activity.cpu_s if status.activity else None
    return cpu_s / status.ran_s if cpu_s is not None and status.ran_s else None


def _first_queued(
    context: Context, queue: Sequence[str], fits: Matches, most: int | None
) -> tuple[list[Job], bool]:
    """As many of them, and whether there are more."""
    found: list[Job] = []
    for job_id in queue:
        job = _load(context, job_id)
        if job is None or not isinstance(job.state, Queued) or not fits(job):
            continue
        if len(found) == most:
            return found, True
        found.append(job)
    return found, False


def _queued_elsewhere(context: Context, fits: Matches) -> list[Job]:
    """Those that wait in the queue of a target, the oldest first."""
    home = context.store.home
    ids = [job_id for target in target_dir.names(home) for job_id in target_dir.registered(home, target)]
    jobs = [job for job_id in ids if (job := _load(context, job_id)) and isinstance(job.state, Queued)]
    return sorted(filter(fits, jobs), key=lambda job: job.spec.created_at)


def _load(context: Context, job_id: str) -> Job | None:
    """None: it was cleaned up meanwhile."""
    try:
        return context.store.load(job_id)
    except JobNotFound:
        return None


class _Others:
    """Jobs that do not wait in the queue. Of the ended ones no more are read than are told: there may be thousands."""

    def __init__(self, context: Context, fits: Matches, status: StatusWord | None, most: int | None) -> None:
        self._context, self._fits, self._status, self._most = context, fits, status, most
        self._patience = Patience(SHIM_PATIENCE_S, SOME)
        self.waiting: list[JobStatus] = []
        self.running: list[JobStatus] = []
        self.ended: list[JobStatus] = []
        self.more = False

    def look(self, told: Container[str], queue: Container[str]) -> None:
        for _, job_id in self._context.store.ids():
            if job_id not in told and self._may_count(job_id, is_queued=job_id in queue):
                job = _load(self._context, job_id)
                if job and self._fits(job):
                    self._add(job)

    def _may_count(self, job_id: str, *, is_queued: bool) -> bool:
        """Without reading the job. One that has just been started may still be in the queue."""
        store = self._context.store
        if is_queued:
            return store.has_shim(job_id)
        return store.may_run(job_id) or not (self.more or self._status == "running")

    def _add(self, job: Job) -> None:
        if isinstance(job.state, Queued):
            return  # those were told before
        if isinstance(job.state, Running) or left_running(self._context, job):
            if self._status in (None, "running", status_word(job.state)):
                self._add_running(job)
        elif self._status in (None, status_word(job.state)):
            self._add_ended(job)

    def _add_running(self, job: Job) -> None:
        try:
            snapshot = Snapshot(self._context, job.id)
            status = status_of(self._context, snapshot, detail=True, deadline=self._patience.until())
        except JobNotFound:
            return  # it has ended and was cleaned up meanwhile
        if isinstance(status.job.state, Running) or status.left_running:
            (self.waiting if phase_word(status) == "waiting" else self.running).append(status)
        else:
            self._add(status.job)

    def _add_ended(self, job: Job) -> None:
        self.more = self.more or len(self.ended) == self._most
        if not self.more:
            self.ended.append(ended_status(job))
