"""Removing ended jobs with their output, at once or by their age.

A job is removed only when nothing can write into it any more: it has ended, its shim has left, and none of its
processes is alive. It is moved away in one step, so that readers see all of it or nothing.
"""

import os
import time
from collections.abc import Collection, Iterable, Iterator

from bgjob.api.context import Context
from bgjob.api.hints import unrecorded_end
from bgjob.api.kill import kill_job
from bgjob.api.processes import left_running
from bgjob.api.snapshot import END_PATIENCE_S, Snapshot
from bgjob.core.errors import BgjobError, CannotRemove, InUse
from bgjob.core.frozen import Frozen
from bgjob.core.job import Job, Queued, Running
from bgjob.store import retention
from bgjob.store.quota import size_on_disk

# A shim takes at most this long to leave after the end of its job.
LEAVING_S, LOOK_AGAIN_S = 1.0, 0.005


class Removed(Frozen):
    job: Job
    freed_bytes: int
    """On disk; of a job that is not removed yet, what would be freed."""


def remove_job(context: Context, job_id: str, *, kill: bool = False) -> Removed:
    """CannotRemove: it runs, unless `kill` ends it first; or a queued job is to run after it."""
    store = context.store
    job = store.load(job_id)
    _check_is_not_waited_for(job_id, store.waited_for())
    if kill and (isinstance(job.state, Running) or left_running(context, job)):
        kill_job(context, job_id)
    job = _ended(context, job_id)
    place = next((place for place, entered in store.ids() if entered == job_id), "")
    return _remove(context, place, job)


def remove_jobs(context: Context, job_ids: Iterable[str]) -> Iterator[tuple[str, Removed | BgjobError]]:
    """Each in its turn, or why it is not removed: those that have ended."""
    store = context.store
    places, wanted = {job_id: place for place, job_id in store.ids()}, store.waited_for()
    for job_id in job_ids:
        try:
            store.load(job_id)
            _check_is_not_waited_for(job_id, wanted)
            yield job_id, _remove(context, places.get(job_id, ""), _ended(context, job_id))
        except BgjobError as problem:
            yield job_id, problem


def _check_is_not_waited_for(job_id: str, wanted: Collection[str]) -> None:
    if job_id in wanted:
        raise CannotRemove(job_id, "a job in the queue is to run after it")


def _ended(context: Context, job_id: str) -> Job:
    """Once its shim has left: that takes a moment after the end of the job."""
    store, deadline = context.store, time.monotonic() + LEAVING_S
    while True:
        job = store.load(job_id)
        if isinstance(job.state, Running):
            _check_end_is_recorded(context, job_id)
        if why := _in_use(context, job):
            raise InUse(job_id, why)
        if not store.has_shim(job_id):
            return job
        if time.monotonic() > deadline:
            raise InUse(job_id, "its shim has not left yet")
        time.sleep(LOOK_AGAIN_S)


def _check_end_is_recorded(context: Context, job_id: str) -> None:
    """CannotRemove: the job has ended, but its shim cannot write that down, because the home is read-only."""
    snapshot = Snapshot(context, job_id)
    if snapshot.find_unrecorded_end(time.monotonic() + END_PATIENCE_S):
        why = f"it {unrecorded_end(snapshot.job.state)}"
        raise CannotRemove(job_id, why, f"Make {context.store.home} writable, then retry.")


def _in_use(context: Context, job: Job) -> str | None:
    if isinstance(job.state, Running):
        return "it waits in the queue" if isinstance(job.state, Queued) else "it runs"
    left = left_running(context, job)
    return f"it has left processes running, {left}" if left else None


def _remove(context: Context, place: str, job: Job) -> Removed:
    directory = context.store.directory(job.id)
    freed_bytes = size_on_disk(directory)
    context.store.remove(place, job.id)
    if os.path.isdir(directory):
        raise CannotRemove(job.id, "its directory cannot be moved away", f"See {directory}.")
    return Removed(job, freed_bytes)


# -- many -------------------------------------------------------------------------------------------


def removable(
    context: Context, *, older_than_s: float | None = None, every: bool = False
) -> Iterator[tuple[str, Removed]]:
    """(place, job with its size): what `clean` removes, newest first.

    Those that are kept no longer by the settings and by what their starters promised; or all that ended longer
    ago; or with `every` all that have ended.
    """
    for place, job in _old(context, 0.0 if every else older_than_s):
        if not left_running(context, job):
            yield place, Removed(job, size_on_disk(context.store.directory(job.id)))


def clean(context: Context, old: Iterable[tuple[str, Removed]]) -> Iterator[Removed | CannotRemove]:
    """Removes what `removable` found, each job in its turn."""
    wanted = context.store.waited_for()
    for place, found in old:
        try:
            _check_is_not_waited_for(found.job.id, wanted)
            yield _remove(context, place, found.job)
        except CannotRemove as problem:
            yield problem


def _old(context: Context, older_than_s: float | None) -> Iterator[tuple[str, Job]]:
    store, settings = context.store, context.settings
    if older_than_s is None:
        yield from retention.surplus(store, settings.keep_jobs, settings.keep_days)
        return
    wanted, oldest = store.waited_for(), time.time() - older_than_s
    for place, job_id in store.ids():
        job = None if job_id in wanted else store.ended(job_id)
        if job and (older_than_s == 0 or retention.last_seen(store, job) < oldest):
            yield place, job
