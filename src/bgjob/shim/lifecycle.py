"""The life of a shim: it begins a job, or takes over that of a killed shim, and runs it to its end."""

from __future__ import annotations

import _socket as socket  # `socket` wraps it: 2 ms of each start
import fcntl
import json
import marshal
import os
import signal
import time

from bgjob.home import jobdir, queue_dir
from bgjob.home.layout import HOME
from bgjob.shim import child, events, launch_file
from bgjob.shim.child import TRANSIENT, ChildEnds, first_dead, open_ends, run_record
from bgjob.shim.handoff import HandoffReceiver, HandoffSender, Held, Inherited, open_held
from bgjob.shim.outcome import make_durable
from bgjob.shim.supervise import Supervisor
from bgjob.shim.upkeep import group_of
from bgjob.system import cgroup, detached, processes
from bgjob.system.own_argv import SHIM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from bgjob.home.jobdir import Record
    from bgjob.shim.limited_child import Bounds

    Spawn = Callable[[ChildEnds, Bounds | None], int]
    Result = TypeVar("Result")

TRIES, TRY_AGAIN_S = 25, 0.2
KILL_AGAIN_S = 0.02


def never_returning(directory: str, work: Callable[[], None]) -> None:
    """This process never returns into the code of the process that it was forked from."""
    status = 1
    try:
        work()
        status = 0
    finally:
        try:
            if status:
                _leave_traceback(directory)
        finally:
            os._exit(status)


# -- a job that begins --------------------------------------------------------------------------------


def rehearse() -> None:
    """Do what a start does, on nothing: memory that it writes to is copied now, and not while a caller waits."""
    ends, child_ends = open_ends({})
    here = os.open(os.curdir, os.O_RDONLY | os.O_CLOEXEC)
    inherited = Inherited([here, here, here, here])
    held = Held(inherited, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), ends)
    HandoffSender(None).give(os.curdir, held)
    _is_of_our_job(here)
    marshal.loads(marshal.dumps(({"id": "", "created_at": 0.0}, {"PATH": ""})))
    for each in (ends, child_ends, held.control):
        each.close()
    os.close(here)


def begin(directory: str, inherited: Inherited, umask: int, handoff: HandoffSender) -> None:
    os.chdir(directory)
    if not _is_of_our_job(inherited.lock):
        return
    spec = launch_file.read(inherited.launch_file)[0]
    try:
        held, child_ends = open_held(inherited, spec)
    except OSError as error:
        if _claim(inherited):  # else the starter tries again, and that job must not be said to have failed
            _give_up(inherited, error)
        return
    handoff.give(directory, held)  # before the job is ours: from then on shim or guard runs it to its end
    if _claim(inherited):
        _start(spec, held, handoff, umask, child_ends)
    else:
        held.withdraw()


def _is_of_our_job(lock: int) -> bool:
    """The directory holds the very spec that we have locked: no other directory was put in its place."""
    try:
        return os.path.samestat(os.stat(jobdir.SPEC, follow_symlinks=False), os.fstat(lock))
    except FileNotFoundError:
        return False


def _start(spec: Record, held: Held, handoff: HandoffSender, umask: int, child_ends: ChildEnds) -> None:
    try:
        jobdir.reserve_record(jobdir.OUTCOME)  # a job whose end could not be written down is not started
        was_queued = queue_dir.take_launch_file(os.curdir)
        held.publish()
        _claim(held.inherited)  # again: from now on the starter need not wait, for us or for what we tell it
        supervisor = Supervisor(spec, held, handoff, _spawner(spec, held.inherited, umask))
        supervisor.is_durable = was_queued
        pid = supervisor.start(child_ends)
    except (OSError, ValueError) as error:
        held.withdraw()
        return _give_up(held.inherited, error)
    if was_queued:
        queue_dir.remove_launch_file(os.curdir)
    run = run_record(pid, time.time())
    events.tell_started(spec, pid)  # before the record of the run: a guard that finds none tells it again
    supervisor.record_run(run)
    _report(held.inherited, run)
    handoff.started(pid, supervisor.started, keep_launch_file=_runs_again(spec))
    _run_to_end(supervisor)


