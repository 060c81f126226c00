"""Ending a job: its shim does it; else signals to the shim do; else we kill what is left."""

import contextlib
import time
from collections.abc import Mapping
from typing import Any

from bgjob.api.audit import note
from bgjob.api.connect import LOOK_AGAIN_S, SHIM_PATIENCE_S, Waking, settled
from bgjob.api.context import Context
from bgjob.api.find import id_of, some
from bgjob.api.hints import unrecorded_end
from bgjob.api.processes import first_process, leaves_processes, left_running, supervisors_of
from bgjob.api.queue import cancel
from bgjob.api.results import Kill
from bgjob.api.session import answering, note_told
from bgjob.api.signal import signal_job, signal_number
from bgjob.core.errors import InvalidArgument, JobNotFound, NotSteerable
from bgjob.core.frozen import replace
from bgjob.core.job import Job, Killed, Lost, Running
from bgjob.link import sweep
from bgjob.link.control import NoShim, ShimConnection
from bgjob.link.supervisors import Supervisors
from bgjob.store.records import end_from

CONNECT_PATIENCE_S = 3.0
LATE_S = 5.0  # after the grace: then the shim does not come to kill the job
SHIMS_GRACE_S = 5.0  # what a shim gives its job when it is asked by a signal
NOTICE_S = 0.5
KILL_PATIENCE_S = 15.0
# How a job ends that was running when its kill began. It is lost if its shim and guard died during the kill.
OF_A_KILL = (Killed, Lost)


def kill_job(
    context: Context,
    job: str,
    *,
    grace_s: float = 5.0,
    signal: str = "TERM",
    only_signal: bool = False,
    session: str | None = None,
) -> Kill:
    """End a job with all its processes, also those that it left running when it ended. With `only_signal`
    each of its processes gets the signal once, and the job is not ended: no SIGKILL follows.

    `job`: its id, how the id begins, or its name. `session`: the answer tells it of the end.
    """
    number = signal_number(signal)
    if not 0 <= grace_s < float("inf"):
        raise InvalidArgument(f"={grace_s} is not a time. Accepted: seconds, 0 or more.", argument="grace_s")
    try:
        job_id = id_of(context, job, to_end=True)
    except JobNotFound:
        return Kill("not_found", 0, None, hint=_running_names(context))
    if only_signal:
        return signal_job(context, job_id, number)
    note(context.store.home, "kill_asked", job_id, signal=number)
    with answering(context, session, [job_id]):
        try:
            done = _kill(context, job_id, number, grace_s)
        except JobNotFound:
            done = _kill_removed(context, job_id, grace_s)
        note_told(context, session, [job_id])
    return done


def _running_names(context: Context) -> str | None:
    """Suggest running jobs: after a typo in its name the job is still alive."""
    store, names = context.store, set[str]()
    for job_id in [job_id for job_id, name in store.names().items() if name and store.may_run(job_id)]:
        with contextlib.suppress(JobNotFound):  # removed meanwhile
            job = store.load(job_id)
            names |= {job.spec.name or ""} if isinstance(job.state, Running) else set()
    return f"Names of running jobs: {some(sorted(names))}." if names else None


def _kill(context: Context, job_id: str, number: int, grace_s: float) -> Kill:
    job = context.store.load(job_id)
    if job.spec.target is not None:
        return _kill_at_target(context, job, number, grace_s)
    was_running = isinstance(job.state, Running)
    began = time.monotonic()
    while (done := _try_kill(context, job_id, number, grace_s, was_running, began)) is None:
        if time.monotonic() > began + SHIM_PATIENCE_S:
            raise NotSteerable(
                job_id, "the dispatcher took it from the queue, and neither starts it nor puts it back"
            )
        time.sleep(LOOK_AGAIN_S)
    return done


def _kill_at_target(context: Context, job: Job, number: int, grace_s: float) -> Kill:
    from bgjob.api.remote import kill_at_target  # few kills need it

    if not isinstance(job.state, Running) and not left_running(context, job):
        return Kill("already_terminated", 0, job)
    done = kill_at_target(context, job, number, grace_s)
    if done.status == "already_terminated" and done.job and isinstance(done.job.state, OF_A_KILL):
        return replace(done, status="killed") if isinstance(job.state, Running) else done
    return done


def _try_kill(
    context: Context, job_id: str, number: int, grace_s: float, was_running: bool, began: float
) -> Kill | None:
    """None: the job is not over and has no shim that can be asked, but may have one soon."""
    if cancelled := cancel(context, job_id):
        return Kill("killed", 0, cancelled)
    had_shim = context.store.has_shim(job_id)
    answer = _ask_to_kill(context, job_id, number, grace_s)
    if answer and answer["unrecorded"]:
        return _ended_unrecorded(context, job_id, answer)
    job = settled(context, job_id)
    has_shim = context.store.has_shim(job_id)
    if answer and not has_shim:
        is_ours = answer["was_running"] or (was_running and isinstance(job.state, OF_A_KILL))
        return _done(is_ours, answer["processes"], job)
    if has_shim or isinstance(job.state, Running | Lost):
        with supervisors_of(context, job_id) as supervisors:
            if supervisors.were_found:
                # it is just being started, or its guard takes over: who is asked knows that it kills the job
                if not had_shim and time.monotonic() < began + CONNECT_PATIENCE_S:
                    return None
                count = _kill_by_signals(context, job_id, supervisors, grace_s)
                is_ours = was_running or isinstance(job.state, Lost)
                return _done(is_ours, count, settled(context, job_id))
    return None if isinstance(job.state, Running) else _kill_without_shim(context, job, was_running)


