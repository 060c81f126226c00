"""The home and its jobs: the part of `doctor` that looks at the disk. Not by a Store, which would make and mend it."""

import fcntl
import os
from collections.abc import Iterator, Mapping

from bgjob.api.notify import problem_of
from bgjob.api.results import Check
from bgjob.core.errors import BgjobError
from bgjob.core.frozen import Frozen
from bgjob.core.job import JOB_ID, Lost, Running, State
from bgjob.home import home_dir, queue_dir, watch_registry
from bgjob.home.jobdir import RUN, read_record
from bgjob.home.layout import JOBS, names_in
from bgjob.link import sweep
from bgjob.store.notify_rules import notified, rules_or_error
from bgjob.store.quota import size_on_disk
from bgjob.store.records import read_state, run_from
from bgjob.system import processes

LEAST_FREE_BYTES = 100 << 20
MOST_LOST_LOOKED_AT = 20
"""Each look reads the whole process table."""
REMOTE = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs")
START_ONE = "The next job that is started starts one; bgjob run -- true will do."


class Found(Frozen):
    """A job as it is on disk."""

    id: str
    directory: str
    state: State


def checks(environ: Mapping[str, str]) -> Iterator[Check]:
    home = os.path.realpath(home_dir.home_from(environ))
    if not os.path.lexists(home):
        yield Check("home", "ok", f"{home} is not there yet: the first job makes it")
        return
    yield (safety := _safety(home))
    if safety.state == "broken":
        return
    yield _file_system(home)
    yield _room(home)
    jobs = list(_jobs(home))
    yield _sizes(jobs)
    yield _lost(jobs)
    yield _left_running(jobs)
    yield _watcher(home)
    yield _dispatcher(home)
    yield from _notify_rules(home)


def _safety(home: str) -> Check:
    try:
        os.close(home_dir.open_safe(home))
    except OSError as problem:
        return Check("home", "broken", f"{home} cannot be used: {problem}", "BGJOB_HOME can name another.")
    return Check("home", "ok", f"{home}, yours alone")


def _file_system(home: str) -> Check:
    kind = file_system_of(home)
    fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        pass  # it knows locks: another process has this one
    except OSError as problem:
        found = f"{kind} has no locks ({problem.strerror}): whether a job runs cannot be known"
        return Check("file system", "broken", found, "Set BGJOB_HOME to a directory of a local disk.")
    finally:
        os.close(fd)
    if kind in REMOTE:
        found = f"{kind}: locks and renames go over the network"
        return Check("file system", "degraded", found, "Set BGJOB_HOME to a directory of a local disk.")
    return Check("file system", "ok", f"{kind}, with locks")


def file_system_of(path: str, mounts: str | None = None) -> str:
    """The type of the file system that the path is on; `mounts`: as /proc/self/mountinfo has them."""
    text = mounts if mounts is not None else _mounts()
    best, kind = "", "unknown"
    for line in text.splitlines():
        fields, _, system = line.partition(" - ")
        point = fields.split()[4]
        is_above = path == point or path.startswith(point.rstrip("/") + "/")
        if is_above and len(point) >= len(best):
            best, kind = point, system.split()[0]
    return kind


def _mounts() -> str:
    return (processes.read_if_there("/proc/self/mountinfo") or b"").decode(errors="replace")


def _room(home: str) -> Check:
    disk = os.statvfs(home)
    free_bytes = disk.f_bavail * disk.f_frsize
    if free_bytes < LEAST_FREE_BYTES:
        found = f"{_megabytes(free_bytes)} left on the disk of the home: output of jobs may be lost"
        return Check("room", "degraded", found, "Make room; bgjob clean removes ended jobs.")
    return Check("room", "ok", f"{_megabytes(free_bytes)} left on the disk of the home")


def _jobs(home: str) -> Iterator[Found]:
    try:
        names = names_in(f"{home}/{JOBS}")
    except OSError:
        return  # no job was ever started
    for name in filter(JOB_ID.fullmatch, names):
        directory = f"{home}/{JOBS}/{name}"
        yield Found(name, directory, read_state(directory))


def _sizes(jobs: list[Found]) -> Check:
    size_bytes = sum(size_on_disk(job.directory) for job in jobs)
    running = sum(isinstance(job.state, Running) for job in jobs)
    return Check("jobs", "ok", f"{len(jobs)}, of which {running} run; {_megabytes(size_bytes)} on disk")


def _lost(jobs: list[Found]) -> Check:
    lost = [job.id[:8] for job in jobs if isinstance(job.state, Lost)]
    if not lost:
        return Check("lost jobs", "ok", "none")
    found = (
        f"{len(lost)} (e.g. {lost[0]}): how they ended is not known, after a reboot or a kill -9 of all of it"
    )
    return Check("lost jobs", "degraded", found, "bgjob status ID tells why; bgjob rm ID removes one.")


def _left_running(jobs: list[Found]) -> Check:
    lost = [job for job in jobs if isinstance(job.state, Lost)][:MOST_LOST_LOOKED_AT]
    left = {job.id: len(pids) for job in lost if (pids := sweep.members(job.id, _first_process(job)))}
    if not left:
        return Check("processes of lost jobs", "ok", "none")
    found = f"{sum(left.values())} still run, e.g. of {next(iter(left))[:8]}"
    return Check("processes of lost jobs", "degraded", found, "bgjob kill ID ends them.")


def _first_process(job: Found) -> sweep.FirstProcess | None:
    run = run_from(read_record(f"{job.directory}/{RUN}"))
    is_of_this_boot = run is not None and run.boot_id == processes.boot_id()
    return sweep.FirstProcess(run.pid, run.started_at) if run and is_of_this_boot else None


def _watcher(home: str) -> Check:
    if watch_registry.needs_watcher(home):
        found = f"none, and {len(watch_registry.registered(home))} jobs need it: nobody is told of them"
        return Check("watcher", "degraded", found, START_ONE)
    return Check("watcher", "ok", "runs" if watch_registry.registered(home) else "not needed")


def _dispatcher(home: str) -> Check:
    if queue_dir.needs_dispatcher(home):
        found = f"none, and {len(queue_dir.entries(home))} jobs are queued"
        return Check("dispatcher", "degraded", found, START_ONE)
    return Check("dispatcher", "ok", "runs" if queue_dir.entries(home) else "not needed")


def _notify_rules(home: str) -> Iterator[Check]:
    try:
        rules, told = rules_or_error(home), notified(home)
    except BgjobError as problem:
        yield Check("notify", "broken", str(problem))
        return
    for rule in rules:
        advice = f"bgjob notify test {rule.way} tries it; bgjob notify remove {rule.way} takes it away."
        if why := problem_of(rule):
            yield Check(f"notify {rule.key}", "broken", why, advice)
        elif (last := told.get(rule.key)) and last.failed_at > last.told_at:
            yield Check(f"notify {rule.key}", "degraded", f"failed last: {last.failure}", advice)
        else:
            yield Check(f"notify {rule.key}", "ok", "can be used")


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 20):,.0f} MB"
