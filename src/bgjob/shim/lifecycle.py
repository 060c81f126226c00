"""A shim's duty: to begin a job and see it to its end; and a guard's, to go on where a killed shim left it."""

from __future__ import annotations

import fcntl
import json
import marshal
import os
import signal
import time

from bgjob.home import jobdir, queue_dir
from bgjob.home.layout import HOME
from bgjob.shim import child, events
from bgjob.shim.child import ChildEnds, first_dead, open_ends, run_record
from bgjob.shim.handoff import HandoffReceiver, HandoffSender, Held, Inherited, open_held
from bgjob.shim.supervise import WILL_PASS, Supervisor
from bgjob.shim.upkeep import group_of
from bgjob.system import cgroup, processes
from bgjob.system.own_argv import SHIM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from bgjob.home.jobdir import Record
    from bgjob.shim.limited_child import Bounds

    Found = TypeVar("Found")

TRIES, TRY_AGAIN_S = 25, 0.2
LOOK_AGAIN_S = 0.02


def never_returning(directory: str, duty: Callable[[], None]) -> None:
    """Whatever happens, this process does not return into its parent's code."""
    status = 1
    try:
        duty()
        status = 0
    finally:
        try:
            if status:
                _leave_traceback(directory)
        finally:
            os._exit(status)


def begin(directory: str, given: Inherited, umask: int, will: HandoffSender) -> None:
    os.chdir(directory)
    if not _is_of_our_job(given.lock):
        return
    spec = _papers(given.papers)[0]
    try:
        estate, doors = open_held(given, spec)
    except OSError as error:
        if _take(given):  # it is ours to fail: the starter must not try again with what we say has failed
            _give_up(given, error)
        return
    will.leave(directory, estate)  # before the job is ours: from then on one of us sees to it
    if _take(given):
        _start(spec, estate, will, umask, doors)
    else:
        estate.withdraw()


def _is_of_our_job(lock: int) -> bool:
    """The directory that we were told is the one whose spec we hold, and no other that was put in its place."""
    try:
        return os.path.samestat(os.stat(jobdir.SPEC, follow_symlinks=False), os.fstat(lock))
    except FileNotFoundError:
        return False


def take_over(directory: str, legacy: HandoffReceiver, umask: int) -> None:
    """Everything is on disk, in the estate, or among our children: the shim's became ours when it died."""
    try:
        _enter(directory)
        spec = _patiently(_spec_on_disk)
    except OSError:
        # somebody has removed the job, or what it is: nobody could see to it
        return _end_all(os.path.basename(directory))
    estate = legacy.estate(is_terminal=bool(spec.get("pty")))
    outcome = _patiently(_outcome_on_disk)
    spawn = _spawner(spec, estate.given, umask)
    if outcome is None and (pause := legacy.paused()):
        return _resume_pause(spec, estate, spawn, pause, legacy.stopping())
    if outcome is not None or legacy.started() or _has_children():
        return _resume(legacy, spec, estate, spawn, outcome)
    if _take(estate.given):
        try:
            estate.ends.close()  # nothing was started: the job's ends were the shim's alone, and are gone
            estate.ends, doors = open_ends(spec)
        except OSError as error:
            return _give_up(estate.given, error)
        _start(spec, estate, HandoffSender(None), umask, doors)


def _enter(directory: str) -> None:
    try:
        os.chdir(directory)
    except PermissionError:
        os.chmod(directory, 0o700)
        os.chdir(directory)


def _end_all(job_id: str) -> None:
    while _has_children():
        for pid in processes.Freezing(os.getpid()).all():
            processes.send(pid, signal.SIGKILL)
        while dead := _dead_child():
            child.reap(dead)
        time.sleep(LOOK_AGAIN_S)
    cgroup.remove_left([group_of(job_id)], job_id)


def _start(spec: Record, estate: Held, will: HandoffSender, umask: int, doors: ChildEnds) -> None:
    try:
        jobdir.reserve_record(jobdir.OUTCOME)  # a job whose end could not be written down is not started
        was_queued = queue_dir.take(os.curdir)
        estate.publish()
        supervisor = Supervisor(spec, estate, will, _spawner(spec, estate.given, umask))
        pid = supervisor.start(doors)
    except (OSError, ValueError) as error:
        estate.withdraw()
        return _give_up(estate.given, error)
    if was_queued:
        queue_dir.remove_launch_file(os.curdir)
    run = run_record(pid, time.time())
    events.tell_started(spec, pid)  # first: whoever takes over and finds no record of the run tells it again
    supervisor.record_run(run)
    _tell(estate.given, run)
    will.started(pid, supervisor.started, keep_papers=_runs_again(spec))
    _see_to_the_end(supervisor)


def _spawner(spec: Record, given: Inherited, umask: int) -> Callable[[ChildEnds, Bounds | None], int]:
    """Starts the job's process: once, or again and again."""

    def spawn(doors: ChildEnds, bounds: Bounds | None) -> int:
        script = os.path.abspath(jobdir.SCRIPT) if os.path.exists(jobdir.SCRIPT) else None
        environment = _papers(given.papers)[1]
        environment[processes.JOB_ID_VARIABLE] = spec["id"]
        pid = child.start(spec, script, environment, umask, doors, bounds)
        environment.clear()
        if not _runs_again(spec):
            _forget_papers(given)
        return pid

    return spawn


def _runs_again(spec: Record) -> bool:
    return bool(spec.get("restart"))


def _resume_pause(
    spec: Record,
    estate: Held,
    spawn: Callable[[ChildEnds, Bounds | None], int],
    pause: tuple[int, float, float],
    stopping: tuple[str, int, float] | None,
) -> None:
    supervisor = _patiently(lambda: Supervisor(spec, estate, HandoffSender(None), spawn))
    supervisor.resume_pause(*pause, stopping)
    _see_to_the_end(supervisor)


