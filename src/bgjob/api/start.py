"""Starting jobs: now, or in their turn."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

from bgjob.api.audit import note
from bgjob.api.context import Context, clean_up, ensure_dispatcher, ensure_watcher
from bgjob.api.spec import (
    Asked,
    check_length,
    checked_environment,
    is_inside,
    priority_of,
    spec_of,
    target_meant,
    working_directory,
)
from bgjob.core import policy
from bgjob.core.config import Settings
from bgjob.core.errors import (
    CannotStart,
    InvalidCommand,
    JobLimitReached,
    JobNotFound,
    NotAllowed,
)
from bgjob.core.job import Job, Lost, NeverStarted, Queued, Running, Spec
from bgjob.core.late_pattern import late_pattern
from bgjob.home import event_log, jobdir, queue_dir, sessions, watch_registry
from bgjob.link.spawn import Handover, packed
from bgjob.store import quota
from bgjob.store.notify_rules import applies_to
from bgjob.store.records import run_from

if TYPE_CHECKING:
    from bgjob.core.targets import Target

VARIABLE = late_pattern(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")
# a desktop's too: a notification is what many want of an event
HOOK_VARIABLES = (
    *("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"),
    *("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR"),
)


class Prepared(NamedTuple):
    """A job that is to be started: all that its caller asked for has been checked."""

    spec: Spec
    environment: Mapping[str, str]
    """All of it; of a job of a target, what is added to that of its machine."""
    priority: int | None
    """Within the queue; None: the caller gave none."""


def start_job(context: Context, command: str, **asked: Unpack[Asked]) -> Job:
    """A job that runs; or that has failed already, and says why."""
    return started(context, start_prepared(context, prepared(context, command, **asked)))


def started(context: Context, job: Job) -> Job:
    """A job that was just started, once it is known whether it could be exec'd."""
    answer = context.starts.finish(job.id)
    try:
        return job if answer is None else _as_reported(context, job.spec, answer)
    except OSError as error:
        raise CannotStart(error, context.store.home) from error


def prepared(context: Context, command: str, **asked: Unpack[Asked]) -> Prepared:
    """InvalidArgument or InvalidCommand: what is asked for cannot be."""
    command = command.replace("\r\n", "\n")
    env, settings, target = (
        asked.get("env") or {},
        context.settings,
        target_meant(context, asked.get("target")),
    )
    with noting_refusal(context):
        check_policy(settings, command, asked.get("cwd"), env, target)
    spec = spec_of(context, command, **asked)
    environment = {**(target.env if target else context.environment), **checked_environment(env)}
    if settings.allowed_commands:
        environment |= policy.NO_SHELL_ESCAPES
    return Prepared(spec, environment, priority_of(asked))


def start_prepared(context: Context, job: Prepared) -> Job:
    """A job that a shim and its guard own, or that waits in the queue; or one that has failed already.

    Whether it could be exec'd is known a moment later: `started` waits for it, and the job's record says it.
    """
    most_bytes = context.settings.max_store_bytes
    try:
        context.store.prepare()
        clean_up(context)
        if most_bytes is not None:
            quota.make_room(context.store, most_bytes)
        with _registered(context, job.spec), _expected(context, job.spec):
            if job.spec.target is not None:
                from bgjob.api.remote import start_at_target  # few starts need it

                return start_at_target(context, job.spec, job.environment, job.priority)
            return _launch_or_enqueue(context, job.spec, job.environment, job.priority or 0)
    except OSError as error:
        raise CannotStart(error, context.store.home) from error


def check_startable(context: Context, job: Prepared) -> None:
    """Raise BgjobError if this start would be refused, as far as that is known. Call it before killing a job for it."""
    if job.spec.target is not None:
        from bgjob.api.remote import check_at_target  # few starts need it

        check_at_target(context, job.spec, job.environment, job.priority)


@contextlib.contextmanager
def noting_refusal(context: Context, job_id: str | None = None) -> Iterator[None]:
    """Note a refusal by policy in the audit trail, without the command, which may hold a secret."""
    try:
        yield
    except (InvalidCommand, NotAllowed):
        note(context.store.home, "refused", job_id, why="policy")
        raise


def check_policy(
    settings: Settings, command: str, cwd: str | None, env: Mapping[str, str], target: "Target | None" = None
) -> None:
    allowed, base = settings.allowed_commands, settings.working_dir
    check_length(command)
    if why := policy.broken_rule(command, allowed):
        raise InvalidCommand(why)
    if allowed and env:
        raise InvalidCommand(
            "env cannot be set while MCP_BG_ALLOWED_COMMANDS is: it can change what a command runs"
        )
    if allowed and cwd and target:
        if cwd != (target.cwd or "~"):  # where its links lead is not known here
            raise InvalidCommand("cwd cannot be set for a target while MCP_BG_ALLOWED_COMMANDS is set")
        return
    if allowed and cwd and not is_inside(working_directory(base, cwd), base):
        raise InvalidCommand("cwd must be inside MCP_BG_WORKING_DIR while MCP_BG_ALLOWED_COMMANDS is set")


