"""Jobs that wait: taken out of the queue, or moved within it."""

import contextlib
import os

from bgjob.api.status import Looking
from bgjob.core import options
from bgjob.core.errors import InvalidArgument, NotSteerable
from bgjob.core.job import Job
from bgjob.home import event_log, queue_dir


class Queueing(Looking):
    def prioritize(self, job_id: str, priority: int) -> None:
        """Those with a higher priority start first; among equals, the older."""
        number = options.checked({"priority": priority})["priority"]
        self._store.load(job_id)
        if not self._moved(job_id, number):
            raise InvalidArgument(f"Job {job_id} is not in the queue: it has started, or ended.")

    def _moved(self, job_id: str, priority: int) -> bool:
        """False: it does not wait any more."""
        home = self._store.home
        while entry := self._entry(job_id):
            if not queue_dir.is_startable(self._store.directory(job_id)):
                return False
            # somebody else has moved it meanwhile, or started it
            with contextlib.suppress(FileNotFoundError):
                queue_dir.move(home, entry, priority)
                event_log.append(self._store.events, "moved", job_id, priority=priority)
                self._see_to_the_queue()
                return True
        return False

    def _entry(self, job_id: str) -> str | None:
        return next((entry for entry in self._store.waiting() if queue_dir.job_of(entry) == job_id), None)

    def _cancel(self, job_id: str) -> Job | None:
        """Take it out of the queue; None if it is not in it, or somebody is about to start it."""
        directory = self._store.directory(job_id)
        lock = queue_dir.hold(directory) if queue_dir.is_waiting(directory) else None
        if lock is None:
            return None
        try:
            if not queue_dir.is_startable(directory):
                return None
            queue_dir.end_unstarted(directory, cause="killed", exit_code=None, signal=None)
        except OSError as error:
            raise NotSteerable(job_id, f"its end could not be written down: {error}") from error
        finally:
            os.close(lock)
        with contextlib.suppress(OSError):  # then whoever drains the queue finds that it has ended
            if entry := queue_dir.find(self._store.home, job_id):
                queue_dir.leave(self._store.home, entry)
        event_log.append(self._store.events, "ended", job_id, cause="killed", reason="cancelled in the queue")
        if self._store.waiting():
            self._see_to_the_queue()  # somebody may wait for its end
        return self._store.load(job_id)
