"""What has changed since the last look: what jobs printed, how they stand, which jobs there are.

A reader of the store alone: jobs of other servers and of the command line are seen as our own are. It sleeps
until the kernel tells of a change, and looks a few times a second at most, however fast a job prints.
"""

import contextlib
import math
import threading
import time
from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, Literal, NamedTuple, TypeVar

from bgjob.api.context import Context
from bgjob.api.find import id_of
from bgjob.api.snapshot import Snapshot
from bgjob.api.wait import Cancellation
from bgjob.core.errors import InvalidArgument, JobNotFound, StoreUnusable
from bgjob.core.job import Running, State
from bgjob.home import event_log
from bgjob.home.log_format import STDERR, STDOUT
from bgjob.output.log_reader import LogReader
from bgjob.store import event_reader
from bgjob.store.job_names import JobNames
from bgjob.system.inotify import Inotify
from bgjob.system.readiness import is_readable

Key = TypeVar("Key", bound=Hashable)
Aspect = Literal["stdout", "stderr", "output", "screen", "status", "jobs", "existence"]
"""Of one job, up to status; of all: how any of them stands, and which jobs there are."""

LOOK_EVERY_S = 0.2


class Subject(NamedTuple):
    aspect: Aspect
    job: str | None = None
    """Its id, the beginning of that, or its name; None: all jobs."""


class Seen(NamedTuple):
    """What there was to see of one aspect of a job."""

    state: State | None
    """None: it runs, and the aspect has nothing to do with how."""
    printed: int = 0
    sizes: tuple[tuple[int, int, int], ...] = ()


class Changes(Generic[Key]):
    """Of some subjects, each under a key of its caller. One thread waits; others may add and discard."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._mutex = threading.Lock()
        self._inotify = Inotify()
        self._watched: dict[Key, _OneJob | _AllJobs] = {}
        self._directories: set[str] = set()
        self._looked_at = -math.inf
        store = context.store
        for directory in (store.events, store.jobs_directory, store.trash):
            self._inotify.watch(directory)
        self._events, self._names = _Events(store.events), JobNames(store.jobs_directory)

    def close(self) -> None:
        with self._mutex:
            self._inotify.close()

    def add(self, key: Key, subject: Subject) -> None:
        """Changes from now on. JobNotFound: there is no such job."""
        with self._mutex:
            if subject.job is None:
                self._watched[key] = _AllJobs(subject.aspect)
                return
            job = _OneJob(self._context, subject.job, subject.aspect)
            self._watch(job.directories())  # first: what is written while we look wakes us
            job.look_first()
            self._watched[key] = job

    def discard(self, key: Key) -> None:
        with self._mutex:
            self._watched.pop(key, None)

    def __contains__(self, key: Key) -> bool:
        return key in self._watched

    def wait(self, cancellation: Cancellation) -> list[Key]:
        """Until something has changed since the last call: its keys. Empty: it was cancelled.

        What is removed has changed for the last time.
        """
        stop = cancellation.signal.fileno()
        while not is_readable(stop, self._looked_at + LOOK_EVERY_S - time.monotonic()):
            self._looked_at = time.monotonic()
            if changed := self._look():
                return changed
            if self._inotify.wait(math.inf, [stop]):
                break
        return []

    def _look(self) -> list[Key]:
        with self._mutex:
            events, is_list_changed = self._events.new(), self._names.have_changed()
            self._watch_directories()
            changed = []
            for key, watched in list(self._watched.items()):
                try:
                    if watched.has_changed(events, is_list_changed):
                        changed.append(key)
                except JobNotFound:
                    del self._watched[key]
                    changed.append(key)
                except StoreUnusable:
                    continue  # it cannot be read now
            return changed

    def _watch_directories(self) -> None:
        """A log may be there by now; of a job that is over, nothing more will come."""
        needed = {path for watched in self._watched.values() for path in watched.directories()}
        for path in self._directories - needed:
            self._inotify.forget(path)
        self._directories &= needed
        self._watch(needed)

    def _watch(self, directories: Iterable[str]) -> None:
        self._directories.update(path for path in directories if self._inotify.watch(path))


class _AllJobs:
    def __init__(self, aspect: Aspect) -> None:
        self._aspect = aspect

    def has_changed(self, events: set[str], is_list_changed: bool) -> bool:
        return is_list_changed or (self._aspect == "jobs" and bool(events))

    def directories(self) -> Iterator[str]:
        return iter(())


class _OneJob:
    def __init__(self, context: Context, word: str, aspect: Aspect) -> None:
        self._context, self._word, self._aspect = context, word, aspect
        self._job_id = id_of(context, word)
        self._is_final = False
        self._seen: Seen | None = None

    def look_first(self) -> None:
        self._seen = self._look()

    def has_changed(self, events: set[str], is_list_changed: bool) -> bool:
        """`events`: ids of the jobs that have new ones."""
        if is_list_changed and self._means_another():
            return True
        before, self._seen = self._seen, self._look()
        return before != self._seen or (self._aspect == "status" and self._job_id in events)

    def directories(self) -> Iterator[str]:
        """Where something is written when the aspect changes, beside the directory of events."""
        if self._aspect != "status" and not self._is_final:
            yield self._context.store.directory(self._job_id)
            yield self._context.store.log_directory(self._job_id)

    def _means_another(self) -> bool:
        """A name may have a new job."""
        try:
            meant = id_of(self._context, self._word)
        except InvalidArgument:  # the beginning of several ids by now
            return False
        if meant == self._job_id:
            return False
        self._job_id, self._is_final = meant, False
        self._seen = self._look()
        return True

    def _look(self) -> Seen:
        store, snapshot = self._context.store, Snapshot(self._context, self._job_id)
        if self._is_final and self._seen:
            return self._seen
        job = snapshot.job
        # before the log is read: what is printed afterwards is seen the next time
        self._is_final = not isinstance(job.state, Running) and not store.has_shim(job.id)
        if self._aspect == "status":
            return Seen(job.state)
        end = None if isinstance(job.state, Running) else job.state
        sizes = tuple(store.terminal_sizes(job)) if self._aspect == "screen" else ()
        return Seen(end, snapshot.read(self._printed), sizes)

    def _printed(self, log: LogReader) -> int:
        match self._aspect:
            case "stdout":
                return log.printed(STDOUT)
            case "stderr":
                return log.printed(STDERR)
            case _:
                return log.end


class _Events:
    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._place = event_log.Cursor(0, 0)
        with contextlib.suppress(OSError):
            self._place = event_log.end(directory)

    def new(self) -> set[str]:
        """Ids of the jobs that have events since the last call."""
        ids: set[str] = set()
        with contextlib.suppress(OSError):  # then the states of the jobs tell of most
            for heads, place in event_reader.heads(self._directory, self._place):
                ids.update(job_id for _, job_id in heads)
                self._place = place
        return ids
