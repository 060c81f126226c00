"""What all verbs stand on."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from bgjob import lookout, processes, queue_dir, retention
from bgjob.config import Settings, for_jobs
from bgjob.errors import NotSteerable
from bgjob.job import Ended, Job, Lost, Running
from bgjob.log_reader import LogReader, Rotated
from bgjob.spawn import Spawner, start_drainer
from bgjob.store import Store

Answer = TypeVar("Answer")
READ_TRIES = 100


class Door:
    def __init__(
        self, store: Store, settings: Settings, environ: Mapping[str, str], spawner: Spawner
    ) -> None:
        self._store, self._settings, self._spawner = store, settings, spawner
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._environment = for_jobs(environ, settings)

    def close(self) -> None:
        self._spawner.close()

    def _reading(self, job: Job, read: Callable[[LogReader], Answer]) -> Answer:
        for _ in range(READ_TRIES):
            with contextlib.suppress(Rotated):
                return read(self._log(job))
        raise NotSteerable(job.id, "its output is replaced faster than it can be read")

    def _log(self, job: Job) -> LogReader:
        state = job.state
        printed = (state.stdout_bytes, state.stderr_bytes) if isinstance(state, Ended) else (0, 0)
        return LogReader(self._store.log_directory(job.id), printed)

    def _processes(self, job: Job) -> Sequence[int]:
        if isinstance(job.state, Lost):
            return processes.marked(job.id)
        if job.run is None or not (isinstance(job.state, Running) or self._store.has_shim(job.id)):
            return []
        # a guard that took over on a full disk is not in the record of the run
        return processes.alive(processes.descendants(job.run.shim_pid)) or processes.marked(job.id)

    def _see_to_the_queue(self) -> None:
        """Something waits: then somebody is there who will start it."""
        home = self._store.home
        with contextlib.suppress(OSError):  # who looks next tries again: what waits is on disk
            if not queue_dir.has_drainer(home):
                start_drainer(home)
        queue_dir.kick(home)

    def _clean(self) -> None:
        """What whoever starts a job does for all. Who only looks deletes nothing."""
        settings = self._settings
        retention.clean(self._store, settings.keep_jobs, settings.keep_days, settings.cleanup_interval_s)
        lookout.ensure_watcher(self._store.home, self._environment)
