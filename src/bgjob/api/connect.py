"""Reaching a job's shim: it may be stopped, or be dead while its guard is about to take over."""

import math
import select
import time
from collections.abc import Callable

from bgjob.api.context import Context
from bgjob.api.hints import out_of_reach
from bgjob.api.processes import supervisors_of
from bgjob.core.errors import NotSteerable, TargetUnreachable
from bgjob.core.job import Job, Running
from bgjob.link.control import NoShim, ShimConnection
from bgjob.link.supervisors import Supervisors

SHIM_PATIENCE_S = 10.0
WAKE_EVERY_S = 0.25
SETTLED_S, LOOK_AGAIN_S = 0.5, 0.002
UNREACHED = "its shim does not answer, and nothing was sent to it; a kill can end it all the same"


class Waking:
    """Continues a job's shim and guard, which the job may have stopped, while we wait for their answer."""

    def __init__(self, found: Callable[[], Supervisors]) -> None:
        self._found = found
        self._next_at = time.monotonic() + WAKE_EVERY_S

    def now_and_then(self) -> None:
        if time.monotonic() >= self._next_at:
            with self._found() as supervisors:
                supervisors.wake()
            self._next_at = time.monotonic() + WAKE_EVERY_S

    def until_readable(self, line: ShimConnection, patience_s: float) -> bool:
        """False: no answer has come in time."""
        deadline = time.monotonic() + patience_s
        poll = select.poll()
        poll.register(line.fileno(), select.POLLIN)
        while not poll.poll(max(0.0, min(WAKE_EVERY_S, deadline - time.monotonic())) * 1000):
            if time.monotonic() >= deadline:
                return False
            self.now_and_then()
        return True


def connect_to_shim(context: Context, job_id: str, deadline: float = math.inf) -> ShimConnection:
    """To the job's shim; or to its guard, which may be about to take over. NoShim: there is neither.

    `deadline`: that of the whole call, by the monotonic clock.
    """
    deadline = min(deadline, time.monotonic() + SHIM_PATIENCE_S)
    is_here = context.store.spec(job_id).target is None
    waking = Waking(lambda: supervisors_of(context, job_id))
    while True:
        try:
            return ShimConnection(context.store.control_path(job_id), deadline)
        except (NoShim, TimeoutError):
            if not context.store.has_shim(job_id):
                raise
            if time.monotonic() > deadline:
                raise NotSteerable(job_id, UNREACHED) from None
        if is_here:
            waking.now_and_then()
        time.sleep(LOOK_AGAIN_S)


def check_reachable(job: Job) -> None:
    """TargetUnreachable: the machine of a running job cannot be reached now; nothing was sent to it."""
    if job.remote and isinstance(job.state, Running) and job.remote.unreachable:
        raise TargetUnreachable(job.remote.target, job.remote.unreachable, out_of_reach(job.id))


def settled(context: Context, job_id: str) -> Job:
    """The job, once its lock is free: a dying shim closes its socket before its guard has written the end."""
    deadline = time.monotonic() + SETTLED_S
    while context.store.has_shim(job_id) and time.monotonic() < deadline:
        time.sleep(LOOK_AGAIN_S)
    return context.store.load(job_id)
