"""What has happened, and what must have happened: a job whose shim and guard were killed tells nobody of its end.

Nor does one that a release started which knew no events. Whoever reads the log of events looks after the jobs whose
end is not in it, and tells the ends that nobody told. The log is read once by each process, and then only what is new.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence

from bgjob.core.errors import JobNotFound
from bgjob.core.job import Ended, Running, cause_word, exit_code, limit_word, reason, signal_number
from bgjob.core.values import DAY_S
from bgjob.home import event_log
from bgjob.home.event_log import Cursor
from bgjob.home.layout import is_directory
from bgjob.home.locks import try_lock
from bgjob.home.mtimes import mtime
from bgjob.store import event_reader
from bgjob.store.store import Store

OPENING = frozenset({"queued", "started", "restarting"})
LOCK = "lock"  # in the directory of events: of several that find an end untold, one tells it
TRIES, TRY_AGAIN_S = 20, 0.005
LOOKED_AT, LOOK_S = 100, 0.01  # of many jobs so many at least, and more while it takes no longer
# An end that is older, and has no event, gets none.
FORGOTTEN_S = DAY_S


class Reconciler:
    def __init__(self, store: Store) -> None:
        self._store, self._mutex = store, threading.RLock()
        self._place, self._newest_job = Cursor(0, 0), ""
        self._open: dict[str, None] = {}  # they began, and their end is not told
        self._untold: dict[str, None] = {}  # no event speaks of their beginning or end
        self._log_begins_at = 0.0

    def reconcile(self, first: Sequence[str] = ()) -> None:
        """Every job that has ended is told to have: these first, and of very many others some, the rest by and by."""
        with self._mutex:
            self._catch_up()
            self._log_begins_at = _begins_at(self._store.events)
            over = self._over(self._open, first) + self._over(self._untold, first)
            if over:
                self._tell(over)

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
        """Jobs that were made since the last look and that no event speaks of, newest first."""
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
        """Those that have ended. What was looked at comes last the next time."""
        over, began, most = [], time.monotonic(), max(LOOKED_AT, len(first))
        for count, job_id in enumerate(dict.fromkeys([*filter(jobs.__contains__, first), *jobs])):
            if count >= most and time.monotonic() > began + LOOK_S:
                break
            is_over = self._is_over(job_id)
            del jobs[job_id]
            if not is_over or jobs is self._open or self._is_worth_telling(job_id):
                jobs[job_id] = None
                over += [job_id] * is_over
        return over

    def _is_worth_telling(self, job_id: str) -> bool:
        """Of a job that no event speaks of: it may have been told, and the log keeps only so much."""
        changed_at = mtime(self._store.directory(job_id))
        return changed_at >= max(self._log_begins_at, time.time() - FORGOTTEN_S)

    def _is_over(self, job_id: str) -> bool:
        """And nobody is left who would tell it."""
        try:
            return not isinstance(self._store.load(job_id).state, Running) and not self._store.has_shim(
                job_id
            )
        except JobNotFound:
            return True

    def _tell(self, over: list[str]) -> None:
        if not is_directory(self._store.events):
            return  # there is no log to tell it in
        with _alone(f"{self._store.events}/{LOCK}"):
            self._catch_up()  # somebody may have told it
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
        details: dict[str, object] = {
            "name": job.spec.name,
            "cause": cause_word(state),
            "exit_code": exit_code(state),
            "signal": signal_number(state),
            "limit": limit_word(state),
            "reason": reason(state),
        }
        if isinstance(state, Ended):
            details |= {
                "at": round(state.ended_at, 3),
                "duration_s": round(state.duration_s, 3),
                "output_bytes": state.output_bytes,
            }
        return {word: value for word, value in details.items() if value is not None}


@contextlib.contextmanager
def _alone(path: str) -> Iterator[None]:
    """Whoever holds the lock may have been stopped, and there may be none: told twice is better than never."""
    with contextlib.ExitStack() as undo:
        with contextlib.suppress(OSError):
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
            undo.callback(os.close, lock)
            try_lock(lock, TRIES, TRY_AGAIN_S)
        yield


def _begins_at(events: str) -> float:
    """What happened after this is in the log, if somebody told it: when its oldest segment was full."""
    first = event_log.beginning(events).segment
    return mtime(f"{events}/{first}") if first > 1 else 0.0
