"""What every verb is given: the store, the settings, and how jobs are started."""

import contextlib
import math
import os
import threading
import time
from collections.abc import Mapping
from typing import Self

from bgjob.core.config import Settings, environment_for_jobs
from bgjob.core.frozen import Frozen
from bgjob.home import queue_dir, watch_registry
from bgjob.link.spawn import Spawner, Starts, start_dispatcher
from bgjob.store import retention
from bgjob.store.reconcile import Reconciler
from bgjob.store.store import Store

BURST_S = 0.03
MOST_PROMPTS_TOLD = 1000


class Burst:
    """Submissions that follow each other closely: the dispatcher starts some while we take the next."""

    def __init__(self) -> None:
        self._last_at = -math.inf

    def goes_on(self) -> bool:
        """True: the submission before this one has just been."""
        now = time.monotonic()
        before, self._last_at = self._last_at, now
        return now - before < BURST_S


class PromptsTold:
    """At which end of its log an answer told of a job's prompt: a caller who waits on from there knows it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._log_ends: dict[str, int] = {}

    def note(self, job_id: str, log_end: int, *, waits: bool | None) -> None:
        """`waits`: whether the answer says that the job sits at a prompt."""
        with self._lock:
            self._log_ends.pop(job_id, None)
            if waits:
                self._log_ends[job_id] = log_end
            if len(self._log_ends) > MOST_PROMPTS_TOLD:
                del self._log_ends[next(iter(self._log_ends))]

    def has(self, job_id: str, log_end: int) -> bool:
        return self._log_ends.get(job_id) == log_end


class Context(Frozen):
    store: Store
    settings: Settings
    environment: Mapping[str, str]
    """The variables that every job gets."""
    spawner: Spawner
    umask: int
    reconciler: Reconciler
    starts: Starts
    burst: Burst
    prompts_told: PromptsTold

    @classmethod
    def of(cls, store: Store, settings: Settings, environ: Mapping[str, str], spawner: Spawner) -> Self:
        environment = environment_for_jobs(environ, settings)
        reconciler, umask = Reconciler(store), _own_umask()
        return cls(store, settings, environment, spawner, umask, reconciler, Starts(), Burst(), PromptsTold())


def _own_umask() -> int:
    """The kernel tells the umask only to a process that sets it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def ensure_dispatcher(context: Context) -> None:
    """Jobs wait in the queue: a dispatcher runs, and looks at them now."""
    home = context.store.home
    with contextlib.suppress(OSError):  # the queue is on disk: the next caller tries again
        if not queue_dir.has_dispatcher(home):
            start_dispatcher(home)
    queue_dir.wake(home)


def ensure_watcher(context: Context) -> None:
    """A watcher runs, if there are jobs with watches or hooks."""
    watch_registry.ensure_watcher(context.store.home, context.environment)


def clean_up(context: Context) -> None:
    """Housekeeping of every start, for all jobs: retention, a running watcher. Readers delete nothing."""
    settings = context.settings
    retention.clean(context.store, settings.keep_jobs, settings.keep_days, settings.cleanup_interval_s)
    ensure_watcher(context)
