"""What a test leaves of its home: nothing that runs."""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from bgjob.api import Jobs, open_jobs
from bgjob.core.errors import JobNotFound
from bgjob.core.job import Running
from bgjob.home import queue_dir
from bgjob.system import processes
from tests.support.waiting import wait_until


def empty_queue(jobs: Jobs, home: Path) -> None:
    """First: else what ends makes room for what waits. Then there is nobody left who would start anything."""
    for entry in queue_dir.entries(str(home)):
        with contextlib.suppress(JobNotFound):
            jobs.kill(queue_dir.job_of(entry), grace_s=0)
    wait_until(lambda: not queue_dir.has_dispatcher(str(home)), "a queue without jobs has no drainer")


def end_all_jobs(home: Path, environ: Mapping[str, str] | None = None) -> None:
    """No test leaves a process behind. `environ`: names the config of targets, if the home has some."""
    if not home.is_dir():
        return
    jobs = open_jobs({**(environ or os.environ), "BGJOB_HOME": str(home)}, many=False)
    empty_queue(jobs, home)
    for job in jobs.list(limit=100_000).jobs:
        look = jobs.status(job.id)
        if look.descendants or (isinstance(look.job.state, Running) and look.job.run):
            jobs.kill(job.id, grace_s=0)
            assert not processes.marked(job.id)
