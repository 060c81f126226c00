"""Running a job again: a new job with the same spec, which says of which job it is.

The environment of a job is nowhere on disk. While the job runs, the kernel has that of its first process; else
the new job gets the caller's. Under an allow-list it always does: variables can change what a command runs. A job
of a target gets that of its machine.
"""

import contextlib
import os
import time
from collections.abc import Mapping

from bgjob.api.context import Context
from bgjob.api.kill import kill_job
from bgjob.api.processes import is_alive
from bgjob.api.queue import place_of
from bgjob.api.results import Place
from bgjob.api.spec import new_id, queued_in_turn, target_meant, working_directory
from bgjob.api.start import Prepared, check_policy, check_startable, noting_refusal, start_prepared, started
from bgjob.core import policy
from bgjob.core.config import environment_for_jobs
from bgjob.core.errors import InvalidArgument, JobLimitReached, NotSteerable
from bgjob.core.frozen import Frozen, replace
from bgjob.core.job import Job, Queued, Running, Spec, UnreadableSpec
from bgjob.store.records import read_spec
from bgjob.system.processes import JOB_ID_VARIABLE, read_if_there


class Rerun(Frozen):
    job: Job
    """The new one."""
    has_environment: bool
    """It has that of the old one, or of its target. False: it has the caller's."""
    place: Place | None
    """None: it is not queued."""


def rerun_job(context: Context, job_id: str, *, by: Mapping[str, str]) -> Rerun:
    """Starts it beside the old one, if that still runs. `by`: who asks, see Spec."""
    again, has_environment = _again(context, context.store.load(job_id), by)
    return _told(context, start_prepared(context, again), has_environment)


def restart_job(context: Context, job_id: str, *, by: Mapping[str, str], grace_s: float = 5.0) -> Rerun:
    """Ends the old one first, with what it has left running. The new one waits if its slot is taken meanwhile."""
    job = context.store.load(job_id)
    if context.environment.get(JOB_ID_VARIABLE) == job_id:
        raise NotSteerable(job_id, "you are in it, and would end with it before it is started again")
    if isinstance(job.state, Queued):
        raise NotSteerable(job_id, "it is queued and has not started yet: there is nothing to restart")
    with _one_at_a_time(context, job.spec):
        # first: an error must not end the job that runs, and its environment is gone with it
        again, has_environment = _again(context, job, by)
        if is_alive(context, job):
            check_startable(context, again)
            kill_job(context, job_id, grace_s=grace_s, session=by.get("session"))
        return _told(context, _start_or_enqueue(context, again), has_environment)


def _told(context: Context, job: Job, has_environment: bool) -> Rerun:
    job = started(context, job)
    return Rerun(job, has_environment, place_of(context, job))


def _one_at_a_time(context: Context, spec: Spec) -> contextlib.AbstractContextManager[None]:
    """Between its end and its new start, callers who want one job of this name wait."""
    return context.store.name_lock(spec.name) if spec.name else contextlib.nullcontext()


def _start_or_enqueue(context: Context, again: Prepared) -> Job:
    try:
        return start_prepared(context, again)
    except JobLimitReached:  # a job that waited has taken the slot: ours is not to be lost
        queue = queued_in_turn(context, again.spec.group)
        return start_prepared(context, again._replace(spec=replace(again.spec, queue=queue)))


# -- what is started --------------------------------------------------------------------------------


def _again(context: Context, job: Job, by: Mapping[str, str]) -> tuple[Prepared, bool]:
    """InvalidArgument or InvalidCommand: it cannot be run, or may not be here. And whose environment it has."""
    if isinstance(job.spec, UnreadableSpec):
        raise InvalidArgument(f"Job {job.id} cannot be run again: {job.spec.command.strip('()')}.")
    target = target_meant(context, job.spec.target)
    if target is None:
        _check_group(context, job)
    spec = _spec(context, job, by)
    with noting_refusal(context):
        check_policy(context.settings, spec.command, spec.cwd, {}, target)
    is_restricted = bool(context.settings.allowed_commands)
    kept = None if is_restricted or target else environment_of(job)
    own = dict(target.env if target else context.environment)
    environment = own if kept is None else environment_for_jobs(kept, context.settings)
    if is_restricted:
        environment |= policy.NO_SHELL_ESCAPES
    place = place_of(context, job)
    has_environment = kept is not None or target is not None
    return Prepared(spec, environment, place.priority if place else None), has_environment


def _check_group(context: Context, job: Job) -> None:
    """Without its limit here, one job more than the group allows would run."""
    group = job.spec.group
    if group is not None and group not in context.settings.groups:
        raise InvalidArgument(
            f"Job {job.id} cannot be run again here: its group {group!r} is not in MCP_BG_GROUPS."
        )


def _spec(context: Context, job: Job, by: Mapping[str, str]) -> Spec:
    """What the starter's settings decide is decided by ours; all else is as it was."""
    settings, old = context.settings, _as_asked(context, job)
    return replace(
        old,
        id=new_id(),
        of=old.id,
        by=by,
        created_at=time.time(),
        cwd=old.cwd if old.target else working_directory(settings.working_dir, old.cwd),
        queue=_queue(context, job),
        restricted=bool(settings.allowed_commands),
        on_event=settings.on_event,
        keep_days=settings.keep_days,
        keep_jobs=settings.keep_jobs,
    )


def _as_asked(context: Context, job: Job) -> Spec:
    """Return the spec as it was requested: that of a remote job has the shell and directory its target chose."""
    return read_spec(job.id, context.store.directory(job.id)) if job.spec.target else job.spec


def _queue(context: Context, job: Job) -> Mapping[str, object]:
    """What a job waited for once is over when it is run again; that it waits for its turn stays."""
    if isinstance(job.state, Queued) or not job.spec.queue:
        return job.spec.queue
    return queued_in_turn(context, job.spec.group)


def environment_of(job: Job) -> dict[str, str] | None:
    """Of the first process of a running job; None: the kernel does not tell.

    A program can write over its environment in memory, and a pid can be another process's by now: so it
    counts only whole, and with the mark that bgjob set.
    """
    run = job.run if isinstance(job.state, Running) and job.remote is None else None
    entries = (read_if_there(f"/proc/{run.pid}/environ") or b"").split(b"\0")[:-1] if run else []
    pairs = [os.fsdecode(entry).partition("=") for entry in entries]
    if not all(name and equals for name, equals, _ in pairs):
        return None
    variables = {name: value for name, _, value in pairs}
    return variables if variables.pop(JOB_ID_VARIABLE, None) == job.id else None