def check_may_steer(settings: Settings, job: Job) -> None:
    """A server with an allow-list types only into what it could have started itself."""
    allowed, spec = settings.allowed_commands, job.spec
    if not allowed:
        return
    if why := policy.broken_rule(spec.command, allowed):
        raise NotAllowed(job.id, why)
    if spec.target and not spec.restricted:
        raise NotAllowed(job.id, "a server without MCP_BG_ALLOWED_COMMANDS started it on another machine")
    if not spec.target and not is_inside(spec.cwd, settings.working_dir):
        raise NotAllowed(job.id, "it does not run inside MCP_BG_WORKING_DIR")
    if spec.pty and not spec.restricted:
        why = "a server without MCP_BG_ALLOWED_COMMANDS started it on a terminal, where pagers run commands"
        raise NotAllowed(job.id, why)


# -- now ----------------------------------------------------------------------------------------------


def _launch_or_enqueue(context: Context, spec: Spec, environment: Mapping[str, str], priority: int) -> Job:
    """At once where that is possible; else, if the job may wait, in its turn."""
    if not spec.queue:
        return launch(context, spec, environment)
    stands, why = queue_dir.readiness(context.store.home, vars(spec))
    if stands == "impossible":
        return _never_started(context, spec, why)
    if stands == "ready" and not _are_others_first(context):
        with contextlib.suppress(JobLimitReached):
            return launch(context, spec, environment)
    return _enqueue(context, spec, environment, priority)


def launch(context: Context, spec: Spec, environment: Mapping[str, str]) -> Job:
    """JobLimitReached: there is no free slot. The shim makes the job durable, in a moment."""
    store, settings = context.store, context.settings
    with contextlib.ExitStack() as ours:
        slots = store.claim_slots(settings.max_jobs, spec.group, settings.groups.get(spec.group or ""))
        for slot in slots:
            ours.callback(os.close, slot)
        new = store.create(spec)
        ours.callback(os.close, new.lock)
        records = vars(spec), environment, context.environment
        start = context.spawner.start(Handover(new.directory, new.lock, slots, *records))
        if start.is_owned():
            context.starts.add(spec.id, start)
            return Job(spec, Running(None), None)
    return _as_reported(context, spec, start.finish())


def _as_reported(context: Context, spec: Spec, answer: Mapping[str, Any]) -> Job:
    run = run_from(answer)
    return Job(spec, Running(run), run) if run else _failed(context, spec, answer)


def _failed(context: Context, spec: Spec, answer: Mapping[str, Any]) -> Job:
    """The job's record says why it failed; the answer of the shim does if the record could not be written."""
    try:
        job = context.store.load(spec.id)
    except JobNotFound:  # an error would say that nothing was run
        return Job(spec, Lost("its directory was removed as it started: whether it ran is not known"), None)
    if "error" in answer and not isinstance(job.state, NeverStarted):
        why = OSError(answer["error"])
        why.errno = answer.get("errno")
        raise why
    return job


# -- in its turn ------------------------------------------------------------------------------------


def _are_others_first(context: Context) -> bool:
    home = context.store.home
    return context.burst.goes_on() or queue_dir.has_dispatcher(home) or bool(queue_dir.entries(home))


def _never_started(context: Context, spec: Spec, why: str) -> Job:
    """What the job was to run after has failed already: it ends before it is queued."""
    store = context.store
    new = store.create(spec)
    try:
        queue_dir.end_unstarted(new.directory, cause="never_started", reason=why)
        jobdir.make_durable(new.lock, new.directory)
    finally:
        os.close(new.lock)
    event_log.append(store.events, "ended", spec.id, name=spec.name, cause="never_started", reason=why)
    return store.load(spec.id)


def _enqueue(context: Context, spec: Spec, environment: Mapping[str, str], priority: int) -> Job:
    store = context.store
    new = store.create(spec, packed(vars(spec), environment, context.umask), priority)
    with contextlib.suppress(OSError):  # the job will run, and an error would say that it does not
        # before it starts: what is written meanwhile would be synced too
        jobdir.make_durable(new.lock, new.directory)
    event_log.append(store.events, "queued", spec.id, name=spec.name, priority=priority)
    os.close(new.lock)
    ensure_dispatcher(context)
    return Job(spec, Queued(None), None)


# -- watched ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _registered(context: Context, spec: Spec) -> Iterator[None]:
    """The watcher looks after the job's watches, hooks and notices, also when this process is gone."""
    home = context.store.home
    if not (spec.watch or spec.on_event or applies_to(home, spec.notify)):
        yield
        return
    with contextlib.ExitStack() as undo:
        watch_registry.add(home, spec.id, _hook_environment(context.environment, spec.on_event))
        undo.callback(watch_registry.remove, home, spec.id)
        yield
        undo.pop_all()
    ensure_watcher(context)


@contextlib.contextmanager
def _expected(context: Context, spec: Spec) -> Iterator[None]:
    """The session that starts the job is to be told of its end. First: it may end at once."""
    session = spec.by.get("session")
    if session is None:
        yield
        return
    sessions.expect(context.store.home, session, spec.id)
    try:
        yield
    except BaseException:
        sessions.forget(context.store.home, session, spec.id)
        raise


def _hook_environment(environment: Mapping[str, str], command: str | None) -> dict[str, str]:
    """The variables of the job's hook: those that any program wants, and those that its command names.

    They rest on disk while the job has events: so no token that is meant for another program.
    """
    if command is None:
        return {}
    wanted = {*HOOK_VARIABLES, *VARIABLE.findall(command)}
    return {name: value for name, value in environment.items() if name in wanted}
