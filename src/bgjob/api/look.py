"""Looking at jobs: one, a page of them, or the one a person means."""

from bgjob.api.answers import Look, Page
from bgjob.api.door import Door
from bgjob.errors import InvalidArgument, JobNotFound
from bgjob.job import Job, StatusWord, status_word
from bgjob.store import JOB_ID


class Looking(Door):
    def look(self, job_id: str) -> Look:
        job = self._store.load(job_id)
        output_bytes = self._reading(job_id, lambda log: log.end)
        return Look(job, output_bytes, len(self._processes(job)))

    def list(self, status: StatusWord | None = None, limit: int = 100, cursor: str | None = None) -> Page:
        self._clean()
        found: list[tuple[str, Job]] = []
        for place, job in self._store.jobs(before=cursor):
            if status is None or status_word(job.state) == status:
                if len(found) == limit:
                    return Page([job for _, job in found], found[-1][0])
                found.append((place, job))
        return Page([job for _, job in found], None)

    def find(self, prefix: str) -> Job:
        """The one job whose id starts so, or the newest with this name: for people, who do not type UUIDs."""
        if JOB_ID.fullmatch(prefix):
            return self._store.load(prefix)
        by_id = [job_id for _, job_id in self._store.ids() if prefix and job_id.startswith(prefix)]
        if len(by_id) == 1:
            return self._store.load(by_id[0])
        if len(by_id) > 1:
            raise InvalidArgument(
                f"{prefix!r} fits {len(by_id)} jobs: {', '.join(by_id[:5])}. Give more of the id."
            )
        for _, job in self._store.jobs():
            if job.spec.name == prefix:
                return job
        raise JobNotFound(prefix)
