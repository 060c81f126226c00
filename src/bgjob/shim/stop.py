"""Ending a job and all it started: a signal to the tree, a grace, then SIGKILL until no process is left."""

from __future__ import annotations

import os
import signal

from bgjob.system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.shim.control_server import Connection
    from bgjob.shim.loop import Loop, Timer

KILL_AGAIN_S = 0.02


class Stop:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._kill_timer: Timer | None = None
        self._processes = 0
        self._connections: list[tuple[Connection, bool]] = []

    def begin(self, signal_number: int, grace_s: float) -> None:
        """A second call may shorten the grace of the first, never lengthen it."""
        if signal_number == signal.SIGKILL:
            return self._kill()
        tree = processes.descendants(os.getpid())
        self._count(tree)
        for pid in tree:
            processes.send(pid, signal_number)
            processes.send(pid, signal.SIGCONT)  # a stopped process acts on no signal but SIGKILL
        self._kill_in(grace_s)

    def _count(self, tree: list[int]) -> None:
        self._processes = max(self._processes, len(processes.alive(tree)))

    def tell_when_done(self, connection: Connection, was_running: bool) -> None:
        self._connections.append((connection, was_running))

    def done(self, **more: object) -> None:
        """No process is left."""
        for connection, was_running in self._connections:
            connection.answer(ok=True, was_running=was_running, processes=self._processes, **more)
        self._connections.clear()

    def reset(self) -> None:
        """All processes of this run are gone; a later run may be killed again."""
        if self._kill_timer:
            self._kill_timer.cancel()
            self._kill_timer = None
        self._processes = 0

    def forget(self, connection: Connection) -> None:
        self._connections = [entry for entry in self._connections if entry[0] is not connection]

    def _kill_in(self, delay_s: float) -> None:
        timer = self._loop.call_later(delay_s, self._kill)
        if self._kill_timer and self._kill_timer.at <= timer.at:
            timer.cancel()
            return
        if self._kill_timer:
            self._kill_timer.cancel()
        self._kill_timer = timer

    def _kill(self) -> None:
        """Freeze first, so that none can fork meanwhile; again until wait() says that there are none."""
        frozen = processes.TreeFreezer(os.getpid()).freeze()
        self._count(list(frozen))
        for pid in frozen:
            processes.send(pid, signal.SIGKILL)
        if self._kill_timer:
            self._kill_timer.cancel()
        self._kill_timer = None
        self._kill_in(KILL_AGAIN_S)
