"""The queue of a store: who waits, in which order, and for what.

    queue/<order>-<place>-<job id>   one waiting job each: by priority, then by age. The name is all there is to it
    queue/drainer                    flocked by the process that starts them, which is there while there are any
    queue/kick                       a FIFO on which it hears that something has ended or was added

A job waits as long as its directory has `papers`: its environment, kept from the submission to the start. Whoever
wants to start or to cancel it locks its spec, looks for the papers, and takes them away first: so it starts once.
Who finds that it cannot be started now puts them back before the lock is free.
A queue does not outlive the machine's boot: whether its first had started would be a guess.
The shim imports this module: it stays within the standard library.
"""

from __future__ import annotations

import os
import stat

from bgjob.home import jobdir
from bgjob.home.home_dir import is_ours_alone
from bgjob.home.layout import JOBS, is_directory
from bgjob.home.locks import open_locked, try_lock
from bgjob.system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from bgjob.home.jobdir import Record

    Phase = Literal["queued", "running", "ended", "lost"]
    Readiness = Literal["pending", "ready", "impossible"]

QUEUE, DISPATCHER, WAKE = "queue", "drainer", "kick"
MOST_PRIORITY = 1000
ORDER_DIGITS, ID_CHARACTERS = 4, 36
LOCK_TRIES = 10
# The clock of `not_before`.
now_s = processes.since_boot_s


# -- entries ------------------------------------------------------------------------------------------


