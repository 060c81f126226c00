"""Ending a job and all it started: a polite signal to the tree, a grace, then SIGKILL until nothing is left."""

from __future__ import annotations

import os
import signal

from bgjob import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from bgjob.shim.desk import Visitor
    from bgjob.shim.loop import Loop, Timer

STRIKE_AGAIN_S = 0.02
MOST_LOOKS = 100


class Stop:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._strike_timer: Timer | None = None
        self._processes = 0
        self._visitors: list[tuple[Visitor, bool]] = []

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

    def tell_when_done(self, visitor: Visitor, was_running: bool) -> None:
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

    def forget(self, visitor: Visitor) -> None:
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
        frozen = Freezing().all()
        self._count(list(frozen))
        for pid in frozen:
            processes.send(pid, signal.SIGKILL)
        if self._strike_timer:
            self._strike_timer.cancel()
        self._strike_timer = None
        self._strike_in(STRIKE_AGAIN_S)


class Freezing:
    """Stops a tree that may grow all the while. A fork bomb outruns whoever goes one by one: with each process all of
    its group is stopped in one step, and only then its children are looked up."""

    def __init__(self) -> None:
        self._frozen: set[int] = set()
        self._groups = {0, 1, os.getpgrp()}

    def all(self) -> set[int]:
        """Until a look finds no other: one that has lost its parent is found as our child. Not for ever: there may be
        some that we may not stop."""
        for _ in range(MOST_LOOKS):
            before = len(self._frozen)
            processes.descendants(os.getpid(), self._freeze)
            if len(self._frozen) == before:
                break
        return self._frozen

    def _freeze(self, pid: int) -> None:
        if pid in self._frozen:
            return
        self._frozen.add(pid)
        processes.send(pid, signal.SIGSTOP)
        group = processes.group_of(pid)  # ours: it is that of a process of ours that cannot leave it any more
        if group not in self._groups:
            self._groups.add(group)
            processes.send_to_group(group, signal.SIGSTOP)
