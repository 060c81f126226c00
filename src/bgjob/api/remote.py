"""Jobs of targets: what is asked of them goes to the target's relay; what is read of them is here on disk."""

import contextlib
import os
import time
from collections.abc import Mapping
from typing import Any

from bgjob.api.activity import Activity, Listening, Process
from bgjob.api.context import Context
from bgjob.api.hints import out_of_reach
from bgjob.api.processes import not_running
from bgjob.api.results import Kill
from bgjob.api.target_advice import advice_for
from bgjob.core import options
from bgjob.core.errors import (
    BgjobError,
    InvalidArgument,
    JobNotFound,
    NotSteerable,
    StillReachable,
    TargetUnreachable,
)
from bgjob.core.job import Job, Running, Spec
from bgjob.core.targets import Target, as_record
from bgjob.home import jobdir, queue_dir, target_dir
from bgjob.remote.client import NoAnswer, NotUnderstood, ask_relay
from bgjob.store.records import read_remote
from bgjob.system.processes import signal_name

KILL_PATIENCE_S = 60.0
STATUS_PATIENCE_S = 2.0
# Readers of a job hold its lock for a moment.
LOCK_TRIES = 50


# -- starting ---------------------------------------------------------------------------------------


def start_at_target(
    context: Context, spec: Spec, environment: Mapping[str, str], priority: int | None
) -> Job:
    """A job that its target has, or has been asked for and did not answer yet. BgjobError: nothing was run."""
    store, target = context.store, context.targets[str(spec.target)]
    request = _request(context, spec, environment, priority)
    target_dir.make(store.home, target.name, as_record(target))
    # First: if we are killed now, the relay finds the job, or nothing.
    target_dir.add(store.home, target.name, spec.id)
    stands = {"phase": "submitting", "handover": target_dir.HERE}
    new = store.create(spec, records={jobdir.REMOTE: stands, jobdir.REQUEST: request})
    try:
        jobdir.make_durable(new.lock, new.directory)
    finally:
        os.close(new.lock)
    try:
        _ask(context, target.name, op="start", job=spec.id)
    except NoAnswer:
        pass  # the relay keeps asking, and records whether the job runs once that is known
    except BgjobError as error:
        if _undo(context, target.name, spec):
            raise _with_advice(target, error) from None
    return store.load(spec.id)


def _with_advice(target: Target, error: BgjobError) -> BgjobError:
    """Add what to do before trying again, if that is known."""
    if not isinstance(error, TargetUnreachable) or not (
        advice := advice_for(target, error.why, error.trouble)
    ):
        return error
    return TargetUnreachable(target.name, error.why, advice, error.trouble)


def check_at_target(
    context: Context, spec: Spec, environment: Mapping[str, str], priority: int | None
) -> None:
    """Raise BgjobError if the target cannot be reached or would refuse this job. Nothing is started."""
    target = context.targets[str(spec.target)]
    request = _request(context, spec, environment, priority)
    target_dir.make(context.store.home, target.name, as_record(target))
    with contextlib.suppress(NotUnderstood):
        _ask(context, target.name, op="check", **request)


def _request(
    context: Context, spec: Spec, environment: Mapping[str, str], priority: int | None
) -> dict[str, Any]:
    """As a caller over there would ask. Patterns stay here, where there is RE2; so do sessions and notices."""
    has_own_queue = context.targets[str(spec.target)].kind != "ssh"
    if has_own_queue:
        _check_queue(spec)
    asked: dict[str, Any] = {
        "cwd": spec.cwd,
        "env": dict(environment) or None,
        "name": spec.name,
        "timeout_s": spec.timeout_s,
        "shell": spec.shell or None,
        "pty": spec.pty,
        "rows": spec.rows,
        "cols": spec.cols,
        "stdin": spec.stdin,
        "queue": bool(spec.queue) and not has_own_queue,
        "after": _after(context, spec),
        "by": {name: value for name, value in spec.by.items() if name != "session"},
        "options": {**_options(spec), **({} if priority is None else {"priority": priority})},
    }
    start = {"command": spec.command, "asked": asked}
    return {"start": start, "resources": dict(spec.resources)}


