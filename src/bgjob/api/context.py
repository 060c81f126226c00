"""What every verb is given: the store, the settings, and how jobs are started."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Self

from bgjob.api.news_gate import NewsGate
from bgjob.core import options
from bgjob.core.config import (
    ConfigFile,
    Settings,
    environment_for_jobs,
    given,
    setting_of,
    settings_from,
    unknown_settings,
)
from bgjob.core.errors import BadSetting, InvalidArgument
from bgjob.core.frozen import Frozen
from bgjob.home import queue_dir, target_dir, watch_registry
from bgjob.home.home_dir import home_from
from bgjob.link.spawn import Spawner, Starts, start_dispatcher
from bgjob.store import retention
from bgjob.store.config_file import read_config_file
from bgjob.store.reconcile import Reconciler
from bgjob.store.store import Store
from bgjob.store.targets_file import NO_TARGETS, Targets, read_targets

if TYPE_CHECKING:
    from bgjob.api.wait import Wait

BURST_S = 0.03
MOST_PROMPTS_TOLD = 1000
MOST_LIVE_WAITS = 100


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
        return self.log_end(job_id) == log_end

    def log_end(self, job_id: str) -> int | None:
        return self._log_ends.get(job_id)


class LiveWaits:
    """Waits that are kept on disk and were looked at here: a second look does not search all output again."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waits: dict[str, tuple[threading.Lock, Wait]] = {}

    @contextlib.contextmanager
    def use(self, wait_id: str, make: Callable[[], Wait]) -> Iterator[Wait]:
        """One caller at a time has it."""
        with self._mutex:
            if wait_id not in self._waits:
                self._waits[wait_id] = threading.Lock(), make()
            lock, wait = self._waits[wait_id]
            while len(self._waits) > MOST_LIVE_WAITS:
                del self._waits[next(iter(self._waits))]
        with lock:
            yield wait

    def forget(self, wait_id: str) -> None:
        with self._mutex:
            self._waits.pop(wait_id, None)


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
    news_gate: NewsGate
    live_waits: LiveWaits
    targets: Targets = NO_TARGETS
    """Where jobs may run beside this machine, as their file had it when we started."""

    @classmethod
    def of(
        cls,
        store: Store,
        settings: Settings,
        environ: Mapping[str, str],
        spawner: Spawner,
        targets: Targets = NO_TARGETS,
    ) -> Self:
        environment = environment_for_jobs(environ, settings)
        reconciler, umask = Reconciler(store), _own_umask()
        own = Starts(), Burst(), PromptsTold(), NewsGate(store.events), LiveWaits()
        return cls(store, settings, environment, spawner, umask, reconciler, *own, targets)


def open_context(
    environ: Mapping[str, str],
    *,
    many: bool,
    file: ConfigFile | None = None,
    targets: Targets | None = None,
) -> Context:
    """Of the store that this environment names. `many`: so many starts that a zygote is worth it.

    `file`, `targets`: the config file and that of targets, for a caller who has read them.
    """
    file = read_config_file(environ) if file is None else file
    settings = checked_settings(environ, file)
    targets = read_targets(environ) if targets is None else targets
    for problem in (*file.problems, *unknown_settings(environ)):
        print(f"bgjob: WARNING: {problem}", file=sys.stderr)
    return Context.of(Store(home_from(environ)), settings, environ, Spawner(zygote=many), targets)


def checked_settings(environ: Mapping[str, str], file: ConfigFile) -> Settings:
    """BadSetting: a value is not accepted, or not on this machine."""
    settings = settings_from(environ, file)
    if not os.path.isdir(settings.working_dir):
        source = given(setting_of("working_dir"), environ, file)
        raise BadSetting(source.name, source.value, "a directory that exists")
    try:
        options.checked(settings.limits, options.LIMIT_OPTIONS)
    except InvalidArgument as problem:
        source = given(setting_of("limits"), environ, file)
        raise BadSetting(source.name, source.value, str(problem)) from None
    return settings


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
            start_dispatcher(home, context.environment)
    queue_dir.wake(home)


def ensure_watcher(context: Context) -> None:
    """A watcher runs, if there are jobs with watches or hooks; and a relay, for jobs of targets."""
    watch_registry.ensure_watcher(context.store.home, context.environment)
    target_dir.ensure_relays(context.store.home, context.environment)


def clean_up(context: Context) -> None:
    """Housekeeping of every start, for all jobs: retention, a running watcher. Readers delete nothing."""
    settings = context.settings
    retention.clean(context.store, settings.keep_jobs, settings.keep_days, settings.cleanup_interval_s)
    ensure_watcher(context)
