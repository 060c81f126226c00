"""A thread that keeps a Live up to date, for a face that draws meanwhile."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from bgjob.api.context import Context
from bgjob.api.live import Live, LiveJobs
from bgjob.core.errors import BgjobError

LOOK_EVERY_S = 1.0
# One part in so many of a processor is taken at most: of very many jobs, less is seen.
SHARE = 10
# While jobs are read for the first time, what is known is told so often.
TELL_EVERY_S = 0.1


class LiveReader:
    def __init__(self, context: Context, tell: Callable[[], None]) -> None:
        """`tell` is called in the thread when `latest` is new."""
        self.latest = Live()
        self._jobs, self._tell = LiveJobs(context), tell
        self._look_at = 0.0
        self._happened: deque[str] = deque()
        self._wake, self._is_closed = threading.Event(), False

    def start(self) -> None:
        threading.Thread(target=self._run, name="live jobs", daemon=True).start()

    def close(self) -> None:
        self._is_closed = True
        self._wake.set()

    def look_now(self) -> None:
        """Something has just been done to a job."""
        self._look_at = 0.0
        self._wake.set()

    def look_at(self, job_ids: Iterable[str]) -> None:
        """Something has just happened to these jobs."""
        self._happened.extend(job_ids)
        self._wake.set()

    def _run(self) -> None:
        while not self._is_closed:
            is_more, problem = False, None
            self._wake.clear()
            try:
                self._jobs.look_at({self._happened.popleft() for _ in range(len(self._happened))})
                is_more = self._jobs.read_more(time.monotonic() + TELL_EVERY_S)
                self._look_if_due()
            except BgjobError as error:
                problem = str(error)
            except OSError as error:  # no more descriptors, or no memory: it may pass
                problem = f"The jobs cannot be read now: {error.strerror}."
            self.latest = self._jobs.snapshot(problem)
            self._tell()
            if not is_more:
                self._wake.wait(LOOK_EVERY_S if problem else max(0.0, self._look_at - time.monotonic()))

    def _look_if_due(self) -> None:
        began = time.monotonic()
        if began >= self._look_at:
            self._jobs.look()
            took_s = time.monotonic() - began
            self._look_at = began + max(LOOK_EVERY_S, SHARE * took_s)
