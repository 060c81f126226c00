"""Jobs that wait in the queue: where each stands, moving one, taking one out."""

import contextlib
import os
from collections.abc import Mapping, Sequence

from bgjob.api.context import Context, ensure_dispatcher
from bgjob.api.results import Place
from bgjob.core import options
from bgjob.core.errors import InvalidArgument, NotSteerable
from bgjob.core.job import SHORT_ID_CHARACTERS, Job, Queued
from bgjob.home import event_log, queue_dir


def place_of(context: Context, job: Job) -> Place | None:
    """None: the job is not queued."""
    return places_of(context, [job]).get(job.id)


def places_of(context: Context, jobs: Sequence[Job]) -> Mapping[str, Place]:
    """By id, of those that are queued.

    A job that has just started may still be counted: to look at each of thousands would take too long.
    """
    queued = [job for job in jobs if isinstance(job.state, Queued) and job.remote is None]
    elsewhere = {
        job.id: Place(0, job.remote.reason or f"it waits for {job.remote.target}", 0)
        for job in jobs
        if isinstance(job.state, Queued) and job.remote
    }
    if not queued:
        return elsewhere
    ensure_dispatcher(context)
    waiting = context.store.waiting()
    numbers = {queue_dir.job_of(entry): number for number, entry in enumerate(waiting)}
    return elsewhere | {job.id: _place(context, job, waiting, numbers.get(job.id)) for job in queued}


def _place(context: Context, job: Job, waiting: Sequence[str], number: int | None) -> Place:
    return Place(
        position=1 if number is None else number + 1,
        reason=_reason(context, job),
        priority=0 if number is None else queue_dir.priority_of(waiting[number]),
    )


def _reason(context: Context, job: Job) -> str:
    match queue_dir.readiness(context.store.home, vars(job.spec)):
        case "pending", why:
            return f"it waits: {_with_names(context, job, why)}"
        case "impossible", why:
            return f"it will not start: {_with_names(context, job, why)}"
        case _:
            return f"it waits for a free slot{_of_group(job)}"


def _with_names(context: Context, job: Job, why: str) -> str:
    """Name the jobs that this one waits for: the shim and the dispatcher, whose words these are, know only ids."""
    for job_id in job.spec.queue.get("after", ()):
        if job_id in why and (name := context.store.spec(job_id).name):
            why = why.replace(job_id, f"{name} ({job_id[:SHORT_ID_CHARACTERS]})")
    return why


def _of_group(job: Job) -> str:
    return f" of group {job.spec.group}, or of all" if job.spec.group else ""


def prioritize(context: Context, job_id: str, priority: int) -> None:
    """Jobs with a higher priority start first; among equals, the older."""
    number = options.checked({"priority": priority})["priority"]
    if context.store.load(job_id).remote:
        raise InvalidArgument(
            f"Job {job_id} is in the queue of its target, which knows no priorities of ours."
        )
    if not move(context, job_id, number):
        raise InvalidArgument(f"Job {job_id} is not in the queue: it has started, or ended.")


def move(context: Context, job_id: str, priority: int) -> bool:
    """False: the job does not wait any more."""
    store = context.store
    while entry := _entry(context, job_id):
        if not queue_dir.is_startable(store.directory(job_id)):
            return False
        # another process has moved or started the job meanwhile
        with contextlib.suppress(FileNotFoundError):
            queue_dir.move(store.home, entry, priority)
            event_log.append(store.events, "moved", job_id, priority=priority)
            ensure_dispatcher(context)
            return True
    return False


def _entry(context: Context, job_id: str) -> str | None:
    return next((entry for entry in context.store.waiting() if queue_dir.job_of(entry) == job_id), None)


def cancel(context: Context, job_id: str) -> Job | None:
    """Takes the job out of the queue; None if it is not in it, or is being started."""
    store = context.store
    if not _end_unstarted(job_id, store.directory(job_id)):
        return None
    with contextlib.suppress(OSError):  # then the dispatcher finds that the job has ended
        if entry := queue_dir.find(store.home, job_id):
            queue_dir.leave(store.home, entry)
    job, why = store.load(job_id), "cancelled in the queue"
    event_log.append(store.events, "ended", job_id, name=job.spec.name, cause="killed", reason=why)
    if store.waiting():
        ensure_dispatcher(context)  # another job may wait for this end
    return job


def _end_unstarted(job_id: str, directory: str) -> bool:
    lock = queue_dir.hold(directory) if queue_dir.is_waiting(directory) else None
    if lock is None:
        return False
    try:
        if not queue_dir.is_startable(directory):
            return False
        queue_dir.end_unstarted(directory, cause="killed", exit_code=None, signal=None)
    except OSError as error:
        raise NotSteerable(job_id, f"its end could not be written down: {error}") from error
    finally:
        os.close(lock)
    return True
