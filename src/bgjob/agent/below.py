"""The process of ours that an engine started, above all jobs that run in its allocation.

    this process ── guard ── shim ── a job ── its descendants
                 └─ zygote ── guard ── shim ── …       of a held allocation

An engine may send SIGTERM to this process alone, or to all: the shims are told in either case, and once.
"""

import contextlib
import os
import select
import signal
import socket

from bgjob.system import processes

TOLD_AGAIN_S = 0.05
SIGNALS_MAX_BYTES = 512


class Below:
    """What is below us. Made in the main thread, before anything is started."""

    def __init__(self) -> None:
        self.is_stopping = False
        """SIGTERM has come: nothing is to be started any more."""
        self._told: set[int] = set()
        processes.adopt_orphans()  # a shim whose guard was killed, a guard whose zygote has ended
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self._signals, self._wakes = ours, theirs
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.signal(signal.SIGTERM, self._on_term)
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)

    def shims(self) -> list[int]:
        """One for each job that is not over: a spare shim of a zygote has not taken that name."""
        return [pid for pid in processes.descendants(os.getpid()) if processes.name_of(pid) == processes.SHIM]

    def wait_for_all(self) -> None:
        """Until we have no children."""
        while self.reap():
            self.wait(None)

    def wait(self, timeout_s: float | None, *listening: socket.socket) -> bool:
        """Until a child ends, SIGTERM comes, the time is over, or (True) one of `listening` has something."""
        if self.is_stopping:
            self._tell()
            timeout_s = TOLD_AGAIN_S if timeout_s is None else min(timeout_s, TOLD_AGAIN_S)
        ready, _, _ = select.select([self._signals, *listening], [], [], timeout_s)
        with contextlib.suppress(BlockingIOError):
            self._signals.recv(SIGNALS_MAX_BYTES)
        return bool({*ready} & {*listening})

    def reap(self) -> bool:
        """False: there is no child left."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return False
        return True

    def _tell(self) -> None:
        """A shim that has just begun ignores SIGTERM until it can act on it: so it is told later."""
        for pid in self.shims():
            if pid not in self._told and _acts_on_term(pid):
                self._told.add(pid)
                processes.send(pid, signal.SIGTERM)

    def _on_term(self, _number: int, _frame: object) -> None:
        self.is_stopping = True


def _nothing(_number: int, _frame: object) -> None:
    """Its arrival alone ends a wait."""


def _acts_on_term(pid: int) -> bool:
    for line in (processes.read_if_there(f"/proc/{pid}/status") or b"").splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False