def entries(home: str) -> list[str]:
    """First in line first."""
    directory = f"{home}/{QUEUE}"
    if not is_directory(directory):
        return []
    try:
        with os.scandir(directory) as found:
            names = [entry.name for entry in found if entry.is_file(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return sorted(name for name in names if _has_order(name[:ORDER_DIGITS]))


def _has_order(begin: str) -> bool:
    return begin.isascii() and begin.isdecimal()


def job_of(entry: str) -> str:
    return entry[-ID_CHARACTERS:]


def job_directory(home: str, job_id: str) -> str:
    return f"{home}/{JOBS}/{job_id}"


def entry_for(job_id: str, priority: int, place_us: int) -> str:
    return f"{_order(priority)}-{place_us:016d}-{job_id}"


def _order(priority: int) -> str:
    return f"{MOST_PRIORITY - priority:0{ORDER_DIGITS}d}"


def priority_of(entry: str) -> int:
    return MOST_PRIORITY - int(entry[:ORDER_DIGITS])


def enter(home: str, entry: str) -> None:
    os.close(os.open(f"{home}/{QUEUE}/{entry}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def leave(home: str, entry: str) -> None:
    try:
        os.unlink(f"{home}/{QUEUE}/{entry}")
    except FileNotFoundError:
        pass


def move(home: str, entry: str, priority: int) -> None:
    """FileNotFoundError: it does not wait any more."""
    os.rename(f"{home}/{QUEUE}/{entry}", f"{home}/{QUEUE}/{_order(priority)}{entry[ORDER_DIGITS:]}")


def find(home: str, job_id: str) -> str | None:
    return next((entry for entry in entries(home) if job_of(entry) == job_id), None)


# -- a waiting job ------------------------------------------------------------------------------------


def is_waiting(directory: str) -> bool:
    """Papers that another user may have put there are none."""
    try:
        papers = os.lstat(f"{directory}/{jobdir.LAUNCH}")
        return stat.S_ISREG(papers.st_mode) and is_ours_alone(papers) and is_ours_alone(os.lstat(directory))
    except OSError:
        return False


def hold(directory: str, tries: int = 1) -> int | None:
    """The job's lock, if nobody has it: whoever has may start or cancel it."""
    try:
        return open_locked(f"{directory}/{jobdir.SPEC}", flags=0, tries=tries)
    except OSError as error:
        if error.errno in jobdir.OUR_TROUBLE:
            raise
        return None  # it is gone, or something else is in its place


def is_startable(directory: str) -> bool:
    """For whoever holds it."""
    if not is_directory(directory):
        return False
    return is_waiting(directory) and not os.path.lexists(f"{directory}/{jobdir.OUTCOME}")


def take(directory: str) -> bool:
    """For whoever holds it: from now on it does not wait. False if it never did."""
    try:
        os.rename(f"{directory}/{jobdir.LAUNCH}", f"{directory}/{jobdir.LAUNCH_TAKEN}")
    except FileNotFoundError:
        return os.path.lexists(f"{directory}/{jobdir.LAUNCH_TAKEN}")  # by a shim that was killed over it
    return True


def is_being_taken(directory: str) -> bool:
    """It does not wait, and may wait again."""
    return os.path.lexists(f"{directory}/{jobdir.LAUNCH_TAKEN}") and jobdir.is_locked(
        f"{directory}/{jobdir.SPEC}"
    )


def put_back(directory: str) -> bool:
    """For whoever holds it, and has started nothing: whether it waits, still or again. One that never did, does not."""
    if not is_waiting(directory):
        try:
            os.rename(f"{directory}/{jobdir.LAUNCH_TAKEN}", f"{directory}/{jobdir.LAUNCH}")
        except OSError:
            return False
    return True


def remove_launch_file(directory: str) -> None:
    """Not in a directory that another user may have put there."""
    if not is_directory(directory) or not is_ours_alone(os.lstat(directory)):
        return
    for name in (jobdir.LAUNCH, jobdir.LAUNCH_TAKEN):
        try:
            os.unlink(f"{directory}/{name}")
        except (FileNotFoundError, IsADirectoryError):
            pass


def end_unstarted(directory: str, **how: object) -> None:
    """For whoever holds it: an outcome, and then nothing more to start."""
    jobdir.write_record(f"{directory}/{jobdir.OUTCOME}", jobdir.unstarted(**how), durable=True)
    remove_launch_file(directory)


# -- how a job stands, and what it waits for -----------------------------------------------------------


def phase(directory: str) -> tuple[Phase, Record]:
    """How a job stands by its files; and its outcome, once it has ended."""
    outcome_path = f"{directory}/{jobdir.OUTCOME}"
    if (outcome := jobdir.read_record(outcome_path)) is not None:
        return "ended", outcome
    # Before the lock: a starter takes the launch file away while it holds the lock.
    was_waiting = is_waiting(directory)
    if jobdir.is_locked(f"{directory}/{jobdir.SPEC}"):
        return "running", {}
    # The job may have ended between the two looks, or have been put back into the queue.
    if (outcome := jobdir.read_record(outcome_path)) is not None:
        return "ended", outcome
    if (was_waiting or is_waiting(directory)) and _is_of_this_boot(directory):
        return "queued", {}
    return "lost", {}


def _is_of_this_boot(directory: str) -> bool:
    return jobdir.is_of_this_boot(jobdir.read_record(f"{directory}/{jobdir.SPEC}") or {})


def queue_options_of(spec: Record | None) -> Record | None:
    """What the queue has to know of a job; None if its spec does not say that."""
    try:
        queue, group = (spec or {})["queue"], (spec or {}).get("group")
        return {
            "queue": {
                "after": [_as_name(job_id) for job_id in _as_list(queue["after"])],
                "after_policy": queue["after_policy"],
                "not_before": float(queue["not_before"]),
                "max_jobs": int(queue["max_jobs"]),
                "group_slots": None if queue["group_slots"] is None else int(queue["group_slots"]),
            },
            "group": None if group is None else _as_name(group),
        }
    except (LookupError, TypeError, ValueError, OverflowError):
        return None


def _as_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError  # a text would be one letter after the other
    return value


def _as_name(value: object) -> str:
    """Of what becomes a part of a path."""
    if not isinstance(value, str) or "/" in value or "\0" in value:
        raise ValueError
    return value


def readiness(home: str, spec: Record) -> tuple[Readiness, str]:
    """Whether its conditions hold, still wait, or can no longer come true; and a sentence that says which."""
    options = spec["queue"]
    for job_id in options.get("after", ()):
        stands, how = _success_of(job_directory(home, job_id))
        if stands == "pending":
            return "pending", f"job {job_id}, after which it is to run, {how}"
        if stands == "impossible" and options.get("after_policy") != "any":
            return "impossible", f"it was to run after the success of job {job_id}, which {how}"
    left_s = options.get("not_before", 0.0) - now_s()
    return ("pending", f"it is to start in {left_s:.0f} s") if left_s > 0 else ("ready", "")


def _success_of(directory: str) -> tuple[Readiness, str]:
    """How far a job is from the success that others wait for."""
    if not is_directory(directory):
        return "impossible", "is gone: it was cleaned up"
    match phase(directory):
        case "queued", _:
            return "pending", "is queued itself"
        case "running", _:
            return "pending", "still runs"
        case "lost", _:
            return "impossible", "was lost"
        case _, outcome:
            return _success_in(outcome)


def _success_in(outcome: Record) -> tuple[Readiness, str]:
    code, cause = outcome.get("exit_code"), str(outcome.get("cause"))
    if cause == "exited" and code == 0:
        return "ready", "has succeeded"
    return "impossible", f"ended with exit code {code}" if cause == "exited" else f"ended: {cause}"


# -- the drainer ----------------------------------------------------------------------------------------


def wake(home: str) -> None:
    """Tell the drainer to look, if there is one."""
    if not is_directory(f"{home}/{QUEUE}"):
        return
    try:
        fd = os.open(f"{home}/{QUEUE}/{WAKE}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # no FIFO, or nobody who listens
    try:
        os.write(fd, b"+")
    except OSError:
        pass  # it has enough to hear already
    finally:
        os.close(fd)


def has_dispatcher(home: str) -> bool:
    return is_directory(f"{home}/{QUEUE}") and jobdir.is_locked(f"{home}/{QUEUE}/{DISPATCHER}")


def needs_dispatcher(home: str) -> bool:
    """Jobs wait, and nobody is there to start them."""
    return bool(entries(home)) and not has_dispatcher(home)


def become_dispatcher(home: str) -> int | None:
    """The lock of the one drainer; None if there is one."""
    return open_locked(f"{home}/{QUEUE}/{DISPATCHER}", tries=LOCK_TRIES)


def lock_dispatcher(fd: int) -> bool:
    """Once more: whoever only looks whether there is a drainer has it for a moment, and may be killed then."""
    return try_lock(fd, LOCK_TRIES)


def listen(home: str) -> int:
    """The FIFO, open for both ways: so it never hangs up."""
    path = f"{home}/{QUEUE}/{WAKE}"
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        if not stat.S_ISFIFO(os.lstat(path).st_mode):
            os.unlink(path)
            os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)


def dissolve(home: str) -> None:
    """After a boot: what waited before it is lost, and its environment does not stay on disk."""
    for entry in entries(home):
        directory = job_directory(home, job_of(entry))
        spec = jobdir.read_record(f"{directory}/{jobdir.SPEC}")
        if spec and not jobdir.is_of_this_boot(spec):
            remove_launch_file(directory)
            leave(home, entry)
