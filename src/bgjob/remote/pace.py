"""How often a cluster is asked how its jobs stand: its controller works for everybody."""

import math
from collections.abc import Callable

EVERY_S, LONGEST_PAUSE_S = 5.0, 60.0


class Pace:
    """One look every few seconds, fewer while none is answered; and one before its time after a change."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next_at = self._next_extra_at = -math.inf
        self._wants_extra = False
        self._pause_s = EVERY_S

    def note_change(self) -> None:
        """A job was submitted or cancelled: what was seen before is out of date."""
        self._wants_extra = True

    def due_in_s(self) -> float:
        """0: now."""
        due_at = min(self._next_at, self._next_extra_at) if self._wants_extra else self._next_at
        return max(0.0, due_at - self._clock())

    def note_look(self, *, answered: bool) -> None:
        now = self._clock()
        if now < self._next_at:
            self._next_extra_at = now + EVERY_S
        self._pause_s = EVERY_S if answered else min(2 * self._pause_s, LONGEST_PAUSE_S)
        self._next_at = now + self._pause_s
        if not answered:
            self._next_extra_at = self._next_at
        self._wants_extra = False
