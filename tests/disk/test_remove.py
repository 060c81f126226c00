"""Removing jobs while others read and remove them: each sees all of a job or nothing of it."""

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bgjob.api import Jobs, remove
from bgjob.api.remove import Removed, clean, removable, remove_job
from bgjob.core.errors import BgjobError, CannotRemove, InUse, JobNotFound
from bgjob.core.job import Ended, Lost
from bgjob.system import processes
from tests.support.gate import Gate
from tests.support.requires import linux_only
from tests.support.shims import kill_both
from tests.support.stores import ended_job, listed, running_job, write_outcome
from tests.support.waiting import wait_until


def together(*acts: Callable[[], None]) -> None:
    """Each in a thread of its own; what one of them raises is raised here."""
    with ThreadPoolExecutor(len(acts)) as threads:
        for done in [threads.submit(act) for act in acts]:
            done.result()


def test_a_reader_sees_a_whole_job_or_none(jobs: Jobs) -> None:
    ids = [ended_job(jobs.store) for _ in range(60)]
    over = threading.Event()

    def remove_all() -> None:
        try:
            for job_id in ids:
                remove_job(jobs.context, job_id)
        finally:
            over.set()

    def read() -> None:
        while not over.is_set():
            for job in jobs.list(limit=1000).jobs:
                assert isinstance(job.state, Ended)
                try:
                    assert jobs.status(job.id).job.state == job.state
                    jobs.output(job.id)
                except JobNotFound:
                    continue

    together(remove_all, read, read)
    assert listed(jobs.store) == []


def test_of_two_who_remove_a_job_one_does(jobs: Jobs) -> None:
    ids = [ended_job(jobs.store) for _ in range(40)]
    removed = list[str]()

    def remove_all() -> None:
        for job_id in ids:
            try:
                removed.append(remove_job(jobs.context, job_id).job.id)
            except JobNotFound:
                continue

    together(remove_all, remove_all)
    assert set(removed) == set(ids)
    assert listed(jobs.store) == []


def test_a_job_whose_shim_lives_stays(jobs: Jobs) -> None:
    new = running_job(jobs.store)
    job_id = Path(new.directory).name
    with pytest.raises(InUse, match="it runs"):
        remove_job(jobs.context, job_id)
    assert [found.job.id for _, found in removable(jobs.context, every=True)] == []
    os.close(new.lock)


class LeavingShim:
    """A clock by which a shim leaves while we wait for it."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self, lock: int) -> None:
        self._lock, self.is_gone = lock, False

    def sleep(self, _seconds: float) -> None:
        if not self.is_gone:
            os.close(self._lock)
        self.is_gone = True


def test_a_shim_is_given_a_moment_to_leave(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    new = running_job(jobs.store)
    write_outcome(Path(new.directory))
    shim = LeavingShim(new.lock)
    monkeypatch.setattr(remove, "time", shim)
    remove_job(jobs.context, Path(new.directory).name)
    assert shim.is_gone
    assert listed(jobs.store) == []


@linux_only
def test_a_lost_job_stays_while_processes_of_it_live(jobs: Jobs, gate: Gate) -> None:
    job_id = jobs.execute(f"{gate.reach}; exec sleep 1000").id
    gate.wait_until_reached()
    kill_both(jobs, job_id)
    assert isinstance(jobs.status(job_id).job.state, Lost)
    with pytest.raises(InUse, match="it has left processes running, 1"):
        remove_job(jobs.context, job_id)
    assert list(removable(jobs.context, every=True)) == []
    remove_job(jobs.context, job_id, kill=True)
    assert (listed(jobs.store), processes.marked(job_id)) == ([], [])


def test_a_job_that_is_waited_for_by_now_stays(jobs: Jobs) -> None:
    """A person may take a minute to say yes."""
    job_id = ended_job(jobs.store)
    old = list(removable(jobs.context, every=True))
    jobs.execute("true", after=[job_id], options={"delay_s": 1000})
    (kept,) = clean(jobs.context, old)
    assert isinstance(kept, CannotRemove)
    assert job_id in listed(jobs.store)


def test_what_cannot_be_moved_is_told_and_stays_listed(jobs: Jobs) -> None:
    stuck, other = ended_job(jobs.store), ended_job(jobs.store)
    (Path(jobs.home, "trash") / stuck / "in the way").mkdir(parents=True)
    done = list(clean(jobs.context, list(removable(jobs.context, every=True))))
    assert [each.job.id for each in done if isinstance(each, Removed)] == [other]
    assert [each.what for each in done if isinstance(each, CannotRemove)] == [
        f"Job {stuck} is not removed: its directory cannot be moved away."
    ]
    assert listed(jobs.store) == [stuck]


def test_its_size_is_told_before_and_after(jobs: Jobs, ended: Callable[[str], object]) -> None:
    job_id = jobs.execute("seq 100000").id
    ended(job_id)
    wait_until(lambda: not jobs.has_shim(job_id), "its shim has left")
    ((_, before),) = removable(jobs.context, every=True)
    after = remove_job(jobs.context, job_id)
    assert before.freed_bytes == after.freed_bytes > 500_000


def test_there_is_nothing_to_remove_of_a_job_that_is_not_there(jobs: Jobs) -> None:
    job_id = ended_job(jobs.store)
    remove_job(jobs.context, job_id)
    with pytest.raises(BgjobError, match="not found"):
        remove_job(jobs.context, job_id)
