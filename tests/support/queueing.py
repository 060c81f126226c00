"""What tests of the queue share."""

import sys
from collections.abc import Callable
from pathlib import Path

from bgjob.api import Conditions, Jobs
from bgjob.core.job import State
from tests.support.gate import Gate

OpenJobs = Callable[..., Jobs]


BGJOB = str(Path(sys.executable).with_name("bgjob"))


class Diary:
    """Jobs write themselves into it as they start."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def entry(self, word: str) -> str:
        return f"echo {word} >> {self._path}"

    def words(self) -> list[str]:
        return self._path.read_text().split() if self._path.exists() else []


def occupy(jobs: Jobs, gate: Gate, **options: object) -> str:
    """A job that runs until the gate opens."""
    job_id = jobs.execute(gate.pause, **options).id  # type: ignore[arg-type]
    gate.wait_until_reached()
    return job_id


def state(jobs: Jobs, job_id: str) -> State:
    return jobs.status(job_id).job.state


def ends(jobs: Jobs, *job_ids: str) -> list[State]:
    waited = jobs.wait(list(job_ids), Conditions(), mode="all", timeout_s=30)
    return [each.status.job.state for each in waited]
