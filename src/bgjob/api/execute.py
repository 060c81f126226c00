"""Running a command: start it or find it running, and perhaps wait for it, in one call."""

import math
from collections.abc import Sequence
from typing import Literal, Unpack, assert_never

from bgjob.api.conditions import Conditions
from bgjob.api.context import Context
from bgjob.api.find import jobs_named
from bgjob.api.kill import kill_job
from bgjob.api.output import Shown
from bgjob.api.processes import is_alive, left_running
from bgjob.api.queue import move, place_of
from bgjob.api.results import Executed
from bgjob.api.session import expect
from bgjob.api.spec import Asked, queued_in_turn
from bgjob.api.start import Prepared, check_startable, prepared, start_prepared, started
from bgjob.api.wait import Cancellation, Tell, Until, conditions_of, wait_for_conditions
from bgjob.core.errors import AlreadyRunning, InvalidArgument
from bgjob.core.frozen import replace
from bgjob.core.job import Job, Lost, Queued, Running, StdinWord

IfRunning = Literal["new", "reuse", "refuse", "restart"]


def execute_command(
    context: Context,
    command: str,
    *,
    if_running: IfRunning = "new",
    wait_s: float = 0.0,
    until: Until | None = None,
    most_s: float | None = None,
    shown: Shown | None = None,
    cancellation: Cancellation | None = None,
    tell: Tell | None = None,
    **asked: Unpack[Asked],
) -> Executed:
    """`until`: wait for that and not for the end, as long as a call may if `wait_s` does not say how long.

    `most_s`: how long this call may wait; None: as the setting says. Then it is told that it waited so long.
    """
    conditions = _conditions(until or {})  # first: an error must not leave a job behind
    has_until = conditions.are_given or conditions.stop_pattern is not None
    asked["stdin"] = asked.get("stdin") or _default_stdin(asked, wait_s, has_until=has_until)
    if conditions.for_input and asked["stdin"] == "null":
        raise InvalidArgument("='null' never waits for input. Start it with stdin='open'.", argument="stdin")
    wanted = prepared(context, command, **asked)  # as well: an error must not end the job that runs
    job, reused = _ensure(context, wanted, if_running)
    session = wanted.spec.by.get("session")
    if reused and isinstance(job.state, Running):
        expect(context, session, job.id)
    longest_s = context.settings.max_wait_s if most_s is None else math.inf
    timeout_s = wait_s or (longest_s if has_until else 0.0)
    if timeout_s > 0:
        job = started(context, job)
    if reused and isinstance(job.state, Queued) and wanted.priority is not None:
        move(context, job.id, wanted.priority)  # False: it has started meanwhile, which is better still
    executed = Executed(
        job,
        reused,
        waited=None,
        place=place_of(context, job),
        left_running=left_running(context, job) if reused else 0,
        asked_command=command,
    )
    has_no_record = isinstance(job.state, Lost) and not reused  # its directory was removed as it started
    if timeout_s <= 0 or has_no_record:
        return executed
    (waited,) = wait_for_conditions(
        context,
        [job.id],
        conditions,
        timeout_s=timeout_s,
        most_s=most_s,
        shown=shown,
        session=session,
        cancellation=cancellation,
        tell=tell,
    )
    met = waited.met if has_until else None
    return replace(executed, job=waited.status.job, waited=waited, met=met, place=waited.status.place)


def _conditions(until: Until) -> Conditions:
    try:
        return conditions_of(**until)
    except InvalidArgument as problem:
        raise InvalidArgument(f": {problem}", argument="until") from None


def _default_stdin(asked: Asked, wait_s: float, *, has_until: bool) -> StdinWord:
    """A caller who waits for the end types nothing: many programs read a stdin that is a pipe, and hang.

    A server is waited for until it is ready, and some end when their stdin does.
    """
    return "null" if wait_s > 0 and not has_until and not asked.get("pty") else "open"


def _ensure(context: Context, wanted: Prepared, if_running: IfRunning) -> tuple[Job, bool]:
    """(the job, whether it ran before). Of several callers at once with one name, one starts it."""
    name = wanted.spec.name
    if if_running == "new":
        return start_prepared(context, wanted), False
    if not name:
        raise InvalidArgument(
            f"if_running={if_running!r} needs a name: it is by its name that a job is found."
        )
    with context.store.name_lock(name):
        # The same name on another target is a different server.
        same = [
            job for job in jobs_named(context, name, may_run=True) if job.spec.target == wanted.spec.target
        ]
        running = [job for job in same if is_alive(context, job)]
        if not running:
            return start_prepared(context, wanted), False
        match if_running:
            case "reuse":
                return running[0], True
            case "refuse":
                raise AlreadyRunning(name, running[0].id)
            case "restart":
                return start_prepared(context, _instead_of(context, running, wanted)), False
            case _:
                assert_never(if_running)


def _instead_of(context: Context, running: Sequence[Job], wanted: Prepared) -> Prepared:
    """Ends all of them. What is to be started in place of a job in the queue may have to wait there, too."""
    own = next((job.id for job in running if job.id in wanted.spec.queue.get("after", ())), None)
    if own:
        raise InvalidArgument(f" has the job that is to be restarted, {own}: leave it out.", argument="after")
    check_startable(context, wanted)
    for job in running:
        # Its end is what the caller asks for, unless it had ended before and left processes.
        is_told = isinstance(job.state, Running)
        kill_job(context, job.id, session=wanted.spec.by.get("session") if is_told else None)
    if wanted.spec.queue or not isinstance(running[0].state, Queued):
        return wanted
    queue = queued_in_turn(context, wanted.spec.group)
    return wanted._replace(spec=replace(wanted.spec, queue=queue))
