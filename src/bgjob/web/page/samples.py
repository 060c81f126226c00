"""CPU and memory of the jobs that run, over the last ten minutes; and the disk of the store."""

import threading
from collections import deque
from typing import Any

from bgjob.api.live import Live, Row

MOST_SAMPLES = 600
# Of very many jobs, a page is sent fewer samples of each.
MOST_SENT = 60_000
PART = 5000

Sample = tuple[float, float | None, int | None]
"""When, in seconds since the epoch; the share of one processor in percent; bytes of memory."""


class Samples:
    """For any thread."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._of: dict[str, deque[Sample]] = {}
        self.at = 0.0
        """When the last ones were taken; 0: never."""
        self.store: dict[str, int] | None = None
        """Bytes of all jobs on disk, and bytes that are free there; None: not measured yet."""

    def update(self, live: Live) -> None:
        if live.looked_at == self.at:
            return
        with self._mutex:
            self.at, before = live.looked_at, self._of
            self._of = {}
            for row in live.current:
                if row.group != "queued":
                    own = self._of[row.job.id] = before.get(row.job.id) or deque(maxlen=MOST_SAMPLES)
                    own.append(_sample(row, self.at))

    def latest(self) -> dict[str, Any]:
        with self._mutex:
            jobs = {job_id: own[-1][1:] for job_id, own in self._of.items()}
        return {"at": self.at, "jobs": jobs, **({"store": self.store} if self.store else {})}

    def history(self, after: float = 0.0) -> list[dict[str, list[Sample]]]:
        """Of each job the samples that were taken later, the oldest first; some jobs at a time."""
        with self._mutex:
            most = MOST_SENT // max(1, len(self._of))
            kept = {job_id: [each for each in own if each[0] > after] for job_id, own in self._of.items()}
        parts: list[dict[str, list[Sample]]] = [{}]
        for job_id, own in kept.items():
            if sum(map(len, parts[-1].values())) >= PART:
                parts.append({})
            parts[-1][job_id] = own[-most:]
        return parts


def _sample(row: Row, at: float) -> Sample:
    cpu = row.cpu_percent
    return at, None if cpu is None else round(cpu, 1), row.memory_bytes
