"""The process table (Linux): who descends from us, what it costs, and its end.

We are a subreaper: all that a server starts and lets go of, doubly forked or not, becomes our child. So our
descendants are exactly what this run has started: nothing else is ever signalled, and their CPU time is ours.
"""

import ctypes
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
ZOMBIE = "zombie"
GONE = (FileNotFoundError, ProcessLookupError)


@dataclass(frozen=True)
class Process:
    pid: int
    parent: int
    state: str
    cpu_ticks: int
    started_ticks: int

    @property
    def alive(self) -> bool:
        return self.state not in "ZX"

    @property
    def name(self) -> str:
        """What it calls itself: bgjob-shim, cat … A server is a python."""
        with suppress(*GONE):
            return Path(f"/proc/{self.pid}/comm").read_text().strip() if self.alive else ZOMBIE
        return ZOMBIE

    @property
    def is_bgjob(self) -> bool:
        """One of bgjob's own processes beside jobs: zygote, guard, shim, watcher …"""
        return self.name.startswith("bgjob-")

    def argv(self) -> list[str]:
        with suppress(*GONE):
            return Path(f"/proc/{self.pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        return []


def memory_mb(pid: int, word: str) -> float:
    """Rss: its pages. Pss: where shared pages count as a share. 0.0 when it is gone."""
    with suppress(*GONE):
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
        return int(rollup.partition(f"{word}:")[2].split()[0]) * 1024 / 1e6
    return 0.0


def cpu_s(pid: int) -> float:
    """So far. 0.0 when it is gone."""
    with suppress(*GONE):
        return _look(pid).cpu_ticks / os.sysconf("SC_CLK_TCK")
    return 0.0


def open_files(pid: int) -> int:
    """0 when it is gone."""
    with suppress(*GONE):
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return 0


def names() -> Counter[str]:
    """How many of our descendants bear each name."""
    reap()
    return Counter(process.name for process in descendants())


def become_subreaper() -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def allow_many_files() -> None:
    """For the servers, who inherit it: with the usual 1,024 the reference ends up unable to start jobs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def descendants() -> list[Process]:
    """Everything this run has started and that is still in the table, parents first."""
    children: dict[int, list[Process]] = {}
    for process in _all():
        children.setdefault(process.parent, []).append(process)
    found, parents = [], [os.getpid()]
    while parents:
        next_ones = children.get(parents.pop(), [])
        found += next_ones
        parents += [child.pid for child in next_ones]
    return found


def _all() -> Iterator[Process]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(*GONE):
                yield _look(int(entry.name))


def _look(pid: int) -> Process:
    # the second field is the name in brackets and may hold anything
    fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return Process(pid, int(fields[1]), fields[0], int(fields[11]) + int(fields[12]), int(fields[19]))


def settle(within_s: float = 5.0, looks: int = 4) -> None:
    """Return when none of them has used the CPU for some looks in a row."""
    deadline = time.monotonic() + within_s
    before, quiet = None, 0
    while quiet < looks and time.monotonic() < deadline:
        now = {process.pid: (process.state, process.cpu_ticks) for process in descendants()}
        at_rest = all(state in "SZ" for state, _ in now.values())
        quiet = quiet + 1 if at_rest and now == before else 0
        before = now
        time.sleep(0.015)


def reap() -> None:
    """Wait for our children that have ended."""
    for process in descendants():
        if process.parent == os.getpid() and not process.alive:
            with suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)


def end_all(within_s: float = 10.0) -> None:
    """Kill and reap every descendant; when this returns there are none."""
    deadline = time.monotonic() + within_s
    while left := descendants():
        for process in left:
            kill(process)
        reap()
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes {[process.pid for process in left]} do not end")
        time.sleep(0.001)


def kill(process: Process) -> None:
    with suppress(*GONE), ExitStack() as stack:
        pidfd = os.pidfd_open(process.pid)
        stack.callback(os.close, pidfd)
        # only now is the pid pinned: it may have been reused since we looked
        if _look(process.pid).started_ticks == process.started_ticks:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)


def cpu_of_ended_s() -> float:
    """CPU seconds of all descendants that have ended and were waited for, theirs included."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
