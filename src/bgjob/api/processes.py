"""The processes of a job: which are alive, whether one waits for input, and its shim and guard."""

import contextlib
import time
from collections.abc import Sequence

from bgjob.api.context import Context
from bgjob.api.results import InputWord
from bgjob.api.snapshot import Snapshot
from bgjob.core.job import Job, Lost, Running
from bgjob.link import sweep
from bgjob.link.control import NoShim, ShimConnection
from bgjob.link.supervisors import Identity, Supervisors
from bgjob.system import processes, stdin_wait

SHIM_PATIENCE_S = 2.0


def processes_of(context: Context, job: Job) -> Sequence[int]:
    """The ids of those that are alive."""
    if isinstance(job.state, Lost):
        return sweep.members(job.id, first_process(job))
    if job.run is None or not (isinstance(job.state, Running) or context.store.has_shim(job.id)):
        return []
    shim = job.run.shim_pid
    # the record may be wrong: a guard that took over on a full disk is not in it, and the job can write to it
    is_known = not processes.LINUX or processes.name_of(shim) == processes.SHIM
    tree = processes.alive(processes.descendants(shim)) if is_known else []
    return tree or sweep.members(job.id, first_process(job))


def first_process(job: Job) -> sweep.FirstProcess | None:
    """The process that the job was started as, if that was in this boot."""
    run = job.run
    is_of_this_boot = run is not None and run.boot_id == processes.boot_id()
    return sweep.FirstProcess(run.pid, run.started_at) if run and is_of_this_boot else None


def supervisors_of(context: Context, job_id: str) -> Supervisors:
    """The shim and the guard, as far as there are any. JobNotFound: the text is no id."""
    store = context.store
    whose = Identity(job_id, store.directory(job_id), lambda: store.lock_paths(job_id))
    return Supervisors(whose, store.shim_pid(job_id))


def waits_for_input(
    context: Context, job: Job, pids: Sequence[int] | None = None, deadline: float | None = None
) -> InputWord | None:
    """As far as the kernel lets us look; else the shim is asked, which is an ancestor of the job."""
    if not isinstance(job.state, Running) or job.run is None:
        return None
    pids = processes_of(context, job) if pids is None else pids
    own = stdin_wait.waits_for_input(pids, stdin_wait.input_of(job.run.pid))
    if own.answer != "unknown":
        return own.answer
    patience_s = SHIM_PATIENCE_S if deadline is None else deadline - time.monotonic()
    return _ask_shim(context, job.id, patience_s) if patience_s > 0 else "unknown"


def _ask_shim(context: Context, job_id: str, patience_s: float) -> InputWord:
    try:
        with ShimConnection(context.store.control_path(job_id)) as shim:
            word: InputWord = shim.ask(patience_s, op="waits")["waits"]
    except (NoShim, TimeoutError, KeyError):
        return "unknown"
    return word


def flush_output(context: Context, job_id: str) -> None:
    """Returns when all that the job has printed is in its log: the shim reads the pipes before it answers."""
    with (
        contextlib.suppress(NoShim, TimeoutError),
        ShimConnection(context.store.control_path(job_id)) as shim,
    ):
        shim.ask(SHIM_PATIENCE_S, op="waits")


def left_running(context: Context, job: Job) -> int:
    """How many processes of a job that has ended are alive."""
    if isinstance(job.state, Running) or not context.store.has_shim(job.id):
        return 0
    return len(processes_of(context, job))


def sits_at_prompt(context: Context, snapshot: Snapshot) -> bool:
    return waits_for_input(context, snapshot.job) == "yes"
