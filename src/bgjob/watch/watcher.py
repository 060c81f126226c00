"""The watcher of a store: a process that evaluates watches, runs commands for events and tells people of them.

    keeper ── watcher        one pair per store, from the first job that needs it until the last such job is over

The watcher holds nothing that a job needs. While a job prints faster than the watcher reads, the watcher
rests twelve times as long as it works, so that the job is not slowed down. The log of an ended job is read
without rest. A low priority measured worse, see docs/decisions/0016-events.md.

What the watcher has seen is on disk. After a kill at any point it goes on from there, restarted by its keeper
or by the next server. An event may then be in the log twice, and none is missing.
"""

import contextlib
import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from bgjob.core.errors import InvalidArgument, JobNotFound, StoreUnusable
from bgjob.core.job import JOB_ID, Event, Job, Queued, Running
from bgjob.home import event_log, home_dir, jobdir, watch_registry
from bgjob.home.locks import try_lock
from bgjob.home.mtimes import mtime
from bgjob.output.log_reader import LogReader
from bgjob.output.log_segments import Rotated
from bgjob.output.log_watch import LogWatch
from bgjob.store.index import ABANDONED_S
from bgjob.store.reconcile import Reconciler
from bgjob.store.records import read_watch_state
from bgjob.store.store import Store
from bgjob.system import keeper, processes
from bgjob.system.inotify import Inotify
from bgjob.watch.hooks import HookRunner
from bgjob.watch.notifier import Notifier

LONGEST_PAUSE_S = 30.0
# The log of a job that prints without pause is read so often, and each time at most for so long.
REST_S, TURN_S = 0.05, 0.05
# While a running job is ahead of us: so many times the work before the rest.
REST_TIMES_WORK = 12.0
RECONCILE_EVERY_S = 1.0
SAVE_EVERY_S = 1.0
QUIET_S = 0.3
LOCK_TRIES = 500
# The home that was found safe: the working directory of keeper and watcher, even if its path changes.
HERE = os.curdir


