"""Adds missing ends to the log of events.

A job whose shim and guard were killed writes no event at its end, nor does a job of a release without events.
A reader of the log checks the jobs whose end is not in it, and appends the missing events. Each process reads
the log once, and then only what is new.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence

from bgjob.core.errors import JobNotFound
from bgjob.core.job import Ended, Running, end_details
from bgjob.core.values import DAY_S
from bgjob.home import event_log
from bgjob.home.event_log import Cursor
from bgjob.home.layout import is_directory
from bgjob.home.locks import try_lock
from bgjob.home.mtimes import mtime
from bgjob.store import event_reader
from bgjob.store.store import Store

OPENING = frozenset({"queued", "started", "restarting"})
# In the directory of events: of several processes that find a missing end, one appends it.
LOCK = "lock"
TRIES, TRY_AGAIN_S = 20, 0.005
# A call checks at least so many jobs, and more while it takes no longer.
LOOKED_AT, LOOK_S = 100, 0.01
# An end that is older, and has no event, gets none.
FORGOTTEN_S = DAY_S


class Reconciler:
    def __init__(self, store: Store) -> None:
        self._store, self._mutex = store, threading.RLock()
        self._place, self._newest_job = Cursor(0, 0), ""
        # Jobs with an event of their beginning and none of their end; jobs with neither.
        self._open: dict[str, None] = {}
        self._untold: dict[str, None] = {}
        self._log_begins_at = 0.0

    def reconcile(self, first: Sequence[str] = ()) -> None:
        """Append the missing ends: of these jobs first. Of very many others some, the rest in later calls."""
        with self._mutex:
            self._catch_up()
            self._log_begins_at = _begins_at(self._store.events)
            over = self._over(self._open, first) + self._over(self._untold, first)
            if over:
                self._append_ends(over)

    def _catch_up(self) -> None:
        ended: set[str] = set()
        for heads, place in event_reader.heads(self._store.events, self._place):
            for kind, job_id in heads:
                if kind == "ended":
                    self._forget(job_id)
                    ended.add(job_id)
                elif kind in OPENING:
                    self._untold.pop(job_id, None)
                    self._open[job_id] = None
            self._place = place
        self._look_for_others(ended)

    def _look_for_others(self, ended: set[str]) -> None:
        """Jobs that were made since the last call and have no event, newest first."""
        seen = self._newest_job
        for place, job_id in self._store.ids():
            if place <= seen:
                break
            self._newest_job = max(self._newest_job, place)
            if job_id not in ended and job_id not in self._open:
                self._untold[job_id] = None

    def _forget(self, job_id: str) -> None:
        self._open.pop(job_id, None)
        self._untold.pop(job_id, None)

    def _over(self, jobs: dict[str, None], first: Sequence[str]) -> list[str]:
        """The jobs that have ended. Those that were checked come last the next time."""
        over, began, most = [], time.monotonic(), max(LOOKED_AT, len(first))
        for count, job_id in enumerate(dict.fromkeys([*filter(jobs.__contains__, first), *jobs])):
            if count >= most and time.monotonic() > began + LOOK_S:
                break
            is_over = self._is_over(job_id)
            del jobs[job_id]
            if not is_over or jobs is self._open or self._may_be_missing(job_id):
                jobs[job_id] = None
                over += [job_id] * is_over
        return over

    def _may_be_missing(self, job_id: str) -> bool:
        """For a job without events: its end may have been in a part of the log that was deleted."""
        changed_at = mtime(self._store.directory(job_id))
        return changed_at >= max(self._log_begins_at, time.time() - FORGOTTEN_S)

    def _is_over(self, job_id: str) -> bool:
        """The job has ended, and its shim, which would write the event, has left."""
        try:
            return not isinstance(self._store.load(job_id).state, Running) and not self._store.has_shim(
                job_id
            )
        except JobNotFound:
            return True

    def _append_ends(self, over: list[str]) -> None:
        if not is_directory(self._store.events):
            return  # there is no log
        with _alone(f"{self._store.events}/{LOCK}"):
            self._catch_up()  # another process may have appended it
            for job_id in over:
                if job_id in self._open or job_id in self._untold:
                    event_log.append(self._store.events, "ended", job_id, **self._end(job_id))
            self._catch_up()

    def _end(self, job_id: str) -> dict[str, object]:
        try:
            job = self._store.load(job_id)
        except JobNotFound:
            return {"cause": "lost", "reason": "its records are gone"}
        state = job.state
        details: dict[str, object] = {"name": job.spec.name, **end_details(state)}
        if isinstance(state, Ended):
            details |= {
                "at": round(state.ended_at, 3),
                "duration_s": round(state.duration_s, 3),
                "output_bytes": state.output_bytes,
            }
        return {word: value for word, value in details.items() if value is not None}


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    """Also without the lock, if its holder is stopped: an event twice is better than none."""
    with contextlib.ExitStack() as undo:
        with contextlib.suppress(OSError):
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            undo.callback(os.close, lock)
            try_lock(lock, TRIES, TRY_AGAIN_S)
        yield


def _begins_at(events: str) -> float:
    """Events after this time are in the log: when its oldest segment was full."""
    first = event_log.beginning(events).segment
    return mtime(f"{events}/{first}") if first > 1 else 0.0
