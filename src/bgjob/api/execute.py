"""Running a command: start it or find it running, and perhaps wait for it, in one call."""

from collections.abc import Callable
from typing import Literal, Unpack, assert_never

from bgjob.api.conditions import Conditions
from bgjob.api.context import Context
from bgjob.api.kill import kill_job
from bgjob.api.output import Shown
from bgjob.api.queue import move, place_of
from bgjob.api.results import Executed
from bgjob.api.spec import Asked, priority_of
from bgjob.api.start import start_job
from bgjob.api.wait import Cancellation, Tell, wait_for_conditions
from bgjob.core.errors import AlreadyRunning, InvalidArgument
from bgjob.core.job import Job, Lost, Queued, Running

IfRunning = Literal["new", "reuse", "refuse", "restart"]


def execute_command(
    context: Context,
    command: str,
    *,
    if_running: IfRunning = "new",
    wait_s: float = 0.0,
    shown: Shown | None = None,
    cancellation: Cancellation | None = None,
    tell: Tell | None = None,
    **asked: Unpack[Asked],
) -> Executed:
    job, reused = _ensure(
        context, asked.get("name"), if_running, lambda: start_job(context, command, **asked)
    )
    if reused and isinstance(job.state, Queued):
        priority = priority_of(asked)
        if priority is not None:
            move(context, job.id, priority)  # False: it has started meanwhile, which is better still
    if wait_s <= 0 or isinstance(job.state, Lost):
        return Executed(job, reused, None, place_of(context, job))
    (waited,) = wait_for_conditions(
        context,
        [job.id],
        Conditions(),
        timeout_s=wait_s,
        shown=shown,
        cancellation=cancellation,
        tell=tell,
    )
    return Executed(waited.status.job, reused, waited, waited.status.place)


def _ensure(
    context: Context, name: str | None, if_running: IfRunning, start: Callable[[], Job]
) -> tuple[Job, bool]:
    """(the job, whether it ran before). Of several callers at once with one name, one starts it."""
    if if_running == "new":
        return start(), False
    if not name:
        raise InvalidArgument(
            f"if_running={if_running!r} needs a name: it is by its name that a job is found."
        )
    with context.store.name_lock(name):
        running = _running(context, name)
        if running is None:
            return start(), False
        match if_running:
            case "reuse":
                return running, True
            case "refuse":
                raise AlreadyRunning(name, running.id)
            case "restart":
                kill_job(context, running.id)
                return start(), False
            case _:
                assert_never(if_running)


def _running(context: Context, name: str) -> Job | None:
    for _, job in context.store.jobs():
        if job.spec.name == name and isinstance(job.state, Running):
            return job
    return None