def _resume(
    legacy: HandoffReceiver,
    spec: Record,
    estate: Held,
    spawn: Callable[[ChildEnds, Bounds | None], int],
    outcome: Record | None,
) -> None:
    started = legacy.started()
    if started is None:
        pid = 0 if outcome else _patiently(_first_child)
        if pid and not processes.has_execed(pid):
            return _fail(
                estate.given, OSError("the command could not be exec'd; its shim was killed meanwhile")
            )
        started = (pid, time.monotonic())
    supervisor = _patiently(lambda: Supervisor(spec, estate, HandoffSender(None), spawn))
    supervisor.resume(*started, outcome, legacy.stopping())
    known = _patiently(lambda: jobdir.read_record(jobdir.RUN)) or {}
    run = run_record(started[0], known.get("started_at") or time.time())
    if not known:
        events.tell_started(spec, started[0])
    supervisor.record_run(run)
    _tell(estate.given, run)
    queue_dir.remove_launch_file(os.curdir)
    if not _runs_again(spec):
        _forget_papers(estate.given)
    _see_to_the_end(supervisor)


def _see_to_the_end(supervisor: Supervisor) -> None:
    supervisor.run()
    _start_dispatcher()


def _start_dispatcher() -> None:
    """A fresh interpreter, that leaves our process tree by itself: as our last act, because until then it would not."""
    try:
        if queue_dir.needs_dispatcher(HOME):
            os.posix_spawn(SHIM[0], [*SHIM, "queue", os.path.realpath(HOME)], os.environ)
    except FileNotFoundError:
        pass  # the home is gone, or the job's directory: nobody waits there, or somebody will look


def _patiently(act: Callable[[], Found]) -> Found:
    """What fails for want of descriptors, of memory or by the disk may work in a moment; nobody comes after us."""
    for _ in range(TRIES):
        try:
            return act()
        except OSError:
            time.sleep(TRY_AGAIN_S)
    return act()


def _has_children() -> bool:
    """By the kernel's word: a list that could not be read looks like an empty one."""
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
    """The job, and none of the orphans that it may have left: they can be ours before it is."""
    children = processes.children(os.getpid())
    if not children:
        raise OSError("the job's process cannot be seen")
    return processes.eldest(children)


def _papers(fd: int) -> tuple[Record, dict[str, str]]:
    """What to run, and in which environment."""
    data = os.pread(fd, os.fstat(fd).st_size, 0)
    if data.startswith(b"{"):  # from a server that was started before an upgrade
        return _spec_on_disk(), json.loads(data)
    spec, environment, *_ = marshal.loads(data)
    return spec, environment


def umask_in(papers: int) -> int:
    """Of whoever queued the job."""
    umask: int = marshal.loads(os.pread(papers, os.fstat(papers).st_size, 0))[2]
    return umask


def _forget_papers(given: Inherited) -> None:
    """Secrets do not rest with us, nor with our guard, who has this descriptor too."""
    if given.papers < 0:
        return
    try:
        os.ftruncate(given.papers, 0)
    except OSError:
        pass  # of a server from before an upgrade, perhaps
    os.close(given.papers)
    given.papers = -1


def _spec_on_disk() -> Record:
    spec = jobdir.read_record(jobdir.SPEC)
    if (
        spec is None
        or not isinstance(spec.get("id"), str)
        or not isinstance(spec.get("max_output_bytes"), int)
    ):
        raise OSError("no readable spec")
    return spec


def _outcome_on_disk() -> Record | None:
    outcome = jobdir.read_record(jobdir.OUTCOME)
    if outcome is None and os.path.exists(jobdir.OUTCOME):
        raise OSError("no readable outcome")
    return outcome


def _take(given: Inherited) -> bool:
    """Say that the job has somebody; False if the starter has given up on us."""
    try:
        if given.ready >= 0:  # else it was ours before: it is run again
            os.write(given.ready, b"+")
    except ConnectionError:
        return False
    return True


def _tell(given: Inherited, answer: bytes) -> None:
    if given.ready < 0:
        return  # the shim has
    try:
        os.write(given.ready, answer + b"\n")
    except OSError:
        pass  # the starter was killed, or finds it on disk: the job goes on all the same
    os.close(given.ready)


def _give_up(given: Inherited, error: Exception) -> None:
    """For a job of the queue, what will pass means "not yet": nobody waits for our answer, and its turn comes again."""
    if getattr(error, "errno", None) in WILL_PASS and not _has_children() and queue_dir.put_back(os.curdir):
        _let_go(given)
    else:
        _fail(given, error)


def _let_go(given: Inherited) -> None:
    for held in (*given.slots, given.lock):
        fcntl.flock(held, fcntl.LOCK_UN)


def _fail(given: Inherited, error: Exception) -> None:
    reason = f"{type(error).__name__}: {error}"
    outcome = jobdir.unstarted(cause="never_started", reason=reason)
    try:
        jobdir.write_record(jobdir.OUTCOME, outcome, durable=True)
    except OSError:
        # then it is lost, as one that never started; the starter is told why
        jobdir.release_record(jobdir.OUTCOME)
    if os.path.lexists(jobdir.OUTCOME):
        events.tell_ended({"id": os.path.basename(os.getcwd())}, outcome)
    queue_dir.remove_launch_file(os.curdir)
    _let_go(given)  # before the starter knows: it may try again at once
    _tell(given, json.dumps({"error": reason, "errno": getattr(error, "errno", None)}).encode())
    queue_dir.wake(HOME)
    _start_dispatcher()


def _leave_traceback(directory: str) -> None:
    import traceback

    with open(f"{directory}/shim-error.txt", "a") as file:
        traceback.print_exc(file=file)
