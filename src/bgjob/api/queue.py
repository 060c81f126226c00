"""Jobs that wait: taken out of the queue, or moved within it."""

import os

from bgjob import event_log, queue_dir, terms
from bgjob.api.look import Looking
from bgjob.errors import InvalidArgument
from bgjob.job import Job


class Queueing(Looking):
    def prioritize(self, job_id: str, priority: int) -> None:
        """Those with a higher priority start first; among equals, the older."""
        number = terms.checked({"priority": priority})["priority"]
        self._store.load(job_id)
        entry = queue_dir.find(self._store.home, job_id)
        try:
            if entry is None:
                raise FileNotFoundError
            queue_dir.move(self._store.home, entry, number)
        except FileNotFoundError:
            raise InvalidArgument(f"Job {job_id} is not in the queue: it has started, or ended.") from None
        event_log.append(self._store.events, "moved", job_id, priority=number)
        queue_dir.kick(self._store.home)

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
        finally:
            os.close(lock)
        if entry := queue_dir.find(self._store.home, job_id):
            queue_dir.leave(self._store.home, entry)
        event_log.append(self._store.events, "ended", job_id, cause="killed", reason="cancelled in the queue")
        queue_dir.kick(self._store.home)  # somebody may wait for its end
        return self._store.load(job_id)
