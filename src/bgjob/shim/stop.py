"""Ending a job and all it started: a polite signal to the tree, a grace, then SIGKILL until nothing is left."""

from __future__ import annotations

import os
import signal

from bgjob.system import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.shim.control_server import Connection
    from bgjob.shim.loop import Loop, Timer

STRIKE_AGAIN_S = 0.02


class Stop:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._strike_timer: Timer | None = None
        self._processes = 0
        self._visitors: list[tuple[Connection, bool]] = []

    def begin(self, signal_number: int, grace_s: float) -> None:
        """A second request may shorten the grace of the first, never lengthen it."""
        if signal_number == signal.SIGKILL:
            return self._strike()
        tree = processes.descendants(os.getpid())
        self._count(tree)
        for pid in tree:
            processes.send(pid, signal_number)
            processes.send(pid, signal.SIGCONT)  # a stopped process hears nothing but SIGKILL
        self._strike_in(grace_s)

    def _count(self, tree: list[int]) -> None:
        self._processes = max(self._processes, len(processes.alive(tree)))

    def tell_when_done(self, visitor: Connection, was_running: bool) -> None:
        self._visitors.append((visitor, was_running))

    def done(self) -> None:
        """Nothing is left."""
        for visitor, was_running in self._visitors:
            visitor.answer(ok=True, was_running=was_running, processes=self._processes)
        self._visitors.clear()

    def rest(self) -> None:
        """Nothing is left to strike at; others may come."""
        if self._strike_timer:
            self._strike_timer.cancel()
            self._strike_timer = None
        self._processes = 0

    def forget(self, visitor: Connection) -> None:
        self._visitors = [entry for entry in self._visitors if entry[0] is not visitor]

    def _strike_in(self, delay_s: float) -> None:
        timer = self._loop.call_later(delay_s, self._strike)
        if self._strike_timer and self._strike_timer.at <= timer.at:
            timer.cancel()
            return
        if self._strike_timer:
            self._strike_timer.cancel()
        self._strike_timer = timer

    def _strike(self) -> None:
        """Freeze first, so that nothing can multiply while we shoot; again until wait() says there is none."""
        frozen = processes.Freezing(os.getpid()).all()
        self._count(list(frozen))
        for pid in frozen:
            processes.send(pid, signal.SIGKILL)
        if self._strike_timer:
            self._strike_timer.cancel()
        self._strike_timer = None
        self._strike_in(STRIKE_AGAIN_S)
