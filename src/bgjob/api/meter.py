"""CPU and memory of one job over time, from what its processes have used at each look."""

import math
from collections import deque

from bgjob.api.activity import Activity

MOST_SAMPLES = 60
# The kernel counts CPU in hundredths of a second: over less than this, a share would be chance.
LEAST_S = 0.3


class Meter:
    def __init__(self) -> None:
        self._at, self._cpu_s = -math.inf, None
        self.cpu_percent: float | None = None
        """Of one processor, since the look before; None: that is not known."""
        self.memory_bytes: int | None = None
        self.cpu_history: deque[float] = deque(maxlen=MOST_SAMPLES)
        self.memory_history: deque[float] = deque(maxlen=MOST_SAMPLES)

    _cpu_s: float | None

    def add(self, used: Activity, at: float) -> None:
        """`at`: by a clock that is never set. Too soon after the look before, it is not counted."""
        if at < self._at + LEAST_S:
            return
        self.cpu_percent = self._percent(used.cpu_s, at)
        self.memory_bytes = used.memory_bytes
        self._at, self._cpu_s = at, used.cpu_s
        if self.cpu_percent is not None:
            self.cpu_history.append(self.cpu_percent)
        if self.memory_bytes is not None:
            self.memory_history.append(self.memory_bytes)

    def _percent(self, cpu_s: float | None, at: float) -> float | None:
        """A process that ends unseen takes its share with it: the sum can fall, the use cannot."""
        if cpu_s is None or self._cpu_s is None:
            return None
        return 100 * max(0.0, cpu_s - self._cpu_s) / (at - self._at)
