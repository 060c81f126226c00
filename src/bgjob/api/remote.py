"""Jobs of targets: what is asked of them goes to the target's relay; what is read of them is here on disk."""

import contextlib
import os
import time
from collections.abc import Mapping
from typing import Any

from bgjob.api.activity import Activity, Listening, Process
from bgjob.api.context import Context
from bgjob.api.results import Kill
from bgjob.api.spec import Asked
from bgjob.core import options, policy
from bgjob.core.errors import BgjobError, InvalidArgument, JobNotFound, NotSteerable, TargetUnreachable
from bgjob.core.job import Job, Spec
from bgjob.core.targets import Target, as_record
from bgjob.home import jobdir, target_dir
from bgjob.remote.client import NoAnswer, ask_relay
from bgjob.system.processes import signal_name

# What stays here, of all that a caller may ask for.
OURS = frozenset(("notify", "kill_on_cancel"))
KILL_PATIENCE_S = 60.0
STATUS_PATIENCE_S = 2.0


def target_of(context: Context, name: str) -> Target:
    """InvalidArgument: there is no such target."""
    try:
        return context.targets[name]
    except KeyError:
        known = f"Accepted: {', '.join(context.targets)}." if context.targets else "There are none."
        raise InvalidArgument(f"={name[:60]!r} is not in targets.toml. {known}", argument="target") from None


# -- starting ---------------------------------------------------------------------------------------


def request_of(context: Context, spec: Spec, asked: Asked) -> dict[str, Any]:
    """What is asked of the target. Patterns stay here, where there is RE2; so do sessions and notices."""
    given = {name: value for name, value in (asked.get("options") or {}).items() if value is not None}
    resources = {name: value for name, value in options.checked(given).items() if name in options.TARGET}
    kept = {name: value for name, value in given.items() if name not in options.TARGET and name not in OURS}
    target = target_of(context, str(spec.target))
    environment = {**target.env, **(asked.get("env") or {})}
    if spec.restricted:
        environment |= policy.NO_SHELL_ESCAPES
    start: dict[str, Any] = {
        "cwd": spec.cwd or target.cwd,
        "env": environment or None,
        "name": spec.name,
        "timeout_s": spec.timeout_s,
        "shell": spec.shell or None,
        "pty": spec.pty,
        "rows": spec.rows,
        "cols": spec.cols,
        "stdin": spec.stdin,
        "queue": asked.get("queue", False),
        "after": _after(context, spec, asked),
        "by": {name: value for name, value in spec.by.items() if name != "session"},
        "options": {"output": spec.max_output_bytes, **kept},
    }
    return {"start": {"command": spec.command, "asked": start}, "resources": resources}


def _after(context: Context, spec: Spec, asked: Asked) -> list[str]:
    from bgjob.api.find import find_job

    jobs = [find_job(context, each) for each in asked.get("after") or ()]
    for job in jobs:
        if job.spec.target != spec.target:
            where = f"on {job.spec.target}" if job.spec.target else "on this machine"
            raise InvalidArgument(
                f" has job {job.id}, which runs {where}: a job of {spec.target} can wait for jobs of {spec.target}.",
                "Wait for it with wait_for_job instead.",
                argument="after",
            )
    return [job.id for job in jobs]


def start_at_target(context: Context, spec: Spec, request: Mapping[str, Any]) -> Job:
    """A job that its target has, or has been asked for and did not answer yet. BgjobError: nothing was run."""
    store, target = context.store, target_of(context, str(spec.target))
    target_dir.make(store.home, target.name, as_record(target))
    # First: if we are killed now, the relay finds the job, or nothing.
    target_dir.add(store.home, target.name, spec.id)
    asked = {name: value for name, value in request["start"]["asked"].items() if name != "env"}
    record = {"phase": "submitting", "asked": asked, "resources": request["resources"]}
    new = store.create(spec, records={jobdir.REMOTE: record, jobdir.REQUEST: dict(request)})
    try:
        jobdir.make_durable(new.lock, new.directory)
    finally:
        os.close(new.lock)
    try:
        _ask(context, target.name, op="start", job=spec.id)
    except NoAnswer:
        pass  # the relay goes on asking: whether the job runs is told as soon as it is known
    except BgjobError:
        _undo(context, target.name, spec)
        raise
    return store.load(spec.id)


def request_again(context: Context, job: Job) -> dict[str, Any]:
    """What was asked of the target, once more. The variables that were given for it are kept nowhere."""
    target_of(context, str(job.spec.target))
    known = context.store.request(job.id)
    asked = {**known.get("asked", {}), "after": [], "env": None}
    start = {"command": job.spec.command, "asked": asked}
    return {"start": start, "resources": known.get("resources", {})}


def _undo(context: Context, target: str, spec: Spec) -> None:
    target_dir.remove(context.store.home, target, spec.id)
    places = [place for place, job_id in context.store.ids() if job_id == spec.id]
    for place in places:
        context.store.remove(place, spec.id)


# -- steering ---------------------------------------------------------------------------------------


def kill_at_target(context: Context, job: Job, number: int, grace_s: float) -> Kill:
    """TargetUnreachable: whether it runs is not known, and it was not killed."""
    words = {"grace_s": grace_s, "signal": signal_name(number), "only_signal": False}
    try:
        answer = _ask(context, _target(job), KILL_PATIENCE_S + grace_s, op="kill", job=job.id, **words)
    except JobNotFound:  # of the relay: the job is over
        answer = {"status": "already_terminated", "processes": 0}
    except NoAnswer as error:
        raise NotSteerable(job.id, f"{error.what} Whether it was killed is not known") from None
    context.store.forget(job.id)
    return Kill(answer["status"], answer["processes"], context.store.load(job.id))


def check_reachable(job: Job) -> None:
    """TargetUnreachable: its machine cannot be reached now; nothing was sent to it."""
    if job.remote and job.remote.unreachable:
        raise TargetUnreachable(job.remote.target, job.remote.unreachable)


# -- looking ----------------------------------------------------------------------------------------


def status_at_target(
    context: Context, job: Job, *, detail: bool = False, deadline: float | None = None
) -> Mapping[str, Any]:
    """What only its machine knows: descendants, waits_for_input, prompt, activity. Empty: it cannot be asked now."""
    patience_s = STATUS_PATIENCE_S if deadline is None else deadline - time.monotonic()
    if patience_s <= 0 or (job.remote and job.remote.unreachable):
        return {}
    with contextlib.suppress(BgjobError):
        return _ask(context, _target(job), patience_s, op="status", job=job.id, detail=detail)
    return {}


def activity_from(told: Mapping[str, Any] | None) -> Activity | None:
    if told is None:
        return None
    known = {name: value for name, value in told.items() if name in Activity.defaults}
    tree, listening = known.get("tree"), known.get("listening")
    known["tree"] = None if tree is None else [Process(**each) for each in tree]
    known["listening"] = None if listening is None else [Listening(**each) for each in listening]
    return Activity(**known)


def _target(job: Job) -> str:
    return str(job.spec.target)


def _ask(context: Context, target: str, patience_s: float = 60.0, **request: object) -> dict[str, Any]:
    return ask_relay(context.store.home, target, context.environment, patience_s, **request)
