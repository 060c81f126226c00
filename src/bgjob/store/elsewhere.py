"""The home of another machine, seen through a directory that both have.

Locks, boots, pids and sockets in it mean nothing here. What has ended is on disk, log and all, once its outcome is
sealed; of other jobs nothing can be known from here. Nothing is written.
"""

from bgjob.core.frozen import replace
from bgjob.core.job import Ended, Job, Running
from bgjob.home import jobdir
from bgjob.home.jobdir import OUTCOME
from bgjob.store.store import Store


class StoreElsewhere(Store):
    is_elsewhere = True

    def prepare(self) -> None:
        """It is prepared by its own machine."""

    def check_home_exists(self) -> None:
        """A machine that has run no job yet has none."""

    def _read(self, job_id: str, directory: str) -> Job:
        job = super()._read(job_id, directory)
        if isinstance(job.state, Ended) and jobdir.is_sealed(f"{directory}/{OUTCOME}"):
            return job
        self.forget(job_id)
        return replace(job, state=Running(job.run))
