"""The queue of a store: which jobs wait, in which order, and for what.

    queue/<order>-<place>-<job id>   one waiting job each, an empty file: by priority, then by age
    queue/drainer                    locked by the dispatcher, which runs while jobs wait
    queue/kick                       a FIFO that wakes the dispatcher: a job has ended or was added

A job waits as long as its directory has the launch file `papers`: its environment, kept from the submission
to the start. A process that starts or cancels the job locks its spec and takes the launch file away first, so
that the job starts once. If the job cannot be started now, that process puts the file back before it frees
the lock. A queue ends with the machine's boot: whether its first job had started would be a guess. The shim
imports this module.
"""

from __future__ import annotations

import os
import stat

from bgjob.home import jobdir
from bgjob.home.home_dir import is_ours_alone
from bgjob.home.layout import ID_CHARACTERS, JOBS, is_directory
from bgjob.home.locks import open_locked, try_lock
from bgjob.system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from bgjob.home.jobdir import Record

    Phase = Literal["queued", "running", "ended", "lost"]
    Readiness = Literal["pending", "ready", "impossible"]

QUEUE, DISPATCHER, WAKE = "queue", "drainer", "kick"
# The same as in core/options, which the shim must not import; a test compares the two.
MOST_PRIORITY = 1000
ORDER_DIGITS = 4
LOCK_TRIES = 10
# The clock of `not_before`.
now_s = processes.since_boot_s


# -- entries ------------------------------------------------------------------------------------------


def entries(home: str) -> list[str]:
    """In the order in which the jobs are to start."""
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
    """FileNotFoundError: the job does not wait any more."""
    os.rename(f"{home}/{QUEUE}/{entry}", f"{home}/{QUEUE}/{_order(priority)}{entry[ORDER_DIGITS:]}")


def find(home: str, job_id: str) -> str | None:
    return next((entry for entry in entries(home) if job_of(entry) == job_id), None)


# -- a waiting job ------------------------------------------------------------------------------------


def is_waiting(directory: str) -> bool:
    """A launch file that another user may have put there does not count."""
    try:
        launch = os.lstat(f"{directory}/{jobdir.LAUNCH}")
        return stat.S_ISREG(launch.st_mode) and is_ours_alone(launch) and is_ours_alone(os.lstat(directory))
    except OSError:
        return False


def hold(directory: str, tries: int = 1) -> int | None:
    """The job's lock, if it is free: its holder may start or cancel the job."""
    try:
        return open_locked(f"{directory}/{jobdir.SPEC}", flags=0, tries=tries)
    except OSError as error:
        if error.errno in jobdir.OUR_TROUBLE:
            raise
        return None  # the spec is gone, or something else is in its place


def is_startable(directory: str) -> bool:
    """To be called by the holder of the job's lock."""
    if not is_directory(directory):
        return False
    return is_waiting(directory) and not os.path.lexists(f"{directory}/{jobdir.OUTCOME}")


def take_launch_file(directory: str) -> bool:
    """By the holder of the lock: the job does not wait any more. False if it never did."""
    try:
        os.rename(f"{directory}/{jobdir.LAUNCH}", f"{directory}/{jobdir.LAUNCH_TAKEN}")
    except FileNotFoundError:
        return os.path.lexists(f"{directory}/{jobdir.LAUNCH_TAKEN}")  # taken by a shim that was killed
    return True


def is_being_taken(directory: str) -> bool:
    """A shim has taken the job, and may put it back."""
    return os.path.lexists(f"{directory}/{jobdir.LAUNCH_TAKEN}") and jobdir.is_locked(
        f"{directory}/{jobdir.SPEC}"
    )


def put_back_launch_file(directory: str) -> bool:
    """By the holder of the lock, if it has started nothing: whether the job waits, still or again."""
    if not is_waiting(directory):
        try:
            os.rename(f"{directory}/{jobdir.LAUNCH_TAKEN}", f"{directory}/{jobdir.LAUNCH}")
        except OSError:
            return False
    return True


def remove_launch_file(directory: str) -> None:
    """Not from a directory that another user may have put there."""
    if not is_directory(directory) or not is_ours_alone(os.lstat(directory)):
        return
    for name in (jobdir.LAUNCH, jobdir.LAUNCH_TAKEN):
        try:
            os.unlink(f"{directory}/{name}")
        except (FileNotFoundError, IsADirectoryError):
            pass