def _ended_unrecorded(context: Context, job_id: str, answer: Mapping[str, Any]) -> Kill:
    """Describe a job that has ended but whose shim cannot write that down yet."""
    job = context.store.load(job_id)
    job = replace(job, state=end_from(answer["unrecorded"]))
    done = _done(answer["was_running"], answer["processes"], job)
    return replace(done, hint=f"It {unrecorded_end(job.state)}.")


def _done(is_ours: bool, processes: int, job: Job) -> Kill:
    """Of a job that had ended, what it left running was killed."""
    was_left = processes > 0 and leaves_processes(job.state)
    return Kill("killed" if is_ours or was_left else "already_terminated", processes, job)


# -- by the shim ------------------------------------------------------------------------------------


def _ask_to_kill(context: Context, job_id: str, number: int, grace_s: float) -> dict[str, Any] | None:
    """None: there is no shim, or none that answers. If the shim dies meanwhile, its guard is asked."""
    store, began = context.store, time.monotonic()
    deadline, last = began + CONNECT_PATIENCE_S, began + grace_s + KILL_PATIENCE_S
    waking = Waking(lambda: supervisors_of(context, job_id))
    while store.has_shim(job_id) and time.monotonic() < deadline:
        asked_at = time.monotonic()
        left_s = max(0.0, began + grace_s - asked_at)
        with contextlib.suppress(NoShim, TimeoutError), ShimConnection(store.control_path(job_id)) as shim:
            shim.send(CONNECT_PATIENCE_S, op="kill", signal=number, grace_s=left_s)
            return _answer(context, job_id, shim, waking, left_s)
        if time.monotonic() > asked_at + CONNECT_PATIENCE_S:  # it was one that listened
            deadline = min(time.monotonic() + CONNECT_PATIENCE_S, last)
        waking.now_and_then()
        time.sleep(LOOK_AGAIN_S)
    return None


def _answer(
    context: Context, job_id: str, shim: ShimConnection, waking: Waking, grace_s: float
) -> dict[str, Any]:
    killed = 0
    if not waking.until_readable(shim, grace_s + LATE_S):
        with supervisors_of(context, job_id) as supervisors:
            killed = supervisors.kill_job()
        if not waking.until_readable(shim, KILL_PATIENCE_S):
            raise _stuck(context, job_id)
    if killed:  # whatever the late answer says, the job ran until we killed it
        return {"was_running": True, "processes": killed, "unrecorded": None}
    answer = shim.receive(CONNECT_PATIENCE_S)
    told = {name: answer[name] for name in ("was_running", "processes")}
    return told | {"unrecorded": answer.get("unrecorded")}


# -- by signals -------------------------------------------------------------------------------------


def _kill_by_signals(context: Context, job_id: str, supervisors: Supervisors, grace_s: float) -> int:
    """Of a shim that cannot be asked: its socket is gone or another's, or it does not answer.

    The shim gives the job a grace of its own, which may be too long. Returns how many processes there were.
    """
    count = len(supervisors.job_processes())
    supervisors.terminate()
    # whatever the grace: the shim must know that the job is killed before it sees it die
    patience_s = max(grace_s, NOTICE_S) if grace_s < SHIMS_GRACE_S else SHIMS_GRACE_S + LATE_S
    if not supervisors.are_gone(patience_s):
        supervisors.kill_job()
        if not supervisors.are_gone(KILL_PATIENCE_S):
            raise _stuck(context, job_id)
    context.store.forget(job_id)
    return max(count, sweep.kill(job_id))


def _stuck(context: Context, job_id: str) -> NotSteerable:
    with supervisors_of(context, job_id) as supervisors:
        left = len(supervisors.job_processes())
    if left:
        return NotSteerable(job_id, f"{left} of its processes do not die, not even of SIGKILL")
    return NotSteerable(
        job_id, "its processes are dead, but its shim does not go on: something stops or traces it"
    )


# -- without a shim ---------------------------------------------------------------------------------


def _kill_without_shim(context: Context, job: Job, was_running: bool) -> Kill:
    """The job has ended, perhaps while we asked its shim; or it is lost, and what is left of it must go."""
    left = sweep.kill(job.id, first_process(job)) if isinstance(job.state, Lost) else 0
    context.store.remove_control_groups(job.id)
    return _done(was_running and isinstance(job.state, OF_A_KILL), left, job)


def _kill_removed(context: Context, job_id: str, grace_s: float) -> Kill:
    """A job without a directory can still have processes: it may have removed the directory itself."""
    with supervisors_of(context, job_id) as supervisors:
        if supervisors.were_found:
            return Kill("killed", _kill_by_signals(context, job_id, supervisors, grace_s), None)
    left = 0 if sweep.are_supervised(sweep.members(job_id)) else sweep.kill(job_id)
    return Kill("killed" if left else "not_found", left, None)
