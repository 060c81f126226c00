"""The shim and the guard of a job: found in the process table, continued, asked by signals.

They are recognised by their process names and by the lock that they hold, not by a record: a job can write
records.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, Self

from bgjob.link import sweep
from bgjob.system import processes
from bgjob.system.processes import GUARD, PARENT, SHIM, START_TICKS

REMOVED = " (deleted)"


class Identity(NamedTuple):
    """How the supervisors of a job are recognised."""

    job_id: str
    directory: str
    """The working directory of the shim, removed or not."""
    lock_paths: Callable[[], Iterable[str]]
    """Names of the file whose lock both hold; not needed if a shim's pid is known."""


class Supervisors:
    """Pinned by pidfds: a pid that was reused is not signalled."""

    def __init__(self, identity: Identity, shim_pid: int | None = None) -> None:
        """A right `shim_pid` saves looking at every process."""
        self._pins = contextlib.ExitStack()
        self._shims: dict[int, sweep.Pin] = {}
        self._guards: dict[int, sweep.Pin] = {}
        finder = Finder(identity)
        self._take({shim_pid} if shim_pid and finder.is_shim(shim_pid) else finder.all())
        self._take({processes.stat_of(pid)[PARENT] for pid in self._shims} - {0, 1})

    @property
    def were_found(self) -> bool:
        return bool(self._shims or self._guards)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pins.close()

    def wake(self) -> None:
        """Continue them if they are stopped. SIGHUP makes a shim check that its socket is there."""
        self._send(signal.SIGCONT, {**self._guards, **self._shims})
        self._send(signal.SIGHUP, self._shims)

    def terminate(self) -> None:
        """Ask the shim to end its job."""
        self._send(signal.SIGTERM, self._shims)
        self.wake()

    def job_processes(self) -> list[int]:
        """The processes below shim and guard."""
        below = {pid for root in self._ours() for pid in processes.descendants(root)}
        return processes.alive(list(below - self._ours()))

    def kill_job(self) -> int:
        """End all processes of the job, stopped first so that none can fork; how many."""
        frozen = {pid for root in self._ours() for pid in processes.TreeFreezer(root, self._ours()).freeze()}
        killed = sweep.kill_each({pid: processes.stat_of(pid)[START_TICKS] for pid in frozen})
        self.wake()
        return killed

    def are_gone(self, patience_s: float) -> bool:
        """Whether all of them end in time."""
        deadline = time.monotonic() + patience_s
        pins = [*self._shims.values(), *self._guards.values()]
        return all(pin.is_gone(max(0.0, deadline - time.monotonic())) for pin in pins)

    def _ours(self) -> set[int]:
        return {*self._shims, *self._guards}

    def _take(self, pids: Iterable[int]) -> None:
        """Sorted by role, which is read after the process is pinned: a reused pid has another one."""
        for pid in pids:
            with contextlib.suppress(OSError):  # the process is gone
                pin = sweep.Pin(pid)
                self._pins.callback(pin.close)
                pins = {SHIM: self._shims, GUARD: self._guards}.get(_role(pid), {})
                pins[pid] = pin

    def _send(self, number: signal.Signals, pins: dict[int, sweep.Pin]) -> None:
        for pin in pins.values():
            with contextlib.suppress(OSError):  # the process is gone
                pin.send(number)


class Finder:
    def __init__(self, identity: Identity) -> None:
        directory = os.path.realpath(identity.directory)
        self._identity, self._directories = identity, (directory, directory + REMOVED)

    def is_shim(self, pid: int) -> bool:
        return (
            processes.name_of(pid) == SHIM and processes.link_target(f"/proc/{pid}/cwd") in self._directories
        )

    def all(self) -> set[int]:
        """A guard that has lost its shim may not have received the lock yet: it has children of the job."""
        names = {pid: processes.name_of(pid) for pid in processes.every_pid()}
        locks = {_inode(path) for path in self._identity.lock_paths()} - {None}
        ours = [pid for pid, name in names.items() if name in (SHIM, GUARD)]
        if found := {pid for pid in ours if self.is_shim(pid) or locks & _open_files(pid)}:
            return found
        parents = {processes.stat_of(pid)[PARENT] for pid in sweep.members(self._identity.job_id)}
        return {pid for pid in parents if names.get(pid) == GUARD}


def _role(pid: int) -> str:
    """SHIM, GUARD or another name. The job's process has its shim's name until it is exec'd, and is no shim."""
    name = processes.name_of(pid) or ""
    is_job = name == SHIM and processes.name_of(processes.stat_of(pid)[PARENT]) == SHIM
    return "" if is_job else name


def _open_files(pid: int) -> set[tuple[int, int] | None]:
    directory = f"/proc/{pid}/fd"
    return {_inode(f"{directory}/{name}") for name in _listed(directory)}


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []  # the process is gone, or another user's
