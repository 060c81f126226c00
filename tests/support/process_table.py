"""Processes, as the kernel shows them."""

import contextlib
import os
import select
import signal
from pathlib import Path
from typing import NamedTuple

from bgjob.system import processes
from tests.support.waiting import PATIENCE_S


class Seen(NamedTuple):
    """A process as the kernel shows it."""

    pid: int
    name: str
    state: str
    parent: int


def every_pid() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def seen(pid: int) -> Seen | None:
    """None: it is gone."""
    line = processes.read_if_there(f"/proc/{pid}/stat")
    if not line:
        return None
    name, _, rest = line.decode().partition("(")[2].rpartition(") ")
    state, parent, *_ = rest.split()
    return Seen(pid, name, state, int(parent))


def is_stopped(pid: int) -> bool:
    now = seen(pid)
    return now is not None and now.state == "T"


def go_on(pid: int) -> None:
    """One that is stopped; and, of a shim, the guard that was stopped with it, because it would have continued it."""
    now = seen(pid)
    os.kill(pid, signal.SIGCONT)
    if now and processes.name_of(now.parent) == processes.GUARD:
        os.kill(now.parent, signal.SIGCONT)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


def cpu_s(pid: int) -> float:
    """Of the process itself, without its children; 0 where there is no /proc."""
    return sum(processes.stat_of(pid)[11:13]) / os.sysconf("SC_CLK_TCK")


def wait_until_gone(pid: int) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([pidfd], [], [], PATIENCE_S)[0], f"{pid} is still there"
    finally:
        os.close(pidfd)


def end_whoever_is_in(directory: Path) -> None:
    """Whoever works there or has a file open there, and is not us: the last resort after a rule was broken."""
    for pid in every_pid():
        with contextlib.suppress(OSError):
            process = Path(f"/proc/{pid}")
            held = [path.readlink() for path in [process / "cwd", *(process / "fd").iterdir()]]
            if pid != os.getpid() and any(path.is_relative_to(directory) for path in held):
                os.kill(pid, signal.SIGKILL)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
