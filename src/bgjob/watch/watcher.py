"""The process that keeps the lookout of a store: watches of running jobs, and commands for events.

    keeper ── watcher        one pair per store, from the first job that wants it until the last is over

It holds nothing that a job needs. While a job prints faster than it reads, it rests twelve times as long as it works,
so that the job is not held up; what has ended it reads without rest. A low priority measured worse, see
docs/decisions/0016-events.md.

What it has seen is on disk; killed at any point it goes on from there, under its keeper or when somebody comes by who
starts another. Events may be told twice then, and none is left out.
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
from bgjob.system import processes
from bgjob.system.inotify import Inotify
from bgjob.watch.hooks import HookRunner

AGAIN_S, LONGEST_AGAIN_S = 0.1, 30.0
BREATHER_S = 0.05  # a job that prints without pause is looked at so often
TURN_S = 0.05  # and keeps others waiting for so long
REST = 12.0  # times the work before it, while there is somebody to hold up
RECONCILE_EVERY_S = 1.0
SAVE_EVERY_S = 1.0
QUIET_S = 0.3
LOCK_TRIES = 500
HERE = os.curdir  # the home that was found safe: keeper and watcher work in it, whatever its path leads to


def main(home: str) -> None:
    """The keeper: forks the watcher again if it is killed."""
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        os.setsid()  # it is done already where the system can
    if not home_dir.enter(home):
        return
    processes.set_process_name("bgjob-watch")
    lock = watch_registry.take_lock(HERE, LOCK_TRIES)  # somebody may just look whether it is free
    again_s = AGAIN_S
    while lock is not None and (place := home_dir.working_place()):
        began = time.monotonic()
        if _is_finished(place, lock):
            return
        again_s = AGAIN_S if time.monotonic() - began > LONGEST_AGAIN_S else min(again_s * 2, LONGEST_AGAIN_S)
        time.sleep(again_s)


def _is_finished(home: str, lock: int) -> bool:
    """False: the watcher was killed, or failed."""
    watcher = os.fork()
    if watcher == 0:
        status = 1
        try:
            Watcher(Store(home), lock).run()
            status = 0
        finally:
            if status:
                _leave_traceback()
            os._exit(status)
    return os.waitpid(watcher, 0)[1] == 0


def _leave_traceback() -> None:
    """In the home: we work there."""
    import traceback

    with contextlib.suppress(OSError), open("watcher-error.txt", "w") as file:
        traceback.print_exc(file=file)


def sweep(store: Store, deadline: float) -> None:
    """All watches, once, by whoever wants to know and finds nobody on the lookout."""
    if not watch_registry.registered(store.home) or (lock := watch_registry.take_lock(store.home)) is None:
        return
    try:
        for job_id in watch_registry.registered(store.home):
            if (post := WatchedJob.of(store, job_id)) and time.monotonic() < deadline:
                post.look(lambda: time.monotonic() >= deadline)
                post.save()
    finally:
        os.close(lock)


class Watcher:
    def __init__(self, store: Store, lock: int) -> None:
        self._store, self._lock = store, lock
        self._posts: dict[str, WatchedJob] = {}
        self._history, self._reconciled_at = Reconciler(store), -RECONCILE_EVERY_S
        self._courier = HookRunner(store)
        self._notices = Inotify()
        self._notices.watch(store.events)

    def run(self) -> None:
        while self._has_work():
            self._store.check_there()  # else our keeper finds out where it is now
            began = time.process_time()  # by our own work: a busy machine does not make us rest longer
            is_behind = self._turn()
            worked_s = time.process_time() - began
            if not is_behind:
                self._sleep()
            time.sleep(self._rest_s(is_behind, worked_s))

    def _rest_s(self, is_behind: bool, worked_s: float) -> float:
        if any(post.is_behind and not post.has_ended for post in self._posts.values()):
            return max(BREATHER_S, REST * worked_s)
        return 0.0 if is_behind else BREATHER_S

    def _has_work(self) -> bool:
        """Let go of the lock before the last look: whoever enters a job after that finds it free."""
        if watch_registry.registered(HERE):
            return True
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        return bool(watch_registry.registered(HERE)) and try_lock(self._lock)  # else somebody else has begun

    def _turn(self) -> bool:
        """True: there is more to look at."""
        over = [job_id for job_id in watch_registry.registered(HERE) if self._is_over(job_id)]
        self._reconcile(over)
        with contextlib.suppress(StoreUnusable, OSError):
            if self._courier.turn():  # all events that there are have been handed over
                for job_id in over:
                    self._strike_out(job_id)
        return any(post.is_behind for post in self._posts.values())

    def _reconcile(self, over: Sequence[str]) -> None:
        """At once, where an end has to be told before its job is struck out."""
        if over or time.monotonic() >= self._reconciled_at + RECONCILE_EVERY_S:
            with contextlib.suppress(StoreUnusable, OSError):
                self._history.reconcile(over)
            self._reconciled_at = time.monotonic()

    def _is_over(self, job_id: str) -> bool:
        """Looks at its output; True if there will be no more."""
        post = self._posts.get(job_id) or WatchedJob.of(self._store, job_id)
        if post is None:
            return _is_abandoned(f"{HERE}/{watch_registry.WATCHES}/{job_id}")
        self._posts[job_id] = post
        began = time.monotonic()
        post.look(lambda: time.monotonic() >= began + TURN_S)
        if not self._notices.watch(post.log_directory):
            self._notices.watch(post.directory)
        return post.is_over

    def _strike_out(self, job_id: str) -> None:
        if post := self._posts.pop(job_id, None):
            post.save()
            self._notices.forget(post.log_directory)
            self._notices.forget(post.directory)
        watch_registry.remove(HERE, job_id)

    def _sleep(self) -> None:
        self._notices.wait(self._courier.seconds_left(), self._courier.descriptors)


class WatchedJob:
    """One job that is looked after."""

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
        """None: there is no such job, or not yet; or what it was to be watched for is no pattern."""
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
        self.has_ended = self._has_ended()  # before its log: what has ended has a whole one
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
            has_told |= self._tell(self._watch.look_at_unfinished)
        return self._tell(self._watch.tell_what_was_not) or has_told

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
    """Its starter was killed before it had made the job; or has not made it yet."""
    made_at = mtime(path)
    return made_at > 0 and abs(time.time() - made_at) > ABANDONED_S


if __name__ == "__main__":
    main(sys.argv[1])
