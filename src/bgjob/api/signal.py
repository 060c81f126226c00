"""Sending a job one signal, and no more."""

import signal as signals
import time

from bgjob.api.audit import note
from bgjob.api.connect import SHIM_PATIENCE_S, check_reachable, connect_to_shim, settled
from bgjob.api.context import Context
from bgjob.api.processes import left_running
from bgjob.api.results import Kill
from bgjob.core.errors import BgjobError, InvalidArgument, JobNotFound, NotSteerable
from bgjob.core.job import Job, Queued, Running
from bgjob.link.control import NoShim


class HasEnded(BgjobError):
    def __init__(self, job_id: str) -> None:
        super().__init__(f"Job {job_id} has ended: no process of it is left to signal.")


def signal_number(name: str) -> int:
    """Of a name with or without SIG, or of a number in text."""
    full = f"SIG{name.upper().removeprefix('SIG')}"
    if full in signals.Signals.__members__:
        return signals.Signals[full]
    if name.isascii() and name.isdigit() and len(name) < 3 and int(name) in set(signals.Signals):
        return int(name)
    raise InvalidArgument(
        f"={name[:40]!r} is not a signal. Accepted: names such as TERM, INT, HUP, KILL, or numbers.",
        argument="signal",
    )


def signal_job(context: Context, job_id: str, number: int, deadline: float | None = None) -> Kill:
    """To every process of the job, once. If the job ends of it, it has ended by itself: we do not kill it.

    `deadline`: when to stop waiting for its shim, by the monotonic clock.
    """
    deadline = time.monotonic() + SHIM_PATIENCE_S if deadline is None else deadline
    try:
        job = context.store.load(job_id)
    except JobNotFound:
        return Kill("not_found", 0, None)
    if isinstance(job.state, Queued):
        raise NotSteerable(job_id, "it is queued and has not started yet: there is no process to signal")
    if not isinstance(job.state, Running) and not left_running(context, job):
        return Kill("already_terminated", 0, job)
    check_reachable(job)
    note(context.store.home, "signal_sent", job_id, signal=number)
    return _ask_to_signal(context, job, number, deadline)


def _ask_to_signal(context: Context, job: Job, number: int, deadline: float) -> Kill:
    try:
        with connect_to_shim(context, job.id, deadline) as shim:
            count = shim.ask(deadline - time.monotonic(), op="signal", signal=number)["processes"]
    except TimeoutError:
        raise NotSteerable(
            job.id, "its shim does not answer in time: the signal may have been sent"
        ) from None
    except NoShim:
        return _without_shim(context, settled(context, job.id))
    return Kill("signaled", count, job, number)


def _without_shim(context: Context, job: Job) -> Kill:
    """The job ended while we asked; or its shim and guard were killed."""
    if isinstance(job.state, Running) or left_running(context, job):
        raise NotSteerable(job.id, "its shim is gone; only a kill ends what is left of it")
    return Kill("already_terminated", 0, job)