def end_unstarted(directory: str, **how: object) -> None:
    """By the holder of the lock: record an outcome, then remove the launch file."""
    jobdir.write_record(f"{directory}/{jobdir.OUTCOME}", jobdir.unstarted(**how), durable=True)
    remove_launch_file(directory)


# -- how a job stands, and what it waits for -----------------------------------------------------------


def phase(directory: str) -> tuple[Phase, Record]:
    """How a job stands by its files; and its outcome, once it has ended, or the record of a job of a target."""
    outcome_path = f"{directory}/{jobdir.OUTCOME}"
    if (outcome := jobdir.read_record(outcome_path)) is not None:
        return "ended", outcome
    if (remote := jobdir.read_record(f"{directory}/{jobdir.REMOTE}")) is not None:
        return _remote_phase(remote), remote
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


def _remote_phase(remote: Record) -> Phase:
    """Of a job of a target: whether its relay runs tells nothing about the job."""
    phases: dict[str, Phase] = {"queued": "queued", "lost": "lost"}
    return phases.get(str(remote.get("phase")), "running")


def _is_of_this_boot(directory: str) -> bool:
    return jobdir.is_of_this_boot(jobdir.read_record(f"{directory}/{jobdir.SPEC}") or {})


def queue_options_of(spec: Record | None) -> Record | None:
    """What the queue has to know of a job; None if its spec is not one of a queued job."""
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
        raise TypeError  # a text would be a list of letters
    return value


def _as_name(value: object) -> str:
    """A text that may become a part of a path."""
    if not isinstance(value, str) or "/" in value or "\0" in value:
        raise ValueError
    os.fsencode(value)  # half a character: ValueError
    return value


def readiness(home: str, spec: Record) -> tuple[Readiness, str]:
    """Whether a job's conditions are met, may still be met, or cannot be met any more; and why, in words."""
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
            return "impossible", jobdir.how_ended({"cause": "lost"})
        case _, outcome:
            return _success_in(outcome)


def _success_in(outcome: Record) -> tuple[Readiness, str]:
    is_success = outcome.get("cause") == "exited" and outcome.get("exit_code") == 0
    return "ready" if is_success else "impossible", jobdir.how_ended(outcome)


# -- the dispatcher ----------------------------------------------------------------------------------------


def wake(home: str) -> None:
    """Tell the dispatcher, if there is one, to look at the queue."""
    if not is_directory(f"{home}/{QUEUE}"):
        return
    try:
        fd = os.open(f"{home}/{QUEUE}/{WAKE}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return  # no FIFO, or no dispatcher that listens
    try:
        os.write(fd, b"+")
    except OSError:
        pass  # the FIFO is full: the dispatcher will wake anyway
    finally:
        os.close(fd)


def has_dispatcher(home: str) -> bool:
    return is_directory(f"{home}/{QUEUE}") and jobdir.is_locked(f"{home}/{QUEUE}/{DISPATCHER}")


def needs_dispatcher(home: str) -> bool:
    """Jobs wait, and there is no dispatcher to start them."""
    return bool(entries(home)) and not has_dispatcher(home)


def become_dispatcher(home: str) -> int | None:
    """The lock of the one dispatcher; None if there is a dispatcher."""
    return open_locked(f"{home}/{QUEUE}/{DISPATCHER}", tries=LOCK_TRIES)


def lock_dispatcher(fd: int) -> bool:
    """Lock it again. Several tries: a process that checks for a dispatcher holds the lock for a moment."""
    return try_lock(fd, LOCK_TRIES)


def listen(home: str) -> int:
    """The FIFO, open for reading and writing: so it never reports a hang-up."""
    path = f"{home}/{QUEUE}/{WAKE}"
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        if not stat.S_ISFIFO(os.lstat(path).st_mode):
            os.unlink(path)
            os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)


def remove_jobs_of_older_boots(home: str) -> None:
    """A job that waited before the boot is lost; its environment must not stay on disk."""
    for entry in entries(home):
        directory = job_directory(home, job_of(entry))
        spec = jobdir.read_record(f"{directory}/{jobdir.SPEC}")
        if spec and not jobdir.is_of_this_boot(spec):
            remove_launch_file(directory)
            leave(home, entry)
