"""The processes of a job: which are alive, which it has left behind, and its shim and guard."""

import time
from collections.abc import Sequence

from bgjob.api.context import Context
from bgjob.api.hints import still_running
from bgjob.core.errors import NotRunning
from bgjob.core.job import Ended, Exited, Job, Lost, Queued, Running, Signaled, State, end_details, reason
from bgjob.home.jobdir import how_ended
from bgjob.link import sweep
from bgjob.link.supervisors import Identity, Supervisors
from bgjob.system import processes

# Processes that end with the job, such as the rest of a pipeline, are given so long.
ENDING_S, LOOK_AGAIN_S = 0.1, 0.002
# A shim that has no process left is gone within so long, unless it is stopped.
LEAVING_S = 1.0


def processes_of(context: Context, job: Job) -> Sequence[int]:
    """The ids of those that are alive, of a job of this machine: those of another machine mean nothing here."""
    if job.spec.target is not None:
        return []
    if isinstance(job.state, Lost):
        return sweep.members(job.id, first_process(job))
    if job.run is None or not (isinstance(job.state, Running) or context.store.has_shim(job.id)):
        return []
    shim = job.run.shim_pid
    # the record may be wrong: a guard that took over on a full disk is not in it, and the job can write to it
    is_known = not processes.LINUX or processes.name_of(shim) == processes.SHIM
    tree = processes.descendants(shim) if is_known else []
    # Also of the dead alone: their shim is about to write down how they ended. To look at all processes takes long.
    if tree or (is_known and not isinstance(job.state, Running)):
        return processes.alive(tree)
    return sweep.members(job.id, first_process(job))


def is_paused(context: Context, job: Job) -> bool:
    """Whether every process of the job is stopped, as by `pause_job`; False where the system does not tell."""
    pids = processes_of(context, job)
    return bool(pids) and all(map(processes.is_stopped, pids))


def leaves_processes(state: State) -> bool:
    """After other ends the shim ends all processes of the job: none is left running."""
    return isinstance(state, Exited | Signaled | Lost)


def left_running(context: Context, job: Job) -> int:
    """How many processes an ended job has left behind: then it counts as running for who waits or looks."""
    if job.spec.target is not None:
        return _left_at_target(context, job)
    if isinstance(job.state, Lost):
        return _left_of_lost(context, job)
    if not leaves_processes(job.state) or not context.store.has_shim(job.id):
        return 0
    deadline = time.monotonic() + _ending_s(job.state)
    while (left := len(processes_of(context, job))) and time.monotonic() < deadline:
        time.sleep(LOOK_AGAIN_S)
    return left


def has_all_output(context: Context, job: Job, deadline: float) -> bool:
    """Once its shim has left, which it does when what the last process has printed is in the log; False: it stays."""
    deadline = min(deadline, time.monotonic() + LEAVING_S)
    while leaves_processes(job.state) and context.store.has_shim(job.id):
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_AGAIN_S)
    return True


def _left_at_target(context: Context, job: Job) -> int:
    """Its relay leaves it when none is left."""
    if isinstance(job.state, Running) or not context.store.has_shim(job.id):
        return 0
    remote = context.store.remote(job)
    return remote.left_running if remote else 0


def _left_of_lost(context: Context, job: Job) -> int:
    """Looked for among all processes, until there are none: a lost job gets no new ones."""
    is_of_earlier_boot = job.run is not None and first_process(job) is None
    if job.id in context.store.without_processes or is_of_earlier_boot:
        return 0
    left = len(processes_of(context, job))
    if not left:
        context.store.without_processes.add(job.id)
    return left


def _ending_s(state: State) -> float:
    """How long its processes may still take to end with the job."""
    return min(ENDING_S, ENDING_S + state.ended_at - time.time()) if isinstance(state, Ended) else 0.0


def is_alive(context: Context, job: Job) -> bool:
    """It runs, waits in the queue, or has left processes running."""
    return isinstance(job.state, Running) or left_running(context, job) > 0


def not_running(context: Context, job: Job) -> NotRunning:
    """The error of who would type into a job that is queued or has ended."""
    if isinstance(job.state, Queued):
        return NotRunning(job.id, "it is queued and has not started yet")
    why = reason(job.state)
    return NotRunning(
        job.id,
        f"it {how_ended(end_details(job.state))}" + (f" ({why})" if why else ""),
        still_running(job.state, left_running(context, job)),
    )


def first_process(job: Job) -> sweep.FirstProcess | None:
    """The process that the job was started as, if that was in this boot."""
    run = job.run
    is_of_this_boot = job.spec.target is None and run is not None and run.boot_id == processes.boot_id()
    return sweep.FirstProcess(run.pid, run.started_at) if run and is_of_this_boot else None


def supervisors_of(context: Context, job_id: str) -> Supervisors:
    """The shim and the guard, as far as there are any. JobNotFound: the text is no id."""
    store = context.store
    whose = Identity(job_id, store.directory(job_id), lambda: store.lock_paths(job_id))
    return Supervisors(whose, store.shim_pid(job_id))