def main(home: str) -> None:
    """The keeper: forks the watcher, and forks it again if it is killed."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.setsid()  # on most systems our starter has done it
    if not home_dir.enter(home):
        return
    processes.set_process_name("bgjob-watch")
    # Several tries: a process that checks for a watcher holds the lock for a moment.
    lock = watch_registry.take_lock(HERE, LOCK_TRIES)
    if lock is not None:
        keeper.keep(lambda: _watch(lock), lambda: bool(home_dir.working_place()), LONGEST_PAUSE_S)


def _watch(lock: int) -> None:
    try:
        Watcher(Store(home_dir.working_place() or HERE), lock).run()
    except BaseException:
        _leave_traceback()
        raise


def _leave_traceback() -> None:
    """In the home, our working directory."""
    import traceback

    with contextlib.suppress(OSError), open("watcher-error.txt", "w") as file:
        traceback.print_exc(file=file)


def sweep(store: Store, deadline: float) -> None:
    """Evaluate all watches once, by a process that reads events while there is no watcher."""
    if not watch_registry.registered(store.home) or (lock := watch_registry.take_lock(store.home)) is None:
        return
    try:
        for job_id in watch_registry.registered(store.home):
            if (job := WatchedJob.of(store, job_id)) and time.monotonic() < deadline:
                job.look(lambda: time.monotonic() >= deadline)
                job.save()
    finally:
        os.close(lock)


class Watcher:
    def __init__(self, store: Store, lock: int) -> None:
        self._store, self._lock = store, lock
        self._jobs: dict[str, WatchedJob] = {}
        self._reconciler, self._reconciled_at = Reconciler(store), -RECONCILE_EVERY_S
        self._runners = (HookRunner(store), Notifier(store))
        self._inotify = Inotify()
        self._inotify.watch(store.events)

    def run(self) -> None:
        while self._has_work():
            self._store.check_home_exists()  # if not: the keeper finds out where the home is now
            # CPU time: a busy machine does not make us rest longer.
            began = time.process_time()
            is_behind = self._turn()
            worked_s = time.process_time() - began
            if not is_behind:
                self._sleep()
            time.sleep(self._rest_s(is_behind, worked_s))

    def _rest_s(self, is_behind: bool, worked_s: float) -> float:
        if any(job.is_behind and not job.has_ended for job in self._jobs.values()):
            return max(REST_S, REST_TIMES_WORK * worked_s)
        return 0.0 if is_behind else REST_S

    def _has_work(self) -> bool:
        """The lock is freed before the last look: a server that adds a job later can start a watcher."""
        if watch_registry.registered(HERE):
            return True
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        # Not locked again: another watcher has begun.
        return bool(watch_registry.registered(HERE)) and try_lock(self._lock)

    def _turn(self) -> bool:
        """True: there is more to read."""
        over = [job_id for job_id in watch_registry.registered(HERE) if self._is_over(job_id)]
        self._reconcile(over)
        with contextlib.suppress(StoreUnusable, OSError):
            # Both, in each turn: neither waits for the other.
            are_done = [runner.advance() for runner in self._runners]
            if all(are_done):  # all events were handed over
                for job_id in over:
                    self._remove(job_id)
        return any(job.is_behind for job in self._jobs.values())

    def _reconcile(self, over: Sequence[str]) -> None:
        """At once if a job is over: its end must be in the log before the job is removed."""
        if over or time.monotonic() >= self._reconciled_at + RECONCILE_EVERY_S:
            with contextlib.suppress(StoreUnusable, OSError):
                self._reconciler.reconcile(over)
            self._reconciled_at = time.monotonic()

    def _is_over(self, job_id: str) -> bool:
        """Evaluate its watches; True if no more output will come."""
        job = self._jobs.get(job_id) or WatchedJob.of(self._store, job_id)
        if job is None:
            return _is_abandoned(f"{HERE}/{watch_registry.WATCHES}/{job_id}")
        self._jobs[job_id] = job
        began = time.monotonic()
        job.look(lambda: time.monotonic() >= began + TURN_S)
        if not self._inotify.watch(job.log_directory):
            self._inotify.watch(job.directory)
        return job.is_over

    def _remove(self, job_id: str) -> None:
        if job := self._jobs.pop(job_id, None):
            job.save()
            self._inotify.forget(job.log_directory)
            self._inotify.forget(job.directory)
        watch_registry.remove(HERE, job_id)

    def _sleep(self) -> None:
        descriptors = [fd for runner in self._runners for fd in runner.descriptors]
        self._inotify.wait(min(runner.seconds_left() for runner in self._runners), descriptors)


class WatchedJob:
    """The watches of one job."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store, self._job = store, job
        self.directory = store.directory(job.id)
        self.log_directory = store.log_directory(job.id)
        self._path = f"{self.directory}/{jobdir.WATCH}"
        state = read_watch_state(self.directory)
        self.is_over = self.has_ended = bool(state.get("is_over"))
        self._watch = LogWatch(job.spec.watch, state)
        self._end, self._changed_at = -1, 0.0
        self._saved, self._saved_at = state, 0.0

    @classmethod
    def of(cls, store: Store, job_id: str) -> "WatchedJob | None":
        """None: there is no such job, or not yet; or one of its watches is no valid pattern."""
        if not JOB_ID.fullmatch(job_id):
            return None
        with contextlib.suppress(JobNotFound, InvalidArgument):
            return cls(store, store.load(job_id))
        return None

    @property
    def is_behind(self) -> bool:
        return bool(self._job.spec.watch) and self._watch.is_behind and not self.is_over

    def look(self, out_of_time: Callable[[], bool]) -> None:
        with contextlib.suppress(Rotated, StoreUnusable, OSError):
            self._look(out_of_time)

    def _look(self, out_of_time: Callable[[], bool]) -> None:
        if self.is_over:
            return
        # Before its log is read: the log of an ended job is complete.
        self.has_ended = self._has_ended()
        has_told = False
        if self._job.spec.watch:
            has_told = self._scan(out_of_time)
        if self.has_ended and not self.is_behind:
            has_told |= self._tell(self._watch.finish)
            self.is_over = True
        if has_told or self.is_over or time.monotonic() >= self._saved_at + SAVE_EVERY_S:
            self.save()

    def _scan(self, out_of_time: Callable[[], bool]) -> bool:
        log, now = LogReader(self.log_directory), time.monotonic()
        has_told = self._tell(lambda: self._watch.scan(log, out_of_time))
        if log.end != self._end:
            self._end, self._changed_at = log.end, now
        elif now >= self._changed_at + QUIET_S:
            has_told |= self._tell(self._watch.match_unfinished)
        return self._tell(self._watch.left_out_events) or has_told

    def _tell(self, events: Callable[[], Iterator[Event]]) -> bool:
        told = False
        for event in events():
            kind = event.pop("kind")
            event_log.append(self._store.events, kind, self._job.id, name=self._job.spec.name, **event)
            told = True
        return told

    def save(self) -> None:
        state = {"format": jobdir.FORMAT_VERSION, **self._watch.state, "is_over": self.is_over}
        self._saved_at = time.monotonic()
        if state != self._saved and os.path.isdir(self.directory):
            with contextlib.suppress(OSError):
                jobdir.write_record(self._path, state)
                self._saved = state

    def _has_ended(self) -> bool:
        try:
            state = self._store.load(self._job.id).state
            return not isinstance(state, Running | Queued) and not self._store.has_shim(self._job.id)
        except JobNotFound:
            return True


def _is_abandoned(path: str) -> bool:
    """An old entry without a job: its starter was killed before it had made the job."""
    made_at = mtime(path)
    return made_at > 0 and abs(time.time() - made_at) > ABANDONED_S


if __name__ == "__main__":
    main(sys.argv[1])