def _spawner(spec: Record, inherited: Inherited, umask: int) -> Spawn:
    """A function that starts the job's process, for the first run and for each later one."""

    def spawn(child_ends: ChildEnds, bounds: Bounds | None) -> int:
        script = os.path.abspath(jobdir.SCRIPT) if os.path.exists(jobdir.SCRIPT) else None
        environment = launch_file.read(inherited.launch_file)[1]
        environment[processes.JOB_ID_VARIABLE] = spec["id"]
        pid = child.start(spec, script, environment, umask, child_ends, bounds)
        environment.clear()
        if not _runs_again(spec):
            launch_file.forget(inherited)
        return pid

    return spawn


def _runs_again(spec: Record) -> bool:
    return bool(spec.get("restart"))


def _run_to_end(supervisor: Supervisor) -> None:
    supervisor.run()
    _start_dispatcher()


def _start_dispatcher() -> None:
    """The last act of a shim: until the shim is gone, a process that it starts stays in its tree.

    No error leaves it: the guard would take the job over, though the starter was told that nothing was run.
    """
    try:
        if queue_dir.needs_dispatcher(HOME):
            os.posix_spawn(
                SHIM[0], [*SHIM, "queue", os.path.realpath(HOME)], detached.kept(os.environ, detached.BY_HOME)
            )
    except OSError:
        pass  # the home is gone, or the machine lacks something: the next process that looks starts one


# -- a job whose shim was killed ------------------------------------------------------------------------


def take_over(directory: str, received: HandoffReceiver, umask: int) -> None:
    """In the guard. All of the job is on disk, was received, or is our child, as the shim's children are now."""
    try:
        _enter(directory)
        spec = _retrying(launch_file.spec_on_disk)
    except OSError:
        return _kill_all(os.path.basename(directory))  # the job was removed: it has no log and no outcome
    held = received.held(spec)
    outcome = _retrying(_outcome_on_disk)
    spawn = _spawner(spec, held.inherited, umask)
    if outcome is None and (pause := received.paused()):
        return _resume_pause(received, spec, held, spawn, pause)
    if outcome is not None or received.started() or _has_children():
        return _resume(received, spec, held, spawn, outcome)
    # a shim reserves the room of the outcome once the job is its own: the starter may be gone since
    if jobdir.is_reserved(jobdir.OUTCOME) or _claim(held.inherited):
        try:
            held.ends.close()  # the shim alone had the job's ends of these, and nothing was started on them
            held.ends, child_ends = open_ends(spec)
        except OSError as error:
            return _give_up(held.inherited, error)
        _start(spec, held, HandoffSender(None), umask, child_ends)


def _enter(directory: str) -> None:
    try:
        os.chdir(directory)
    except PermissionError:
        os.chmod(directory, 0o700)
        os.chdir(directory)


def _kill_all(job_id: str) -> None:
    while _has_children():
        for pid in processes.TreeFreezer(os.getpid()).freeze():
            processes.send(pid, signal.SIGKILL)
        while dead := _dead_child():
            child.reap(dead)
        time.sleep(KILL_AGAIN_S)
    cgroup.remove_left([group_of(job_id)], job_id)


def _resume_pause(
    received: HandoffReceiver, spec: Record, held: Held, spawn: Spawn, pause: tuple[int, float, float]
) -> None:
    supervisor = _retrying(lambda: Supervisor(spec, held, HandoffSender(None), spawn))
    supervisor.resume_pause(*pause, received.stopping())
    if unrecorded := received.unrecorded():
        supervisor.resume_unrecorded(*unrecorded)
    _run_to_end(supervisor)


