"""What all verbs stand on."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from bgjob.core.config import Settings, for_jobs
from bgjob.core.errors import NotSteerable, StoreUnusable
from bgjob.core.job import Ended, Job, Lost, Running
from bgjob.home import queue_dir, watch_registry
from bgjob.link import sweep
from bgjob.link.spawn import Spawner, start_dispatcher
from bgjob.link.supervisors import Supervisors, Whose
from bgjob.output.log_reader import LogReader
from bgjob.output.log_segments import Rotated
from bgjob.store import retention
from bgjob.store.store import Store
from bgjob.system import processes

Answer = TypeVar("Answer")
READ_TRIES = 100


@dataclass(frozen=True)
class Context:
    """What every verb needs: the store, and how jobs are started."""

    store: Store
    settings: Settings
    environment: Mapping[str, str]
    """The variables that each job gets."""
    spawner: Spawner
    umask: int


class Door:
    def __init__(
        self, store: Store, settings: Settings, environ: Mapping[str, str], spawner: Spawner
    ) -> None:
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._environment = for_jobs(environ, settings)
        self._store, self._settings, self._spawner = store, settings, spawner
        self.context = Context(store, settings, self._environment, spawner, self._umask)

    @property
    def store(self) -> Store:
        return self._store

    @property
    def home(self) -> str:
        return self._store.home

    @property
    def events_directory(self) -> str:
        return self._store.events

    def directory(self, job_id: str) -> str:
        return self._store.directory(job_id)

    def has_shim(self, job_id: str) -> bool:
        """True while the job runs, and after its end while processes of it are left."""
        return self._store.has_shim(job_id)

    def processes(self, job_id: str) -> Sequence[int]:
        """The ids of the job's processes that are alive."""
        return self._processes(self._store.load(job_id))

    def log(self, job_id: str) -> LogReader:
        return self._log(self._store.load(job_id))

    def close(self) -> None:
        self._spawner.close()

    def _reading(self, job: Job, read: Callable[[LogReader], Answer]) -> Answer:
        with self._readable(job):
            for _ in range(READ_TRIES):
                with contextlib.suppress(Rotated):
                    return read(self._log(job))
        raise NotSteerable(job.id, "its output is replaced faster than it can be read")

    @contextlib.contextmanager
    def _readable(self, job: Job) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnusable(
                f"The output of job {job.id} cannot be read: {error.strerror or error}. The job is not touched by that."
            ) from error

    def _log(self, job: Job) -> LogReader:
        state = job.state
        printed = (state.stdout_bytes, state.stderr_bytes) if isinstance(state, Ended) else (0, 0)
        return LogReader(self._store.log_directory(job.id), printed)

    def _processes(self, job: Job) -> Sequence[int]:
        if isinstance(job.state, Lost):
            return sweep.members(job.id, self._first(job))
        if job.run is None or not (isinstance(job.state, Running) or self._store.has_shim(job.id)):
            return []
        shim = job.run.shim_pid
        # a guard that took over on a full disk is not in the record of the run; and a record may say anything
        is_known = not processes.LINUX or processes.name_of(shim) == processes.SHIM
        tree = processes.alive(processes.descendants(shim)) if is_known else []
        return tree or sweep.members(job.id, self._first(job))

    def _first(self, job: Job) -> sweep.Known | None:
        """The process that a job was started as, if that was in this boot."""
        run = job.run
        is_of_now = run is not None and run.boot_id == processes.boot_id()
        return sweep.Known(run.pid, run.started_at) if run and is_of_now else None

    def _supervisors(self, job_id: str) -> Supervisors:
        """Its shim and guard, as far as there are any. JobNotFound: there is no such id."""
        whose = Whose(job_id, self._store.directory(job_id), lambda: self._store.lock_paths(job_id))
        return Supervisors(whose, self._store.shim_pid(job_id))

    def _see_to_the_queue(self) -> None:
        """Something waits: then somebody is there who will start it."""
        home = self._store.home
        with contextlib.suppress(OSError):  # who looks next tries again: what waits is on disk
            if not queue_dir.has_dispatcher(home):
                start_dispatcher(home)
        queue_dir.wake(home)

    def _clean(self) -> None:
        """What whoever starts a job does for all. Who only looks deletes nothing."""
        settings = self._settings
        retention.clean(self._store, settings.keep_jobs, settings.keep_days, settings.cleanup_interval_s)
        watch_registry.ensure_watcher(self._store.home, self._environment)