def _check_queue(spec: Spec) -> None:
    """A cluster queues what it has no room for, and knows nothing of our queue."""
    if spec.queue.get("after") or spec.queue.get("not_before"):
        raise InvalidArgument(
            f" and delay_s do not go with target {spec.target}, which has a queue of its own.",
            "Start it once wait_for_job has told of the other job's end.",
            argument="after",
        )


def _options(spec: Spec) -> dict[str, Any]:
    chosen: dict[str, Any] = {
        **options.limits_shown(spec.limits, None),
        "output": spec.max_output_bytes,
        "on_output": spec.on_output_limit,
        "group": spec.group,
    }
    if restart := spec.restart:
        chosen |= {
            "restart": restart["policy"],
            "max_restarts": restart["max"],
            "backoff_s": restart["backoff_s"],
        }
    if queue := spec.queue:
        delay_s = max(0.0, queue["not_before"] - queue_dir.now_s()) if queue["not_before"] else 0.0
        chosen |= {"after_policy": queue["after_policy"], "delay_s": delay_s}
    return {name: value for name, value in chosen.items() if value is not None}


def _after(context: Context, spec: Spec) -> list[str]:
    ids: list[str] = list(spec.queue.get("after", ()))
    for job in map(context.store.load, ids):
        if job.spec.target != spec.target:
            where = f"on {job.spec.target}" if job.spec.target else "on this machine"
            raise InvalidArgument(
                f" has job {job.id}, which runs {where}: a job of {spec.target} can wait for jobs of {spec.target}.",
                "Wait for it with wait_for_job instead.",
                argument="after",
            )
    return ids


def _undo(context: Context, target: str, spec: Spec) -> bool:
    """Remove a job of which nothing was sent. False: a relay has taken it over, and decides."""
    lock = queue_dir.hold(context.store.directory(spec.id), LOCK_TRIES)
    if lock is None:
        return False
    try:
        return _remove_unsent(context, target, spec)
    finally:
        os.close(lock)


def _remove_unsent(context: Context, target: str, spec: Spec) -> bool:
    store = context.store
    directory = store.directory(spec.id)
    is_refused = os.path.lexists(f"{directory}/{jobdir.OUTCOME}")
    if not is_refused and read_remote(directory).get("handover") != target_dir.HERE:
        return False
    target_dir.remove(store.home, target, spec.id)
    places = [place for place, job_id in store.ids() if job_id == spec.id]
    for place in places:
        store.remove(place, spec.id)
    return True


# -- steering ---------------------------------------------------------------------------------------


def kill_at_target(context: Context, job: Job, number: int, grace_s: float) -> Kill:
    """TargetUnreachable: whether it runs is not known, and it was not killed."""
    words = {"grace_s": grace_s, "signal": signal_name(number), "only_signal": False}
    try:
        answer = _ask(context, _target(job), KILL_PATIENCE_S + grace_s, op="kill", job=job.id, **words)
    except JobNotFound:  # from the relay: the job is over, or its starter has not handed it over yet
        context.store.forget(job.id)
        if isinstance(context.store.load(job.id).state, Running):
            raise NotSteerable(job.id, "it is being started; try again in a moment") from None
        answer = {"status": "already_terminated", "processes": 0}
    except NoAnswer as error:
        raise NotSteerable(job.id, f"{error.what} Whether it was killed is not known") from None
    except TargetUnreachable as error:
        raise TargetUnreachable(error.target, error.why, out_of_reach(job.id)) from None
    context.store.forget(job.id)
    return Kill(answer["status"], answer["processes"], context.store.load(job.id))


def give_up(context: Context, job: Job) -> Job:
    """Record a job as lost whose machine does not answer. StillReachable: it does. NotRunning: the job has ended."""
    if not isinstance(job.state, Running):
        raise not_running(context, job)
    if job.remote is None:
        raise StillReachable(job.id)
    _ask(context, _target(job), op="give_up", job=job.id)
    return context.store.load(job.id)


def check_reachable(job: Job) -> None:
    """TargetUnreachable: its machine cannot be reached now; nothing was sent to it."""
    if job.remote and job.remote.unreachable:
        raise TargetUnreachable(job.remote.target, job.remote.unreachable, out_of_reach(job.id))


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