def _resume(
    received: HandoffReceiver, spec: Record, held: Held, spawn: Spawn, outcome: Record | None
) -> None:
    started = received.started()
    if started is None:
        pid = 0 if outcome else _retrying(_first_child)
        if pid and not processes.has_execed(pid):
            return _fail(
                held.inherited, OSError("the command could not be exec'd; its shim was killed meanwhile")
            )
        started = (pid, time.monotonic())
    supervisor = _retrying(lambda: Supervisor(spec, held, HandoffSender(None), spawn))
    supervisor.resume(*started, outcome, received.stopping())
    if unrecorded := received.unrecorded():
        supervisor.resume_unrecorded(*unrecorded)
    known = _retrying(lambda: jobdir.read_record(jobdir.RUN)) or {}
    run = run_record(started[0], known.get("started_at") or time.time())
    if not known:
        events.tell_started(spec, started[0])
    supervisor.record_run(run)
    _report(held.inherited, run)
    queue_dir.remove_launch_file(os.curdir)
    if not _runs_again(spec):
        launch_file.forget(held.inherited)
    _run_to_end(supervisor)


def _retrying(act: Callable[[], Result]) -> Result:
    """Descriptors, memory or the disk may be short for a moment only, and no process comes after a guard."""
    for _ in range(TRIES):
        try:
            return act()
        except OSError:
            time.sleep(TRY_AGAIN_S)
    return act()


def _has_children() -> bool:
    """By wait(), and not by /proc: a list that could not be read looks like an empty one."""
    try:
        first_dead()
    except ChildProcessError:
        return False
    return True


def _dead_child() -> child.Exit | None:
    try:
        return first_dead()
    except ChildProcessError:
        return None


def _first_child() -> int:
    """The job's process. Orphans of the job can become our children before the job itself does."""
    children = processes.children(os.getpid())
    if not children:
        raise OSError("the job's process cannot be seen")
    return processes.first_process(children)


def _outcome_on_disk() -> Record | None:
    outcome = jobdir.read_record(jobdir.OUTCOME)
    if outcome is None and os.path.exists(jobdir.OUTCOME):
        raise OSError("no readable outcome")
    return outcome


# -- what the starter is told ---------------------------------------------------------------------------


def _claim(inherited: Inherited) -> bool:
    """Tell the starter that we own the job; False if it has given up waiting."""
    try:
        if inherited.ready >= 0:  # else a shim before us has told it
            os.write(inherited.ready, b"+")
    except ConnectionError:
        return False
    return True


def _report(inherited: Inherited, answer: bytes) -> None:
    if inherited.ready < 0:
        return  # a shim before us has told it
    try:
        os.write(inherited.ready, answer + b"\n")
    except OSError:
        pass  # the starter was killed; the answer is on disk too, and the job goes on
    os.close(inherited.ready)


def _give_up(inherited: Inherited, error: Exception) -> None:
    """A queued job goes back into the queue if the trouble will pass: no starter waits for an answer."""
    if (
        getattr(error, "errno", None) in TRANSIENT
        and not _has_children()
        and queue_dir.put_back_launch_file(os.curdir)
    ):
        _unlock(inherited)
    else:
        _fail(inherited, error)


def _unlock(inherited: Inherited) -> None:
    for fd in (*inherited.slots, inherited.lock):
        fcntl.flock(fd, fcntl.LOCK_UN)


def _fail(inherited: Inherited, error: Exception) -> None:
    reason = f"{type(error).__name__}: {error}"
    outcome = jobdir.unstarted(cause="never_started", reason=reason)
    try:
        jobdir.write_record(jobdir.OUTCOME, outcome, durable=True)
    except OSError:
        jobdir.release_record(jobdir.OUTCOME)  # the job is then lost; the starter is told why
    if os.path.lexists(jobdir.OUTCOME):
        events.tell_ended({"id": os.path.basename(os.getcwd())}, outcome)
    queue_dir.remove_launch_file(os.curdir)
    make_durable(inherited.lock)
    _unlock(inherited)  # before the starter is told: it may try again at once
    _report(inherited, json.dumps({"error": reason, "errno": getattr(error, "errno", None)}).encode())
    queue_dir.wake(HOME)
    _start_dispatcher()


def _leave_traceback(directory: str) -> None:
    import traceback

    with open(f"{directory}/shim-error.txt", "a") as file:
        traceback.print_exc(file=file)
