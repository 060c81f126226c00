"""The process table: read from /proc on Linux, from `ps` on other systems. The shim imports this module."""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG, PR_SET_NAME, PR_SET_CHILD_SUBREAPER = 1, 15, 36
PF_FORKNOEXEC = 0x40
# Places in /proc/<pid>/stat, counted from the state.
PARENT, GROUP, SESSION, FLAGS, START_TICKS = 1, 2, 3, 6, 19
SIGCHLD, SIGCONT = int(signal.SIGCHLD), int(signal.SIGCONT)
SHIM, GUARD = "bgjob-shim", "bgjob-guard"
JOB_ID_VARIABLE = "BGJOB_ID"
MOST_LOOKS = 100
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# And one more for each directory in it.
LINKS_OF_A_DIRECTORY = 2
# The kernel hands out a page or more at a time: a shorter read has the whole file.
SURELY_WHOLE_BYTES = 2048


def adopt_orphans() -> bool:
    """Make every descendant that loses its parent our child, also after setsid or a double fork."""
    return _prctl(PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """To be called by a child, before its exec."""
    _prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def set_process_name(name: str) -> None:
    """The name that `ps` and `top` show."""
    _prctl(PR_SET_NAME, name.encode())


def name_of(pid: int) -> str | None:
    """The name that a process has set itself; None if the process is gone."""
    name = read_if_there(f"/proc/{pid}/comm")
    return None if name is None else name.decode(errors="replace").rstrip("\n")


def keep_dead_children() -> None:
    """Undo a SIGCHLD that our parent ignored: while it is ignored, the kernel discards exit codes.

    By the C library's call: that of `signal` touches thirty times as much memory.
    """
    if LINUX:
        _set_default(SIGCHLD, None)


def resume(pid: int) -> None:
    """Continue a child that may be stopped. A guard calls this: by the C library's call, as above."""
    if LINUX:
        _kill(pid, SIGCONT)


if LINUX:
    import ctypes

    # Once, at import: a function that is looked up after a fork costs each process 160 KB.
    _ask, _set_default, _kill = (ctypes.CDLL(None)[name] for name in ("prctl", "signal", "kill"))

    def _prctl(option: int, value: int | bytes) -> bool:
        return bool(_ask(option, value, 0, 0, 0) == 0)

else:

    def _prctl(option: int, value: int | bytes) -> bool:
        return False


def boot_id() -> str | None:
    """Changes with every boot; None if the system has none."""
    known = read_if_there("/proc/sys/kernel/random/boot_id")
    return known.decode().strip() if known else None


def since_boot_s() -> float:
    """By a clock that cannot be set, and that goes on while the machine sleeps."""
    return time.clock_gettime(SINCE_BOOT)


def age_s(start_ticks: int) -> float:
    """Of a process, by the START_TICKS of its stat."""
    return since_boot_s() - start_ticks / TICKS_PER_S


def is_this_boot(known: object) -> bool:
    return known == boot_id()


def read(path: str) -> bytes:
    """A small file of /proc, whole. Without open(), whose layers cost more than the kernel's part."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = part = os.read(fd, 1 << 16)
        while part and len(data) > SURELY_WHOLE_BYTES:
            data += (part := os.read(fd, 1 << 16))
        return data
    finally:
        os.close(fd)


def read_if_there(path: str) -> bytes | None:
    try:
        return read(path)
    except OSError:
        return None  # the process is gone, or another user's


def link_target(path: str) -> str:
    """Empty if the link is gone or another user's."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def descendants(root: int, visit: Callable[[int], None] | None = None) -> list[int]:
    """All live and unreaped processes below `root`, parents before children.

    Each is visited before its children are looked up: a process that the visit stops forks no more children.
    """
    found: list[int] = []
    todo = [root]
    table = None if os.path.exists("/proc/thread-self/children") else _table()
    while todo:
        pid = todo.pop()
        if visit and pid != root:
            visit(pid)
        kids = children(pid) if table is None else table.get(pid, [])
        found += kids
        todo += kids
    return found


def children(pid: int) -> list[int]:
    """Dead and unreaped children too."""
    kids: list[int] = []
    try:
        for thread in threads(pid):
            kids += map(int, (read_if_there(f"/proc/{pid}/task/{thread}/children") or b"").split())
    except OSError:
        pass  # gone meanwhile: its children have another parent by now
    return kids


def threads(pid: int) -> list[str]:
    """Most processes have one thread. That is checked first: listing costs five times as much."""
    tasks = f"/proc/{pid}/task"
    has_one = os.stat(tasks).st_nlink == LINKS_OF_A_DIRECTORY + 1
    return [str(pid)] if has_one else os.listdir(tasks)


def _table() -> dict[int, list[int]]:
    """The children of every process."""
    import subprocess  # here: shims import this module, and subprocess imports threading

    answer = subprocess.run(["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=False)
    kids: dict[int, list[int]] = {}
    for line in answer.stdout.splitlines():
        pid, parent = map(int, line.split())
        kids.setdefault(parent, []).append(pid)
    return kids


def alive(pids: list[int]) -> list[int]:
    """The pids that still run: a zombie does not."""
    return [pid for pid in pids if _state(pid) not in ("Z", "X", None)]


def is_computing(pid: int) -> bool:
    """Whether it runs, wants to, or waits for a disk."""
    return _state(pid) in ("R", "D")


def is_stopped(pid: int) -> bool:
    """By a signal, until SIGCONT; False where the system does not tell."""
    return _state(pid) == "T"


def is_asleep(pid: int) -> bool:
    """Neither computing, nor stopped, nor dead."""
    return _state(pid) == "S"


def _state(pid: int) -> str | None:
    if not LINUX:
        return "R"
    line = read_if_there(f"/proc/{pid}/stat")
    return line.rpartition(b") ")[2][:1].decode() if line else None


def has_execed(pid: int) -> bool:
    """Whether a forked process has exec'd, dead or alive; True if the kernel does not tell."""
    return not stat_of(pid)[FLAGS] & PF_FORKNOEXEC


def first_process(pids: list[int]) -> int:
    """The process that a job was started as, dead or alive: the oldest session leader of these."""
    stats = {pid: stat_of(pid) for pid in pids}
    leaders = [pid for pid in pids if stats[pid][SESSION] == pid]
    return min(leaders or pids, key=lambda pid: (stats[pid][START_TICKS], pid))


def stat_of(pid: int) -> list[int]:
    """The numbers of /proc/<pid>/stat, from the parent on; zeros if there is none."""
    line = read_if_there(f"/proc/{pid}/stat")
    return [0, *map(int, line.rpartition(b") ")[2].split()[1:])] if line else [0] * 50


def pss_bytes(pid: int) -> int | None:
    """The memory of a process, with shared pages counted by share; None if the kernel does not tell."""
    for line in (read_if_there(f"/proc/{pid}/smaps_rollup") or b"").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return None


def send(pid: int, signal_number: int) -> None:
    """Signal one process of ours: never a group by accident, never init."""
    if pid <= 1:
        raise ValueError(f"refusing to signal pid {pid}")
    try:
        os.kill(pid, signal_number)
    except (ProcessLookupError, PermissionError):
        pass  # the process is gone, or runs as another user


def send_to_group(group: int, signal_number: int) -> None:
    """Signal all of a process group at once: no member can fork meanwhile."""
    if group <= 1 or group == os.getpgrp():
        raise ValueError(f"refusing to signal process group {group}")
    try:
        os.killpg(group, signal_number)
    except (ProcessLookupError, PermissionError):
        pass


def group_of(pid: int) -> int:
    """The process group; 0 if the process is gone."""
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


class TreeFreezer:
    """Stops the tree below a process, while the tree may grow.

    A fork bomb forks faster than its processes can be stopped one by one. So with each process its whole
    group is stopped in one step, and only then its children are looked up.
    """

    def __init__(self, root: int, spared: set[int] | None = None) -> None:
        self._root, self._spared = root, spared or set()
        self._frozen: set[int] = set()
        self._groups = {0, 1, os.getpgrp()}

    def freeze(self) -> set[int]:
        """Looks until no other process is found: an orphan is found as our child.

        The number of looks is bounded: there may be processes that we may not stop.
        """
        for _ in range(MOST_LOOKS):
            before = len(self._frozen)
            descendants(self._root, self._freeze)
            if len(self._frozen) == before:
                break
        return self._frozen

    def _freeze(self, pid: int) -> None:
        if pid in self._frozen or pid in self._spared:
            return
        self._frozen.add(pid)
        send(pid, signal.SIGSTOP)
        # The group is the job's: its member is stopped, and cannot leave it.
        group = group_of(pid)
        if group not in self._groups:
            self._groups.add(group)
            send_to_group(group, signal.SIGSTOP)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal between SIGRTMIN and SIGRTMAX
        return f"SIG{number}"


def every_pid() -> list[int]:
    return list(map(int, filter(str.isdigit, os.listdir("/proc")))) if LINUX else []


def marked(job_id: str) -> list[int]:
    """Live processes that carry this job's id in their environment."""
    return [pid for pid in every_pid() if is_marked(pid, job_id)]


def is_marked(pid: int, job_id: str) -> bool:
    return _carries(pid, f"{JOB_ID_VARIABLE}={job_id}".encode())


def _carries(pid: int, mark: bytes) -> bool:
    return mark in (read_if_there(f"/proc/{pid}/environ") or b"").split(b"\0")


def job_of(pid: int) -> str | None:
    """The job that a process belongs to, by the mark in its environment."""
    prefix = f"{JOB_ID_VARIABLE}=".encode()
    for entry in (read_if_there(f"/proc/{pid}/environ") or b"").split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode(errors="replace")
    return None
