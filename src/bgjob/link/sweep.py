"""The processes that are left of a job without a shim: found in the process table, and killed.

A process is the job's if it carries the job's id in its environment, is in a control group of the job's name,
or is the very process that the job was started as. A process can leave all of these: so it is the job's also
if its parent is, or the leader of its session.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bgjob.system import cgroup, processes
from bgjob.system.processes import GUARD, PARENT, SESSION, SHIM, START_TICKS
from bgjob.system.readiness import is_readable

DEATH_PATIENCE_S, LOOK_AGAIN_S = 10.0, 0.005
DEAD = (b"Z", b"X")
NO_PIDFDS = (errno.ENOSYS, errno.EPERM)
# From a process's fork to the record of it.
START_TAKES_S = 2.0


class FirstProcess(NamedTuple):
    """The process that a job was started as, on record in this boot. It leads a session."""

    pid: int
    started_at: float


class TableEntry(NamedTuple):
    parent: int
    session: int
    start_ticks: int


def members(job_id: str, first: FirstProcess | None = None) -> list[int]:
    """The live processes of a job."""
    return sorted(_members(job_id, first))


def _members(job_id: str, first: FirstProcess | None) -> dict[int, int]:
    """By pid: when each was started, in ticks. Pid and start identify a process."""
    table = _table()
    found = {pid for pid in table if processes.is_marked(pid, job_id) or cgroup.is_member(pid, job_id)}
    if first and first.pid in table and _is_it(table[first.pid], first):
        found.add(first.pid)
    own_session = first.pid if first else 0
    while more := _relatives(table, found, own_session):
        found |= more
    return {pid: table[pid].start_ticks for pid in found}


def _is_it(seen: TableEntry, known: FirstProcess) -> bool:
    """False: the pid was reused, by a process that was started later."""
    started_at = time.time() - processes.age_s(seen.start_ticks)
    return abs(started_at - known.started_at) < START_TAKES_S


def _relatives(table: dict[int, TableEntry], found: set[int], own_session: int) -> set[int]:
    """Children of the job's processes, and members of its sessions.

    A session counts if its leader is, or was, the job's: a process in the session of a person's terminal may
    have inherited a job's environment.
    """
    sessions = {table[pid].session for pid in found}
    sessions = {session for session in sessions if session in found or session == own_session}
    return {pid for pid, seen in table.items() if seen.parent in found or seen.session in sessions} - found


def _table() -> dict[int, TableEntry]:
    table = {pid: _seen(pid) for pid in processes.every_pid()}
    return {pid: seen for pid, seen in table.items() if seen}


def _seen(pid: int) -> TableEntry | None:
    line = (processes.read_if_there(f"/proc/{pid}/stat") or b"").rpartition(b") ")[2].split()
    if not line or line[0] in DEAD:
        return None
    return TableEntry(int(line[PARENT]), int(line[SESSION]), int(line[START_TICKS]))


def are_supervised(pids: list[int]) -> bool:
    """Whether one of these processes is below some shim or guard."""
    return any(processes.name_of(above) in (SHIM, GUARD) for pid in pids for above in _ancestors(pid))


def _ancestors(pid: int) -> Iterator[int]:
    while (pid := processes.stat_of(pid)[PARENT]) > 1:
        yield pid


def kill(job_id: str, first: FirstProcess | None = None) -> int:
    """SIGKILL to what is left of a job without a shim, until nothing is left; how many."""
    killed = 0
    while more := kill_each(_members(job_id, first)):
        killed += more
    return killed


def kill_each(started: Mapping[int, int]) -> int:
    """Return how many have died, also as a consequence of another's death. `started`: when each began, by pid."""
    return sum(_kill_pinned(pid, start_ticks) for pid, start_ticks in started.items())


def _kill_pinned(pid: int, start_ticks: int) -> bool:
    """Pin the pid, check the start, then kill and see the process end: a reused pid is never killed."""
    try:
        pin = Pin(pid)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    try:
        if processes.stat_of(pid)[START_TICKS] == start_ticks:
            pin.send(signal.SIGKILL)
            return pin.is_gone(DEATH_PATIENCE_S)
        return True
    except ProcessLookupError:
        return True
    except OSError:
        return False
    finally:
        pin.close()


def _pidfd(pid: int) -> int | None:
    """Return None if there are no pidfds: in this Python, in an old kernel, or behind a seccomp filter."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno in NO_PIDFDS:
            return None
        raise


class Pin:
    """A process, held by a pidfd so that another process with its pid is never signalled.

    Where Python or the kernel has no pidfds, the pid and the start time of the process are used.
    """

    def __init__(self, pid: int) -> None:
        """OSError: there is no such process."""
        self._pid, self._started = pid, _seen(pid)
        self._fd = _pidfd(pid)

    def send(self, number: signal.Signals) -> None:
        """OSError: it is gone."""
        if self._fd is None:
            os.kill(self._pid, 0 if self._has_ended() else number)
        else:
            signal.pidfd_send_signal(self._fd, number)

    def is_gone(self, patience_s: float) -> bool:
        """Return whether it ends in time."""
        if self._fd is not None:
            return is_readable(self._fd, patience_s)
        deadline = time.monotonic() + patience_s
        while not self._has_ended():
            if time.monotonic() >= deadline:
                return False
            time.sleep(LOOK_AGAIN_S)
        return True

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)

    def _has_ended(self) -> bool:
        now = _seen(self._pid)
        return now is None or self._started is None or now.start_ticks != self._started.start_ticks
