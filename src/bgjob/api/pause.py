"""Pausing a job: all its processes are stopped until it is resumed. Its timeout and its silence limit go on."""

import signal
import time
from collections.abc import Sequence
from typing import Literal

from bgjob.api.connect import SHIM_PATIENCE_S
from bgjob.api.context import Context
from bgjob.api.processes import processes_of
from bgjob.api.results import Kill
from bgjob.api.signal import signal_job
from bgjob.core.errors import NotSteerable
from bgjob.core.frozen import Frozen
from bgjob.core.job import Job
from bgjob.system import processes

PauseWord = Literal["paused", "resumed", "not_paused", "already_terminated", "not_found"]
# A process may fork while the others are stopped, and one that waits for a device stops later.
TRIES, LOOK_AGAIN_S = 50, 0.01
BETWEEN_RUNS = "it is between two runs, and there is nothing to pause until the next one starts"


class Pause(Frozen):
    status: PauseWord
    processes: int
    """How many processes are stopped now, or were resumed."""
    job: Job | None


def pause_job(context: Context, job_id: str, deadline: float | None = None) -> Pause:
    """Stops every process of the job, also those that are forked meanwhile.

    `deadline`: when to stop waiting for its shim, by the monotonic clock.
    """
    deadline = time.monotonic() + SHIM_PATIENCE_S if deadline is None else deadline
    pids: Sequence[int] = ()
    for _ in range(TRIES):
        sent = signal_job(context, job_id, signal.SIGSTOP, deadline)
        if sent.status != "signaled" or not sent.job:
            return _nothing_to_do(sent)
        if not sent.processes and _is_between_runs(context, sent.job):
            raise NotSteerable(job_id, BETWEEN_RUNS)
        if sent.job.remote:
            return Pause("paused", sent.processes, sent.job)  # its processes cannot be looked at from here
        pids = processes_of(context, sent.job)
        if pids and (not processes.LINUX or all(map(processes.is_stopped, pids))):
            return Pause("paused", len(pids), sent.job)
        time.sleep(LOOK_AGAIN_S)
    raise NotSteerable(job_id, _why_not(pids))


def _is_between_runs(context: Context, job: Job) -> bool:
    history = context.store.history(job)
    return history is not None and history.pauses


def _why_not(pids: Sequence[int]) -> str:
    if not pids:
        return "it has no process now"
    going = sum(not processes.is_stopped(pid) for pid in pids)
    return f"{going} of its {len(pids)} processes cannot be stopped"


def resume_job(context: Context, job_id: str, deadline: float | None = None) -> Pause:
    """Also single processes of it that were stopped by others."""
    stopped = sum(map(processes.is_stopped, processes_of(context, context.store.load(job_id))))
    sent = signal_job(context, job_id, signal.SIGCONT, deadline)
    if sent.status != "signaled":
        return _nothing_to_do(sent)
    if processes.LINUX and not stopped and not (sent.job and sent.job.remote):
        return Pause("not_paused", 0, sent.job)
    return Pause("resumed", stopped or sent.processes, sent.job)


def _nothing_to_do(sent: Kill) -> Pause:
    return Pause("not_found" if sent.status == "not_found" else "already_terminated", 0, sent.job)


def what_goes_on(job: Job) -> list[str]:
    """What may end the job while it is paused."""
    limits_s = {"timeout": job.spec.timeout_s, "limit of silence": job.spec.limits.get("silence_s")}
    return [f"its {name} of {seconds:g} s" for name, seconds in limits_s.items() if seconds is not None]
