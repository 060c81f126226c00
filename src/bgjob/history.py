"""What has happened, and what must have happened: a job whose shim and guard were killed tells nobody of its end.

Whoever reads the log of events looks after the jobs that are open in it, and tells the ends that nobody told. The
log is read once by each process, and then only what is new.
"""

import os
import threading

from bgjob import event_log
from bgjob.errors import JobNotFound
from bgjob.event_log import Cursor
from bgjob.job import (
    Ended,
    Event,
    Running,
    cause_word,
    exit_code,
    limit_word,
    reason,
    signal_number,
)
from bgjob.locks import try_lock
from bgjob.store import Store

OPENING = frozenset({"queued", "started", "restarting"})
LOCK = "lock"  # in the directory of events: of several that find an end untold, one tells it
TRIES, TRY_AGAIN_S = 20, 0.005


class History:
    def __init__(self, store: Store) -> None:
        self._store, self._mutex = store, threading.RLock()
        self._place = Cursor(0, 0)
        self._open: set[str] | None = None
        self.known: set[str] = set()
        """Ids of all jobs that the log speaks of."""

    def catch_up(self) -> None:
        with self._mutex:
            is_first = self._open is None
            found = set() if self._open is None else self._open
            for event, place in event_log.read(self._store.events, self._place):
                self._note(event, found)
                self._place = place
            self._open = found | self._untold() if is_first else found

    def reconcile(self) -> None:
        """Every job that has ended is told to have."""
        with self._mutex:
            self.catch_up()
            over = [job_id for job_id in self._open or () if self._is_over(job_id)]
            if over:
                self._tell(over)

    def _note(self, event: Event, found: set[str]) -> None:
        job_id = event["job_id"]
        self.known.add(job_id)
        if event["kind"] in OPENING:
            found.add(job_id)
        elif event["kind"] == "ended":
            found.discard(job_id)

    def _untold(self) -> set[str]:
        """Jobs that run, whether somebody said so or not."""
        return {job.id for _, job in self._store.jobs() if isinstance(job.state, Running)} - self.known

    def _is_over(self, job_id: str) -> bool:
        """And nobody is left who would tell it."""
        try:
            return not isinstance(self._store.load(job_id).state, Running) and not self._store.has_shim(
                job_id
            )
        except JobNotFound:
            return True

    def _tell(self, over: list[str]) -> None:
        lock = os.open(f"{self._store.events}/{LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # whoever holds it may have been stopped: an end told twice is better than one never told
            try_lock(lock, TRIES, TRY_AGAIN_S)
            self.catch_up()  # somebody may have told it
            for job_id in over:
                if job_id in (self._open or ()):
                    event_log.append(self._store.events, "ended", job_id, **self._end(job_id))
            self.catch_up()
        finally:
            os.close(lock)

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
            details |= {"duration_s": round(state.duration_s, 3), "output_bytes": state.output_bytes}
        return {word: value for word, value in details.items() if value is not None}
