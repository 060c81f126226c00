"""Ending or steering several jobs at once: together they take as long as the one that takes longest."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from bgjob.api.context import Context
from bgjob.api.filter import Matches
from bgjob.api.kill import kill_job
from bgjob.api.processes import is_alive
from bgjob.api.results import Kill
from bgjob.core.errors import BgjobError
from bgjob.core.job import Job, Queued

AT_ONCE = 64
Done = TypeVar("Done")
Killing = tuple[Job, Kill | BgjobError]


def living_jobs(context: Context, matches: Matches) -> list[Job]:
    """Those that run, wait in the queue or have left processes running, newest first."""
    return [job for _, job in context.store.jobs() if matches(job) and is_alive(context, job)]


def kill_jobs(context: Context, jobs: Sequence[Job], *, grace_s: float, signal: str) -> Iterator[Killing]:
    """Each job as it is done, with its end or with why it could not be ended."""
    kill = partial(_kill, context, grace_s=grace_s, signal=signal)
    # first those in the queue: else what ends makes room for what waits
    yield from (kill(job) for job in jobs if isinstance(job.state, Queued))
    yield from at_once([job for job in jobs if not isinstance(job.state, Queued)], kill)


def at_once(jobs: Sequence[Job], act: Callable[[Job], Done]) -> Iterator[Done]:
    """What `act` returns for each job, as it is done."""
    done = SimpleQueue[Done | None]()
    shares = [jobs[first::AT_ONCE] for first in range(min(AT_ONCE, len(jobs)))]

    def work(share: Sequence[Job]) -> None:
        try:
            for job in share:
                done.put(act(job))
        finally:
            done.put(None)

    for share in shares:
        # a daemon: who has enough need not wait, and the shims go on with what they were asked for
        threading.Thread(target=copy_context().run, args=[work, share], daemon=True).start()
    for _ in shares:
        yield from iter(done.get, None)


def _kill(context: Context, job: Job, grace_s: float, signal: str) -> Killing:
    try:
        return job, kill_job(context, job.id, grace_s=grace_s, signal=signal)
    except BgjobError as error:
        return job, error
